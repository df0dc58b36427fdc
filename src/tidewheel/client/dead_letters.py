"""Moves messages to the dead letters, with the reason, and looks at them.

The reason is the field `why` of the header. A letter that SQS itself moved has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidewheel.client import receiving
from tidewheel.client.connection import Connection
from tidewheel.client.redrive import NO_DEAD_LETTERS, attributes_of
from tidewheel.client.subscription_queues import dead_letter_url_of
from tidewheel.errors import InvalidValue, RetryLater
from tidewheel.model.message import HEADER_ATTRIBUTE, SQS_MAX_BYTES, MessageId
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.setting import is_whole
from tidewheel.storage.bodies import POINTER

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MOST_LETTERS = 100
_LOOK_S = 1
"""A receive that waits asks all of SQS's servers. One that does not may miss messages."""
_WHY = "why"
_REASON_CHARACTERS = 200
_LAST_ATTEMPT = (
    "the message has had its last attempt, and this queue has no dead-letter queue for it: set a RedrivePolicy, raise "
    "max_attempts, or delete the message; it stays in the queue"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message in a dead-letter queue.

    Attributes:
        id: the stable id.
        key: the sender's key.
        body: the body as SQS carries it. Of a body that is too large for SQS, the pointer.
        attributes: the sender's attributes.
        deliver_at: when the message was due.
        receives: how often SQS has handed out this copy, looks included.
        sent_at: when the sender sent the message.
        reason: the error with which a consumer gave up, by class and message. None: SQS itself moved the message.
    """

    id: MessageId
    key: str | None
    body: str
    attributes: Mapping[str, str]
    deliver_at: datetime
    receives: int
    sent_at: datetime
    reason: str | None


def dead_letters(connection: Connection, queue_url: str, count: int) -> list[DeadLetter]:
    """Looks into a queue's dead-letter queue. See `Tidewheel.dead_letters`."""
    if not is_whole(count) or not 1 <= count <= MOST_LETTERS:
        raise InvalidValue("n", count, f"give a whole number from 1 to {MOST_LETTERS}")
    url = dead_letter_url(connection.sqs, queue_url, NO_DEAD_LETTERS)
    found = receiving.receive(connection.polling(_LOOK_S), url, count, _LOOK_S, hidden_s=0)
    return [dead_letter_of(each) for each in found]


def dead_letter_of(message: ReceivedMessage) -> DeadLetter:
    """Returns a received message as a dead letter."""
    return DeadLetter(
        id=message.id,
        key=message.key,
        body=message.body,
        attributes=message.attributes,
        deliver_at=message.deliver_at,
        receives=message.receive_count,
        sent_at=message.sent_at,
        reason=_reason(message),
    )


def _reason(message: ReceivedMessage) -> str | None:
    why = json.loads(message.header).get(_WHY)
    return why[:_REASON_CHARACTERS] if isinstance(why, str) else None


def reason_of(error: BaseException | None, otherwise: str) -> str:
    """Returns the class and the message of an error, or another text without an error.

    A RetryLater stands for the error that the function handled when it raised it.
    """
    if isinstance(error, RetryLater):
        error = error.__cause__ or error.__context__
    return otherwise if error is None else f"{type(error).__name__}: {error}"


def dead_letter_url(sqs: SQSClient, queue_url: str, advice: str = _LAST_ATTEMPT) -> str:
    """Returns the URL of a queue's dead-letter queue. SQS requires both in the same account and Region.

    Args:
        advice: what to do without one.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
    """
    policy = attributes_of(sqs, queue_url, "RedrivePolicy").get("RedrivePolicy")
    if not policy:
        raise InvalidValue("queue_url", queue_url, advice)
    return dead_letter_url_of(queue_url, policy)


def bury(sqs: SQSClient, dead_url: str, s3_bucket: str, message: ReceivedMessage, reason: str) -> None:
    """Puts a message into a dead-letter queue, with the body, attributes and header of its delivery, and a reason.

    The reason is left out where the message has no room for it.
    """
    body = _as_delivered(message, s3_bucket)
    values = {HEADER_ATTRIBUTE: _with_reason(message.header, reason), **message.attributes}
    if len(body.encode()) + sum(len(f"{name}String{value}".encode()) for name, value in values.items()) > SQS_MAX_BYTES:
        values[HEADER_ATTRIBUTE] = message.header
    attributes: Any = {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}
    group: Mapping[str, Any] = {} if message.group is None else {"MessageGroupId": message.group}
    sqs.send_message(QueueUrl=dead_url, MessageBody=body, MessageAttributes=attributes, **group)


def _with_reason(header: str, reason: str) -> str:
    # SQS takes no control characters, and a lone surrogate has no bytes.
    printable = "".join(each if each.isprintable() else " " for each in reason[:_REASON_CHARACTERS])
    return json.dumps(json.loads(header) | {_WHY: printable}, ensure_ascii=False, separators=(",", ":"))


def _as_delivered(message: ReceivedMessage, s3_bucket: str) -> str:
    """Returns the body that SQS carried. For a body read from S3, this is the pointer."""
    name = json.loads(message.header).get("ref")
    if name is None or message.payload is not None:
        return message.body
    return json.dumps({POINTER: f"s3://{s3_bucket}/{name}"})
