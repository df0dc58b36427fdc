"""Moves messages to the dead letters, with the reason, looks at them, and moves them back or deletes them.

The reason is the field `why` of the header. A letter that SQS itself moved has none. A message with `why` in its queue
was moved back, so its attempts begin anew. See `service_redrive` for the service's own queues.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.aws.tries import AWS_ERRORS, passes
from tidewheel.client.connection import Connection
from tidewheel.client.operations.subscription_queues import DeadLetterQueue, dead_letter_queue
from tidewheel.client.receiving import RECEIVE_BATCH, hide
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue, QueueUnavailable, Reject, RetryLater
from tidewheel.model.message import HEADER_ATTRIBUTE, SQS_MAX_BYTES, MessageId
from tidewheel.model.received import ATTEMPT, WHY, ReceivedMessage, parse_received
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.storage.bodies import POINTER

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

MOST_LETTERS = 100
NO_DEAD_LETTERS = "the queue has no dead-letter queue; give it a RedrivePolicy"
_CREATE = "create a queue of this name, or name another queue in the RedrivePolicy; the messages stay where they are"
_HIDDEN_S = 120
"""How long a received dead letter is hidden from others, if the caller stops."""
_REASON_CHARACTERS = 200
_NUMBER = re.compile(r"\d+")
_LAST_ATTEMPT = (
    "the message has had its last attempt, and this queue has no dead-letter queue for it: set a RedrivePolicy, raise "
    "max_attempts, or delete the message; it stays in the queue"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveResult:
    """The move of a queue's dead letters back to the queue.

    Attributes:
        queue_url: the queue that the messages go to.
        dead_letter_arn: the dead-letter queue.
        messages: the number of messages, with a task SQS's estimate. Each becomes a new SQS message with a receive
            count of 0.
        task: SQS's handle of the move, for `aws sqs cancel-message-move-task`. None: the messages are moved.
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
        dead = dead_letter_queue(queue_url, found)
        if dead is None:
            raise InvalidValue("queue_url", queue_url, NO_DEAD_LETTERS)
        with naming_missing(sqs, dead.url):
            messages = depth(sqs, dead.url)
            task = _move(sqs, dead, found["QueueArn"]) if messages else None
    return RedriveResult(queue_url=queue_url, dead_letter_arn=dead.arn, messages=messages, task=task)


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
    queues = (dead_letter_queue(url, attributes_of(sqs, url, "RedrivePolicy")) for url in settings.own_queue_urls)
    return list(dict.fromkeys(each.arn for each in queues if each is not None))


def _move(sqs: SQSClient, dead: DeadLetterQueue, queue_arn: str) -> str:
    """Starts the move, to the queue by name if no other queue has this dead-letter queue.

    SQS knows the source queue only of messages that SQS itself moved to the dead-letter queue. It does not know the
    source of messages that `retry_later` sent there.
    """
    sources = sqs.list_dead_letter_source_queues(QueueUrl=dead.url).get("queueUrls", [])
    to: Any = {"DestinationArn": queue_arn} if len(sources) == 1 else {}
    return sqs.start_message_move_task(SourceArn=dead.arn, **to)["TaskHandle"]


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
        topic, subscription: whose dead letter it is.
        id: the stable id.
        key: the sender's key.
        body: the body as SQS carries it. Of a body that is too large for SQS, the pointer.
        attributes: the sender's attributes.
        deliver_at: when the message was due.
        receives: how often SQS has handed out this copy, looks included.
        sent_at: when the sender sent the message.
        dead_at: when a consumer gave up. Of a message that SQS itself moved, when the subscription's queue got it.
        reason: the error with which a consumer gave up, by class and message, or that SQS itself moved the message.
        attempt: how often `retry_later` sent the message again. 0 for the first time.
        original_id: the id of the first message, if `retry_later` sent this one.
    """

    topic: str
    subscription: str
    id: MessageId
    key: str | None
    body: str
    attributes: Mapping[str, str]
    deliver_at: datetime
    receives: int
    sent_at: datetime
    dead_at: datetime
    reason: str
    attempt: int = 0
    original_id: MessageId | None = None

    @property
    def cause(self) -> str:
        """The reason with # for each number, by which letters are grouped."""
        return _NUMBER.sub("#", self.reason)


def grouped(letters: Iterable[DeadLetter]) -> list[list[DeadLetter]]:
    """Returns letters by topic, subscription and cause. Groups and their letters come newest first."""
    groups: dict[tuple[str, str, str], list[DeadLetter]] = {}
    for each in sorted(letters, key=lambda each: each.dead_at, reverse=True):
        groups.setdefault((each.topic, each.subscription, each.cause), []).append(each)
    return list(groups.values())


