"""Defines messages of queues in memory, with SQS's checks and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidewheel.errors import InvalidValue, SqsError
from tidewheel.model.settings import SQS_MAX_DELAY_S
from tidewheel.model.validation import ATTRIBUTE_NAME, check_characters

MAX_ATTRIBUTES = 10
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?\Z")
_AMOUNT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)

Attributes = Mapping[str, Mapping[str, Any]]
"""Message attributes in boto3's form: name -> {"DataType": ..., "StringValue" or "BinaryValue": ...}."""


@dataclass(slots=True, kw_only=True, eq=False)
class MemoryMessage:
    """A message in a queue.

    Attributes:
        id: SQS's id of the message.
        arrival: grows with each message; the order of messages that become receivable at the same time.
        ready_at_ms: when the message can be received next; changed by each receive.
        visible_at_ms: when the message could be received first: sending time plus delay.
        receipt_handle: of the last receive.
        source_arn: of a dead letter: the queue from which the message came.
        sent_system_attributes: set by the sender, such as AWSTraceHeader.
    """

    id: str
    body: str
    message_attributes: Attributes
    size_bytes: int
    arrival: int
    sent_at_ms: int
    ready_at_ms: int
    visible_at_ms: int
    receive_count: int = 0
    first_received_at_ms: int | None = None
    receipt_handle: str | None = None
    in_flight: bool = False
    source_arn: str | None = None
    sent_system_attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def system_attributes(self) -> dict[str, str]:
        """All system attributes, with SQS's names."""
        source = {} if self.source_arn is None else {"DeadLetterQueueSourceArn": self.source_arn}
        return {
            **self.sent_system_attributes,
            "SenderId": "AIDAIT2UOQQY3AUEKVGXU",
            "SentTimestamp": str(self.sent_at_ms),
            "ApproximateReceiveCount": str(self.receive_count),
            "ApproximateFirstReceiveTimestamp": str(self.first_received_at_ms),
            **source,
        }


def check_message(body: str, attributes: Attributes, delay_s: int, most_bytes: int) -> int:
    """Returns a message's size in bytes if a queue can accept the message.

    Raises:
        SqsError: SQS would refuse the message.
    """
    if not 0 <= delay_s <= SQS_MAX_DELAY_S:
        raise bad_parameter("DelaySeconds", delay_s, f"DelaySeconds must be >= 0 and <= {SQS_MAX_DELAY_S}.")
    if not body:
        raise SqsError("MissingParameter", "The request must contain the parameter MessageBody.")
    _check_characters(body)
    if len(attributes) > MAX_ATTRIBUTES:
        reason = f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{MAX_ATTRIBUTES}]."
        raise SqsError("InvalidParameterValue", reason)
    for name, value in attributes.items():
        if wrong := _wrong_attribute(name, value):
            raise SqsError("InvalidParameterValue", f"The message attribute '{name}' {wrong}.")
        _check_characters(value.get("StringValue") or "")
    size = message_bytes(body, attributes)
    if size > most_bytes:
        reason = f"One or more parameters are invalid. Reason: Message must be shorter than {most_bytes} bytes."
        raise SqsError("InvalidParameterValue", reason)
    return size


def _wrong_attribute(name: str, value: Mapping[str, Any]) -> str | None:
    """Returns why SQS refuses an attribute. None: SQS takes the attribute."""
    kind = _TYPE.match(value.get("DataType") or "")
    if not ATTRIBUTE_NAME.match(name):
        return "has an invalid name"
    if kind is None:
        return "has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String"
    given = value.get("BinaryValue" if kind[1] == "Binary" else "StringValue")
    if not given:
        return f"must contain a non-empty value of type '{kind[0]}'"
    return "is not a number" if kind[1] == "Number" and not _AMOUNT.match(given) else None


def _check_characters(text: str) -> None:
    try:
        check_characters("the message", text)
    except InvalidValue:
        reason = "The message contains characters outside the allowed set."
        raise SqsError("InvalidMessageContents", reason) from None


def message_bytes(body: str, attributes: Attributes) -> int:
    """Returns a message's size as SQS counts bytes: text, and each attribute's name, type and value."""
    size = len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))
    for name, value in attributes.items():
        text, data = value.get("StringValue"), value.get("BinaryValue", b"")
        size += len(name) + len(value["DataType"]) + (len(data) if text is None else len(text.encode()))
    return size


def bad_parameter(name: str, value: object, reason: str) -> SqsError:
    """Returns SQS's error for an invalid value."""
    return SqsError("InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}")
