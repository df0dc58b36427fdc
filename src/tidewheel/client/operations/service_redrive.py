"""Lists the refused messages of the service's own queues. Sends them and the queues' dead letters again.

    pack     goes back to its queue unchanged
    plain    goes to its topic as a pack, with the id and the sending time of the first try. SQS's own redrive gives
             another SQS message id, and so another message id and another time.

What can still not be read stays in its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidewheel.client.connection import Connection
from tidewheel.client.operations.dead_letters import RedriveResult, attributes_of, drained, unless_stays
from tidewheel.client.operations.subscription_queues import dead_letter_queue
from tidewheel.clock import Clock, utc
from tidewheel.errors import BadMessage, WrongQueue
from tidewheel.flows.delivery.cancel import cancel_as_sent
from tidewheel.flows.delivery.refusing import bad_alone
from tidewheel.model.pack import PACK_ATTRIBUTE, outgoing, pack_body, packs
from tidewheel.model.plain import read_plain
from tidewheel.model.received import QueuedMessage
from tidewheel.model.refused import GIVEN_UP, REDRIVEN, refused_document, restored
from tidewheel.model.untrusted import json_object_of, text, whole
from tidewheel.storage.bodies import store_body

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

_MOST_BYTES = 16 * 1024 * 1024
"""Over the document of the largest SQS message: JSON escapes a character with up to twelve bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMessage:
    """A message that the service refused, since no retry could help it.

    Attributes:
        sqs_message_id: SQS's id of the message.
        queue: the name of the queue that the message came from, or of the subscription whose messages were given up.
        sent_at: when SQS took the message. None: a subscription's queue refused it.
        reason: what was wrong, and what to do.
        body: the message's text. Empty if it is in S3. If messages were given up, their number and the error.
        attributes: name -> text. Binary values are base64.
    """

    sqs_message_id: str
    queue: str
    sent_at: datetime | None
    reason: str
    body: str
    attributes: Mapping[str, str]


def refused_messages(connection: Connection, most: int) -> list[RefusedMessage]:
    """Reads the queue of refused messages, and takes nothing from it. SQS's order is approximate."""
    found: dict[str, RefusedMessage] = {}

    def look(raw: MessageTypeDef) -> None:
        found[raw["MessageId"]] = _shown(raw)

    drained(connection, connection.settings.refused_queue_url, look, most=most)
    return list(found.values())


def _shown(raw: MessageTypeDef) -> RefusedMessage:
    """Returns a document of the queue of refused messages."""
    try:
        document = json_object_of(raw["Body"])
    except ValueError:
        document = {"body": raw["Body"], "reason": "not a document of this service"}
    if document.get("code") == GIVEN_UP:
        document["queue_url"] = document.get("subscription")
        document["body"] = f"{document.get('messages')} messages: {document.get('error')}"
    given: Any = document.get("attributes")
    values = given.items() if isinstance(given, dict) else ()
    sent_ms = document.get("sent_at_ms")
    return RefusedMessage(
        sqs_message_id=str(document.get("sqs_message_id", raw["MessageId"])),
        queue=str(document.get("queue_arn") or document.get("queue_url") or "").replace("/", ":").rpartition(":")[2],
        sent_at=utc(sent_ms) if isinstance(sent_ms, int) else None,
        reason=str(document.get("reason", "")),
        body=str(document.get("body", "")),
        attributes={name: _value(value) for name, value in values},
    )


def _value(value: Any) -> str:
    return str(value.get("StringValue", value.get("BinaryValue", ""))) if isinstance(value, dict) else str(value)


def redrive_service_queues(connection: Connection, clock: Clock) -> list[RedriveResult]:
    """Sends the dead letters of the ingest queues and of the work queue again, and refused messages.

    Messages that SQS refused for a subscription's queue stay. If the caller stops after a message is sent, the message
    is in both queues, and the next call sends it again: ingest makes copies with the same ids.

    Raises:
        QueueUnavailable: a queue is gone or refuses access.
        ObjectMissing: the object of a refused message was deleted; the message stays.
    """
    again = _Again(connection, clock)
    with unless_stays(connection.settings.refused_queue_url, "messages stay"):
        found = [again.dead_letters(url) for url in connection.settings.own_queue_urls]
        return found + again.refused()