def dead_letters(connection: Connection, of: SubscriptionState, count: int) -> list[DeadLetter]:
    """Looks into the dead-letter queue of a subscription. See `Tidewheel.dead_letters`."""
    dead = dead_queue(connection.sqs, of.queue_url, NO_DEAD_LETTERS)
    found: list[DeadLetter] = []

    def look(raw: MessageTypeDef) -> None:
        try:
            found.append(dead_letter_of(raw, of, dead.receives))
        except InvalidValue as error:
            _log.warning("message %s of queue %s passed over: %s", raw["MessageId"], dead.url, error)

    drained(connection, dead.url, look, most=count)
    return sorted(found, key=lambda each: each.dead_at, reverse=True)


def dead_letters_of_all(connection: Connection, subscriptions: Iterable[SubscriptionState], n: int) -> list[DeadLetter]:
    """Looks into the dead-letter queues of subscriptions that have any, as `dead_letters`, at most n of each.

    A queue that cannot be read is skipped with a warning, and hides no other.
    """
    found: list[DeadLetter] = []
    for each in subscriptions:
        try:
            if depth(connection.sqs, dead_queue(connection.sqs, each.queue_url, NO_DEAD_LETTERS).url):
                found += dead_letters(connection, each, n)
        except (InvalidValue, QueueUnavailable, ClientError) as error:
            _log.warning("the dead letters of %s/%s are passed over: %s", each.topic, each.name, error)
    return sorted(found, key=lambda each: each.dead_at, reverse=True)


def settle(
    connection: Connection, of: SubscriptionState, *, ids: Collection[str] | None, cause: str | None, again: bool
) -> RedriveResult:
    """Redrives (again) or deletes the dead letters with some ids or of a cause.

        received   hidden from others for two minutes, and a dead letter still
        sent       of a redrive: in the queue, with attempts begun anew, and a dead letter still
        deleted    no dead letter any more

    Nothing is lost, wherever the caller stops. If it stops after a letter was sent, this letter is in both queues, and
    the next redrive sends one copy more, with the same id. It stops at the first error, so one call leaves at most one
    such letter. All other letters are shown again.

    Raises:
        InvalidValue: not one of ids and cause is given, or the queue has no dead-letter queue.
        QueueUnavailable: SQS refuses. What was done before is done.
    """
    if (ids is None) == (cause is None) or isinstance(ids, str):
        raise InvalidValue("ids", ids, "give a list of ids, or a cause")
    sqs, url, wanted = connection.sqs, of.queue_url, set(ids or ())
    dead = dead_queue(sqs, url, NO_DEAD_LETTERS)

    def one(raw: MessageTypeDef) -> str | None:
        with suppress(InvalidValue):  # not delivered by Tidewheel
            letter = dead_letter_of(raw, of, dead.receives)
            if letter.id in wanted or letter.cause == cause:
                wanted.discard(letter.id)
                if again:
                    _send_again(sqs, url, raw)
                return url
        return None

    with unless_stays(url, f"all dead letters that were not {'moved' if again else 'deleted'} before stay"):
        done = drained(connection, dead.url, one, spare=MOST_LETTERS, ends=lambda: ids and not wanted)
    return RedriveResult(queue_url=url, dead_letter_arn=dead.arn, messages=done.total(), task=None)


def drained(
    connection: Connection,
    url: str,
    settle: Callable[[MessageTypeDef], str | None],
    *,
    most: int | None = None,
    spare: int = 0,
    ends: Callable[[], object] = bool,
) -> Counter[str]:
    """Receives the messages of a queue, and deletes those that `settle` is done with. Shows all others again.

    Args:
        settle: returns None for a message that stays.
        most: how many are received at most. None: as many as SQS counts now, and spare ones, since its count is
            approximate.
        ends: whether no more are to be received.

    Returns:
        The deleted messages, counted by the result of `settle`.
    """
    sqs, stay = connection.sqs, list[str]()
    done: Counter[str] = Counter()
    with naming_missing(sqs, url):
        most = depth(sqs, url) + spare if most is None else most
        try:
            for batch in received(connection, url, most):
                stay += (each["ReceiptHandle"] for each in batch)
                for raw in batch:
                    if (to := settle(raw)) is not None:
                        stay.remove(raw["ReceiptHandle"])
                        sqs.delete_message(QueueUrl=url, ReceiptHandle=raw["ReceiptHandle"])
                        done[to] += 1
                if ends():
                    break
        finally:
            with suppress(*AWS_ERRORS):  # they come back after _HIDDEN_S
                hide(sqs, url, stay, 0)
    return done


