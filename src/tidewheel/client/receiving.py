"""Receives and acknowledges the messages of a subscription's queue, with the bodies that are kept in S3."""

from __future__ import annotations

import base64
import hashlib
import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tidewheel.aws.tries import AWS_ERRORS
from tidewheel.client.connection import Connection
from tidewheel.errors import BodyChanged, DeleteFailed, InvalidValue, TidewheelError, UnknownSubscription, UnknownTopic
from tidewheel.model.message import Encoding
from tidewheel.model.received import ReceivedMessage, parse_received
from tidewheel.model.tombstone import CANCELLED_KEPT_S, Holder
from tidewheel.model.untrusted import check_whole
from tidewheel.model.validation import MAX_PAYLOAD_BYTES, OutgoingMessage
from tidewheel.storage.bodies import put_body

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from tidewheel.client.core import Core

T = TypeVar("T")

RECEIVE_BATCH = 10
MAX_WAIT_S = 20
MAX_RECEIVES = 10
"""How often a message is handed out before a consumer buries it."""
_AGAIN_MS = 60_000

_log = logging.getLogger(__name__)


def begin(core: Core, topic: str, subscription: str, generation: str | None = None) -> bool:
    """Says, once a client, that a consumer of the SDK reads a subscription. Returns whether consumers bury what fails.

    Until then, late cancels answer that the message may still come to the subscription. If the table cannot be reached
    or refuses, a warning tells it, and it is tried again after a minute.

    Args:
        core: the client's.
        topic: the topic.
        subscription: its name.
        generation: the subscription's, if known.
    """
    now_ms = core.clock.now_ms()
    known, until_ms, of = core.begun.get((topic, subscription), (False, 0, ""))
    if now_ms < until_ms and generation in (None, of):
        return known
    try:
        settings, reader = core.cache.state(topic).settings, core.cache.subscription(topic, subscription)
        if generation not in (None, reader.generation):  # it was made anew, perhaps with another reader
            core.cache.forget_subscription(topic, subscription)
            reader = core.cache.subscription(topic, subscription)
        claims = settings.claims != "none" and reader.reader != "plain"
        if claims and reader.reader is None:
            core.connection.storage.claims.show(
                topic,
                Holder(subscription=subscription, generation=generation or reader.generation),
                now_ms // 1000 + CANCELLED_KEPT_S,
            )
    except (UnknownTopic, UnknownSubscription):  # it was deleted, and its queue has messages left
        return False
    except (*AWS_ERRORS, TidewheelError) as error:  # messages without a key need neither the table nor the subscription
        _log.warning(
            "late cancels in topic %s cannot count on subscription %s: its consumer may not write claims (%s). "
            "Grant it what `tidewheel policy consumer` prints",
            topic,
            subscription,
            error,
        )
        core.begun[topic, subscription] = False, now_ms + _AGAIN_MS, generation or ""
        return False
    core.begun[topic, subscription] = claims, math.inf, generation or reader.generation
    return claims


def check_receive(max_messages: int, wait_s: int) -> None:
    """Raises InvalidValue unless SQS accepts these arguments."""
    check_whole("max_messages", max_messages, 1)
    check_whole("wait_s", wait_s, 0, MAX_WAIT_S, more=", SQS's longest poll in seconds")


