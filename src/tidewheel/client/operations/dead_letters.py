"""Moves messages to the dead letters, with the reason, looks at them, and moves them back with SQS's own redrive.

The reason is the field `why` of the header. A letter that SQS itself moved has none. See `service_redrive` for the
service's own queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.aws.tries import passes
from tidewheel.client import receiving
from tidewheel.client.connection import Connection
from tidewheel.client.operations.subscription_queues import dead_letter_url_of
from tidewheel.errors import InvalidValue, QueueUnavailable, RetryLater
from tidewheel.model.message import HEADER_ATTRIBUTE, SQS_MAX_BYTES, MessageId
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.untrusted import check_whole
from tidewheel.storage.bodies import POINTER

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MOST_LETTERS = 100
NO_DEAD_LETTERS = "the queue has no dead-letter queue; give it a RedrivePolicy"
_CREATE = "create a queue of this name, or name another queue in the RedrivePolicy; the messages stay where they are"
_LOOK_S = 1
"""A receive that waits asks all of SQS's servers. One that does not may miss messages."""
_WHY = "why"
_REASON_CHARACTERS = 200
_LAST_ATTEMPT = (
    "the message has had its last attempt, and this queue has no dead-letter queue for it: set a RedrivePolicy, raise "
    "max_attempts, or delete the message; it stays in the queue"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveResult:
    """The move of a queue's dead letters back to the queue.

    Attributes:
        queue_url: the queue that the messages go to.
        dead_letter_arn: the dead-letter queue.
        messages: SQS's approximate number of messages; each becomes a new SQS message with a receive count of 0.
        task: SQS's handle of the move, for `aws sqs cancel-message-move-task`; None if there was nothing to move, and
            for the service's own queues, whose messages are moved when the call returns.
    """

    queue_url: str
    dead_letter_arn: str
    messages: int
    task: str | None


def redrive_queue(sqs: SQSClient, queue_url: str) -> RedriveResult:
    """Starts to move a queue's dead letters, unchanged, back to the queue.

    If the caller stops, the move goes on in SQS.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
        QueueUnavailable: a queue is gone, access is denied, or a move is already under way.
    """
    with unless_stays(queue_url, "its dead letters stay"):
        found = attributes_of(sqs, queue_url, "RedrivePolicy", "QueueArn")
        policy = found.get("RedrivePolicy")
        if not policy:
            raise InvalidValue("queue_url", queue_url, NO_DEAD_LETTERS)
        arn = str(json.loads(policy)["deadLetterTargetArn"])
        dead_url = dead_letter_url_of(queue_url, policy)
        with naming_missing(sqs, dead_url):
            messages = depth(sqs, dead_url)
            task = _move(sqs, arn, dead_url, found["QueueArn"]) if messages else None
    return RedriveResult(queue_url=queue_url, dead_letter_arn=arn, messages=messages, task=task)


@contextmanager
def unless_stays(queue_url: str, what: str) -> Iterator[None]:
    """Raises QueueUnavailable, with what stays, if SQS refuses permanently."""
    try:
        yield
    except ClientError as error:
        if passes(error):
            raise
        answer = error.response["Error"]
        raise QueueUnavailable(queue_url, f"{what}: {answer['Code']}: {answer['Message']}") from error


@contextmanager
def naming_missing(sqs: SQSClient, dead_url: str) -> Iterator[None]:
    """Raises QueueUnavailable, with the remedy, if a dead-letter queue was deleted."""
    try:
        yield
    except sqs.exceptions.QueueDoesNotExist as error:
        raise QueueUnavailable(dead_url, _CREATE, "of dead letters does not exist") from error


def service_dead_letters(sqs: SQSClient, settings: ServiceSettings) -> list[str]:
    """Returns the ARNs of the dead-letter queues of the service's own queues."""
    policies = (attributes_of(sqs, url, "RedrivePolicy").get("RedrivePolicy") for url in settings.own_queue_urls)
    return list(dict.fromkeys(str(json.loads(each)["deadLetterTargetArn"]) for each in policies if each is not None))


def _move(sqs: SQSClient, dead_arn: str, dead_url: str, queue_arn: str) -> str:
    """Starts the move, to the queue by name if no other queue has this dead-letter queue.

    SQS knows the source queue only of messages that SQS itself moved to the dead-letter queue. It does not know the
    source of messages that `retry_later` sent there.
    """
    sources = sqs.list_dead_letter_source_queues(QueueUrl=dead_url).get("queueUrls", [])
    if len(sources) == 1:
        return sqs.start_message_move_task(SourceArn=dead_arn, DestinationArn=queue_arn)["TaskHandle"]
    return sqs.start_message_move_task(SourceArn=dead_arn)["TaskHandle"]


def attributes_of(sqs: SQSClient, url: str, *names: str) -> dict[str, str]:
    """Returns a queue's attributes, without absent attributes."""
    wanted: Any = names
    found: dict[Any, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted).get("Attributes", {})
    return found


def depth(sqs: SQSClient, url: str) -> int:
    """Returns SQS's approximate number of receivable messages in a queue."""
    return int(attributes_of(sqs, url, "ApproximateNumberOfMessages")["ApproximateNumberOfMessages"])


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
        attempt: how often `retry_later` sent the message again. 0 for the first time.
        original_id: the id of the first message, if `retry_later` sent this one.
    """

    id: MessageId
    key: str | None
    body: str
    attributes: Mapping[str, str]
    deliver_at: datetime
    receives: int
    sent_at: datetime
    reason: str | None
    attempt: int = 0
    original_id: MessageId | None = None


def dead_letters(connection: Connection, queue_url: str, count: int) -> list[DeadLetter]:
    """Looks into a queue's dead-letter queue. See `Tidewheel.dead_letters`."""
    check_whole("n", count, 1, MOST_LETTERS)
    url = dead_letter_url(connection.sqs, queue_url, NO_DEAD_LETTERS)
    with naming_missing(connection.sqs, url):
        found = receiving.receive(connection.polling(_LOOK_S), url, count, _LOOK_S, hidden_s=0)
    return [dead_letter_of(each) for each in found]


def dead_letter_of(message: ReceivedMessage) -> DeadLetter:
    """Returns a received message as a dead letter."""
    why = json.loads(message.header).get(_WHY)
    return DeadLetter(
        id=message.id,
        key=message.key,
        body=message.body,
        attributes=message.attributes,
        deliver_at=message.deliver_at,
        receives=message.receive_count,
        sent_at=message.sent_at,
        reason=why[:_REASON_CHARACTERS] if isinstance(why, str) else None,
        attempt=message.attempt,
        original_id=message.original_id,
    )


def reason_of(error: BaseException | None, otherwise: str) -> str:
    """Returns the class and the message of an error, or another text without an error.

    If the error is a RetryLater, returns the error that the function was handling when it raised the RetryLater.
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


def bury(connection: Connection, queue_url: str, message: ReceivedMessage, reason: str) -> None:
    """Puts a message into its queue's dead-letter queue, as it was delivered, with a reason.

    The reason is left out where the message has no room for it. If the process stops before the message is deleted from
    its queue, the message comes again and is buried again.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
    """
    sqs = connection.sqs
    dead_url = dead_letter_url(sqs, queue_url)
    body = _as_delivered(message, connection.settings.s3_bucket)
    values = {HEADER_ATTRIBUTE: _with_reason(message.header, reason), **message.attributes}
    if len(body.encode()) + sum(len(f"{name}String{value}".encode()) for name, value in values.items()) > SQS_MAX_BYTES:
        values[HEADER_ATTRIBUTE] = message.header
    attributes: Any = {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}
    group: Mapping[str, Any] = {} if message.group is None else {"MessageGroupId": message.group}
    with naming_missing(sqs, dead_url):
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