def _send_again(sqs: SQSClient, queue_url: str, raw: MessageTypeDef) -> None:
    """Sends a dead letter to a queue as it was, without its attempts."""
    attributes: dict[str, Any] = dict(raw["MessageAttributes"])
    header = json.loads(attributes[HEADER_ATTRIBUTE]["StringValue"])
    kept = {name: value for name, value in header.items() if name not in (WHY, ATTEMPT)}
    attributes[HEADER_ATTRIBUTE] = {"DataType": "String", "StringValue": _json(kept)}
    own: Any = raw["Attributes"]
    group: Mapping[str, Any] = {name: own[name] for name in ("MessageGroupId",) if name in own}
    sqs.send_message(QueueUrl=queue_url, MessageBody=raw["Body"], MessageAttributes=attributes, **group)


def received(connection: Connection, url: str, most: int) -> Iterator[list[MessageTypeDef]]:
    """Receives up to a number of messages, up to ten at a time, which are then hidden for two minutes."""
    every: Any = ["All"]
    while most > 0:
        answer = connection.sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=min(RECEIVE_BATCH, most),
            VisibilityTimeout=_HIDDEN_S,
            WaitTimeSeconds=1,  # otherwise SQS asks only some of its servers
            AttributeNames=every,
            MessageAttributeNames=every,
        )
        messages = answer.get("Messages", [])
        if not messages:
            return
        most -= len(messages)
        yield messages


def dead_letter_of(raw: Mapping[str, Any], of: SubscriptionState, receives: int) -> DeadLetter:
    """Returns a received message of a subscription's dead-letter queue.

    Args:
        raw: a message of ReceiveMessage's answer, with all attributes.
        of: the subscription.
        receives: how often its queue hands a message out.

    Raises:
        InvalidValue: the message was not delivered by Tidewheel.
    """
    message = parse_received(raw)
    header = json.loads(message.header)
    reason = header.get(WHY)
    if not isinstance(reason, str):
        reason = "a consumer gave up, and the message had no room for the reason"
        if "DeadLetterQueueSourceArn" in raw["Attributes"]:  # SQS moved it
            reason = f"received {receives} times, never finished: perhaps the process died"
    return DeadLetter(
        topic=of.topic,
        subscription=of.name,
        id=message.id,
        key=message.key,
        body=message.body,
        attributes=message.attributes,
        deliver_at=message.deliver_at,
        receives=message.receive_count,
        sent_at=message.sent_at,
        dead_at=utc(int(raw["Attributes"]["SentTimestamp"])),
        reason=reason[:_REASON_CHARACTERS],
        attempt=header.get(ATTEMPT, 0),
        original_id=message.original_id,
    )


def reason_of(error: BaseException | None, otherwise: str) -> str:
    """Returns the class and the message of an error, or another text without an error.

    If the error is a RetryLater, returns the error that the function was handling when it raised the RetryLater.
    """
    if isinstance(error, RetryLater):
        error = error.__cause__ or error.__context__
    if isinstance(error, Reject):
        return str(error)
    return otherwise if error is None else f"{type(error).__name__}: {error}"


def dead_queue(sqs: SQSClient, queue_url: str, advice: str = _LAST_ATTEMPT) -> DeadLetterQueue:
    """Reads a queue's dead-letter queue.

    Args:
        advice: the remedy without one.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
    """
    found = dead_letter_queue(queue_url, attributes_of(sqs, queue_url, "RedrivePolicy"))
    if found is None:
        raise InvalidValue("queue_url", queue_url, advice)
    return found


def bury(connection: Connection, queue_url: str, message: ReceivedMessage, reason: str) -> None:
    """Puts a message into its queue's dead-letter queue, as it was delivered, with a reason.

    The reason is left out where the message has no room for it. If the process stops before the message is deleted from
    its queue, the message comes again and is buried again.

    Raises:
        InvalidValue: the queue has no dead-letter queue.
    """
    sqs = connection.sqs
    dead_url = dead_queue(sqs, queue_url).url
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
    return _json(json.loads(header) | {WHY: printable})


def _json(header: Mapping[str, Any]) -> str:
    return json.dumps(header, ensure_ascii=False, separators=(",", ":"))


def _as_delivered(message: ReceivedMessage, s3_bucket: str) -> str:
    """Returns the body that SQS carried. For a body read from S3, this is the pointer."""
    name = json.loads(message.header).get("ref")
    if name is None or message.payload is not None:
        return message.body
    return json.dumps({POINTER: f"s3://{s3_bucket}/{name}"})
