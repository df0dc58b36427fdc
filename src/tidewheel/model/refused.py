"""Encodes a refused message of the service's queues as a JSON document.

    queue_arn        the queue that the message came from
    sqs_message_id   SQS's id of the message
    sent_at_ms       when SQS took the message
    reason           why no function can ever use the message
    attributes       name -> {"DataType", "StringValue" or "BinaryValue" as base64}
    body             the message's text
    group            its MessageGroupId; missing if it has none

A document that is too large for SQS is an object in S3. Then the queue of refused messages has the first four fields,
and `object_name` instead of the others.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tidewheel.model.received import QueuedMessage
from tidewheel.model.untrusted import mapping, text

GIVEN_UP = "Damaged"
"""The code of the record of messages that an operator gave up."""
REDRIVEN = "redriven"
"""The attribute of a pack that was refused and sent again."""
_MARKS = ("queue_arn", "sqs_message_id", "sent_at_ms", "reason")


def refused_document(message: QueuedMessage, reason: str) -> dict[str, Any]:
    """Returns the document of a refused message."""
    return {
        "queue_arn": message.queue_arn,
        "sqs_message_id": message.id,
        "sent_at_ms": message.sent_at_ms,
        "reason": reason,
        "attributes": {name: _shown(value) for name, value in message.attributes.items()},
        "body": message.body,
        **({} if message.group is None else {"group": message.group}),
    }


def reference(document: Mapping[str, Any], object_name: str) -> dict[str, Any]:
    """Returns the entry in the queue of refused messages for a document stored as an object."""
    return {**{name: document[name] for name in _MARKS}, "object_name": object_name}


def restored(document: Mapping[str, Any]) -> tuple[str, dict[str, dict[str, Any]]]:
    """Returns a refused message's body, and the attributes in boto3's form.

    Raises:
        ValueError: the document is not of a refused message.
    """
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in mapping(document.get("attributes")).items():
        given = attributes[name] = dict(mapping(value))
        if "BinaryValue" in given:
            given["BinaryValue"] = base64.b64decode(text(given["BinaryValue"]), validate=True)
    return text(document.get("body")), attributes


def _shown(value: Mapping[str, Any]) -> dict[str, Any]:
    data = value.get("BinaryValue")
    return dict(value) if data is None else {**value, "BinaryValue": base64.b64encode(data).decode()}