@dataclass(frozen=True, slots=True)
class _Again:
    """Sends messages of the service's queues again."""

    connection: Connection
    clock: Clock

    def dead_letters(self, queue_url: str) -> RedriveResult:
        found = attributes_of(self.connection.sqs, queue_url, "RedrivePolicy", "QueueArn")
        dead = dead_letter_queue(queue_url, found)
        assert dead is not None  # of the service's own queues

        def send(raw: MessageTypeDef) -> str | None:
            return self._send(queue_url, QueuedMessage.of_received(raw, found["QueueArn"]))

        # A message that is refused again meanwhile is behind the first ones.
        moved = drained(self.connection, dead.url, send)
        return RedriveResult(queue_url=queue_url, dead_letter_arn=dead.arn, messages=moved.total(), task=None)

    def refused(self) -> list[RedriveResult]:
        url = self.connection.settings.refused_queue_url
        arn = attributes_of(self.connection.sqs, url, "QueueArn")["QueueArn"]
        moved = drained(self.connection, url, self._send_refused)
        return [RedriveResult(queue_url=to, dead_letter_arn=arn, messages=n, task=None) for to, n in moved.items()]

    def _send_refused(self, raw: MessageTypeDef) -> str | None:
        """Sends a refused message to its queue. Returns the queue's URL, or None for a message that stays."""
        try:
            document = json_object_of(raw["Body"])
            url = _own_queue(self.connection.settings.own_queue_urls, text(document.get("queue_arn")))
            if url is None:
                return None
            if "object_name" in document:
                name = text(document["object_name"])
                document |= json_object_of(self.connection.objects.get_range(name, 0, _MOST_BYTES))
            body, attributes = restored(document)
            message = QueuedMessage(
                id=text(document["sqs_message_id"]),
                body=body,
                attributes=attributes,
                sent_at_ms=whole(document["sent_at_ms"]),
                receives=1,
                queue_arn=text(document["queue_arn"]),
                group=document.get("group"),
            )
        except (KeyError, ValueError):
            return None
        return self._send(url, message)

    def _send(self, url: str, message: QueuedMessage) -> str | None:
        if PACK_ATTRIBUTE not in message.attributes and url != self.connection.settings.work_queue_url:
            return self._send_plain(message)
        attributes: dict[str, Any] = {name: dict(value) for name, value in message.attributes.items()}
        if PACK_ATTRIBUTE in attributes:
            attributes[REDRIVEN] = _YES
        self.connection.sqs.send_message(QueueUrl=url, MessageBody=message.body, MessageAttributes=attributes)
        return url

    def _send_plain(self, message: QueuedMessage) -> str | None:
        """Sends a plain message as packs. Returns the queue's URL, or None if the message stays."""
        storage, settings = self.connection.storage, self.connection.settings
        try:
            plain = read_plain(message, settings.topic_of_queue(message.queue_arn))
            settings.check_ingest_queue(message.queue_arn, plain.topic)
        except (BadMessage, WrongQueue):
            return None
        state = storage.topic_states.read(plain.topic)
        deleted_ms = storage.deletions.deleted_at_ms(plain.topic) + settings.max_skew_ms
        if state is None or plain.sent_at_ms < deleted_ms:
            return None
        for each in plain.cancellations:
            version = each.sent_at_ms, each.seq
            cancel_as_sent(storage, state, each.key, version, self.clock.now_ms())
        messages = [
            store_body(self.connection.objects, settings.s3_bucket, plain.topic, each) if each.too_large else each
            for each in outgoing(plain.pack(None))
        ]
        url = settings.ingest_queues(plain.topic)[0]
        for places, data in packs(plain.topic, state.generation, plain.sent_at_ms, messages):
            attributes: Any = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": data}, REDRIVEN: _YES}
            body = pack_body(plain.topic, len(places))
            self.connection.sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        if plain.bad:
            document = refused_document(*bad_alone(message, plain.bad))
            self.connection.queues.refuse(document)
        return url


_YES = {"DataType": "String", "StringValue": "yes"}


def _own_queue(urls: list[str], queue_arn: str) -> str | None:
    name = queue_arn.rpartition(":")[2]
    return next((url for url in urls if url.rpartition("/")[2] == name), None)
