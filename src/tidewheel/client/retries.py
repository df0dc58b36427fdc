"""Sends a message again later to one subscription, or moves it to the dead letters.

    id A, attempt 0  --retry_later-->  id B, attempt 1, of A  --retry_later-->  id C, attempt 2, of A  --> dead letters

A retry has its own id, since an id contains the due time. A retry has no key: with a key, it would be dropped as a
duplicate of the first message, or replace a newer message. Its header still tells the consumer the key and the version
of the first message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidewheel.client import tracing
from tidewheel.client.redrive import attributes_of
from tidewheel.client.subscription_queues import dead_letter_url_of
from tidewheel.errors import InvalidValue
from tidewheel.model.key import KeyEntry
from tidewheel.model.levels import Backoff
from tidewheel.model.message import HEADER_ATTRIBUTE, IdSource
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.validation import Options, OutgoingMessage, due_at_ms
from tidewheel.storage.bodies import POINTER

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef

Delay = float | timedelta | str

_FIRST_LEVEL = 3
"""The level of RocketMQ's first retry by default: 10s, then 30s, 1m, 2m, ..."""


def retry_due_ms(
    now_ms: int,
    attempt: int,
    levels: Sequence[int] | None,
    *,
    level: int | None,
    backoff: Backoff | None,
    delay: Delay | None,
) -> int:
    """Returns when a retry is due.

    Args:
        attempt: 1 for the first retry.
        levels: seconds of the topic's delay levels; None: RocketMQ's.
        level, backoff, delay: at most one of the three; without them, level 3 for the first retry, level 4 for the
            second, as in RocketMQ.

    Raises:
        InvalidValue: more than one is given, or a value is not usable.
    """
    options = {"level": level, "backoff": backoff, "delay": delay}
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) > 1:
        raise InvalidValue(", ".join(given), tuple(given.values()), "give one of these")
    if backoff is not None:
        if not isinstance(backoff, Backoff):
            raise InvalidValue("backoff", backoff, "give a Backoff, such as Backoff(base='10s', maximum='1h')")
        return now_ms + backoff.delay_ms(attempt)
    if delay is not None:
        return due_at_ms(now_ms, delay=delay)
    return due_at_ms(now_ms, delay_level=attempt + _FIRST_LEVEL - 1 if level is None else level, levels=levels)


def sent_again(
    message: ReceivedMessage, ids: IdSource, due_ms: int, subscription: str, *, expires_at_ms: int | None
) -> OutgoingMessage:
    """Returns a message's retry for one subscription, with the same body and attributes.

    Args:
        message: the received message, with its own body.
    """
    options = Options(
        attempt=message.attempt + 1,
        original_id=message.original_id or message.id,
        only=subscription,
        first_version=None if message.key is None else (message.key, *message.version),
        expires_at_ms=expires_at_ms,
        group=message.group,
    )
    again = OutgoingMessage(
        id=ids.next(due_ms),
        text=message.body,
        encoding=message.encoding,
        attributes=message.attributes,
        options=options,
    )
    return tracing.carrying(again, message.trace_context)


def supersedes(entry: KeyEntry, message: ReceivedMessage) -> bool:
    """Returns whether the message's key was cancelled later, or has a newer message that replaces this message."""
    return entry.floor > message.version


def dead_letter_url(sqs: SQSClient, queue_url: str) -> str:
    """Returns the URL of a queue's dead-letter queue. SQS requires both in the same account and Region.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
    """
    policy = attributes_of(sqs, queue_url, "RedrivePolicy").get("RedrivePolicy")
    if not policy:
        how = (
            "the message has had its last attempt, and this queue has no dead-letter queue for it: set a "
            "RedrivePolicy, raise max_attempts, or delete the message; it stays in the queue"
        )
        raise InvalidValue("queue_url", queue_url, how)
    return dead_letter_url_of(queue_url, policy)


def bury(sqs: SQSClient, dead_url: str, s3_bucket: str, message: ReceivedMessage) -> None:
    """Puts a message into a dead-letter queue, with the body, attributes and header of its delivery."""
    values = {HEADER_ATTRIBUTE: message.header, **message.attributes}
    attributes: dict[str, MessageAttributeValueTypeDef] = {
        name: {"DataType": "String", "StringValue": value} for name, value in values.items()
    }
    group: Mapping[str, Any] = {} if message.group is None else {"MessageGroupId": message.group}
    body = _as_delivered(message, s3_bucket)
    sqs.send_message(QueueUrl=dead_url, MessageBody=body, MessageAttributes=attributes, **group)


def _as_delivered(message: ReceivedMessage, s3_bucket: str) -> str:
    """Returns the body that SQS carried. For a body read from S3, this is the pointer."""
    name = json.loads(message.header).get("ref")
    if name is None or message.payload is not None:
        return message.body
    return json.dumps({POINTER: f"s3://{s3_bucket}/{name}"})