def receive(sqs: SQSClient, queue_url: str, max_messages: int, wait_s: int) -> list[ReceivedMessage]:
    """Receives up to max_messages, each once, without the bodies kept in S3.

    Up to ten are one call of SQS. Of several calls, only the first waits. If a later call fails, the messages taken so
    far are returned. A queue with a visibility time-out of 0 gives the same messages again: the receiving ends when a
    call gives nothing new, and a message has its last receipt handle. A message that Tidewheel did not deliver is
    skipped with a warning: it comes again after its visibility time-out, until the queue's dead-letter policy removes
    it.
    """
    received: dict[str, ReceivedMessage | None] = {}  # by SQS's MessageId, which differs between copies
    new = True
    while new and len(received) < max_messages:
        try:
            answer = sqs.receive_message(
                QueueUrl=queue_url,
                MaxNumberOfMessages=min(RECEIVE_BATCH, max_messages - len(received)),
                WaitTimeSeconds=0 if received else wait_s,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        except AWS_ERRORS:
            if not any(received.values()):
                raise
            break
        known = len(received)
        for raw in answer.get("Messages", []):
            try:
                received[raw["MessageId"]] = parse_received(raw)
            except InvalidValue as error:
                received[raw["MessageId"]] = None
                _log.warning("message %s of queue %s passed over: %s", raw["MessageId"], queue_url, error)
        new = len(received) > known and max_messages > RECEIVE_BATCH
    return [message for message in received.values() if message is not None]


def with_bodies(connection: Connection, messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    """Reads the bodies kept in S3, with a GET for each.

    A message is skipped with a warning if its body cannot be had, for whatever reason: the object is not the body that
    was sent, or S3 answers 403 for a missing object to a client that must not list. The message comes again until the
    queue's dead-letter policy removes it.
    """
    whole: list[ReceivedMessage] = []
    for each in messages:
        try:
            whole.append(fetch_payload(connection, each))
        except Exception as error:  # missing, refused, too slow: no other message of the batch may fail with it
            _log.warning("message %s passed over: its body cannot be read: %s", each.id, error)
    return whole


def hide(sqs: SQSClient, queue_url: str, handles: Iterable[str], seconds: int) -> set[str]:
    """Hides received messages for so many seconds from now, ten a call. With 0 seconds, shows them again.

    Args:
        handles: the messages' receipt handles.

    Returns:
        The handles that SQS refuses: the message was deleted, or has been visible again.
    """
    refused = set[str]()
    for batch in _tens(list(handles)):
        answer = sqs.change_message_visibility_batch(
            QueueUrl=queue_url,
            Entries=[
                {"Id": str(i), "ReceiptHandle": each, "VisibilityTimeout": seconds} for i, each in enumerate(batch)
            ],
        )
        refused |= {batch[int(each["Id"])] for each in answer.get("Failed", []) if each["SenderFault"]}
    return refused


def delete(sqs: SQSClient, queue_url: str, messages: Iterable[ReceivedMessage]) -> None:
    """Acknowledges messages, ten a call. Failures of SQS are retried once.

    Raises:
        InvalidValue: `messages` is not a list of received messages.
        DeleteFailed: some messages could not be acknowledged; all others are.
    """
    if isinstance(messages, ReceivedMessage) or not isinstance(messages, Iterable):
        raise InvalidValue("messages", messages, "give a list of messages that receive returned")
    everything = list(messages)
    for each in everything:
        if not isinstance(each, ReceivedMessage):
            raise InvalidValue("messages", each, "give a message that receive returned")
    failed: list[tuple[ReceivedMessage, str]] = []
    for batch in _tens(everything):
        permanent, transient = _delete_batch(sqs, queue_url, batch)
        failed += permanent
        if transient:
            permanent, transient = _delete_batch(sqs, queue_url, [message for message, _ in transient])
            failed += permanent + transient
    if failed:
        raise DeleteFailed(failed)


Failures = list[tuple[ReceivedMessage, str]]


def _delete_batch(sqs: SQSClient, queue_url: str, batch: list[ReceivedMessage]) -> tuple[Failures, Failures]:
    """Returns the undeleted messages, by the caller's fault and by SQS's fault."""
    answer = sqs.delete_message_batch(
        QueueUrl=queue_url,
        Entries=[{"Id": str(i), "ReceiptHandle": each.receipt_handle} for i, each in enumerate(batch)],
    )
    permanent: Failures = []
    transient: Failures = []
    for failure in answer.get("Failed", []):
        reason = f"{failure['Code']}: {failure.get('Message', '')}"
        (permanent if failure["SenderFault"] else transient).append((batch[int(failure["Id"])], reason))
    return permanent, transient


def _tens(several: list[T]) -> list[list[T]]:
    return [several[i : i + RECEIVE_BATCH] for i in range(0, len(several), RECEIVE_BATCH)]


def move_payload(connection: Connection, topic: str, message: OutgoingMessage, old_id: str) -> OutgoingMessage:
    """Stores a large body of an old message again, since an object's lifetime depends on the due time in its name.

    S3 takes no CopyObject where policies demand that objects are created only, so the body is read and put.

    Raises:
        BodyChanged, InvalidValue, ObjectMissing: as of `fetch_payload`.
    """
    options = message.options
    if options is None or options.payload is None:
        return message
    data = _read(connection, old_id, options.payload, options.payload_sha256, options.payload_bytes)
    return put_body(connection.objects, connection.settings.s3_bucket, topic, message, data)


def fetch_payload(connection: Connection, message: ReceivedMessage) -> ReceivedMessage:
    """Returns a received message with its own body, read from S3 if the message has a pointer.

    Raises:
        BodyChanged: the object is not the body that was sent.
        ObjectMissing: the body was handed out more than 28 days ago and is collected.
        InvalidValue: the object is not a body that the client could have written.
    """
    if message.payload is None:
        return message
    data = _read(connection, message.id, message.payload, message.payload_sha256, message.payload_bytes)
    try:
        body = base64.b64encode(data).decode() if message.encoding is Encoding.BYTES else data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("payload", message.payload, "its body is not text in UTF-8; drop the message") from None
    return replace(message, body=body, payload=None)


def _read(connection: Connection, message_id: str, name: str, sha256: str | None, length: int | None) -> bytes:
    """Reads a body, and checks its hash and length. See `fetch_payload`."""
    data = connection.objects.get_range(name, 0, min(length or 0, MAX_PAYLOAD_BYTES) + 1)
    if len(data) != length or hashlib.sha256(data).hexdigest() != sha256:
        raise BodyChanged(message_id, name)
    return data
