"""Messages that wait, as a caller sees them: one by its id, or the next by due time.

Both read ledgers, so they need pyarrow; it is loaded when one of them is called, and nothing else of the SDK needs it.

    found in a ledger:   WAITING ---seal---> SEALED ---every subscription has it---> SENT
    not to be sent:      CANCELLED, PURGED, EXPIRED
    in no ledger:        UNKNOWN, unless it was cancelled
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tidewheel.errors import InvalidValue, UnknownTopic, needs_extra
from tidewheel.model.message import Encoding, MessageId, id_bytes, id_deliver_at_ms, id_floor, id_text
from tidewheel.model.subscription import State
from tidewheel.model.validation import Options

if TYPE_CHECKING:
    from types import ModuleType

    from tidewheel.client.connection import Connection
    from tidewheel.flows.ports import Topics
    from tidewheel.flows.waiting.peek import FoundMessage
    from tidewheel.model.topic_state import TopicState

MAX_PEEK = 1000


class MessageState(StrEnum):
    """What is known of a message."""

    WAITING = "waiting"
    """A ledger holds it and its slot is open: it can be cancelled."""
    SEALED = "sealed"
    """A ledger holds it and its slot is sealed: it is about to be sent, and some subscription does not have it yet."""
    SENT = "sent"
    """A ledger held it and each subscription's queue has it, but for those whose filter left it out."""
    CANCELLED = "cancelled"
    """It was cancelled, moved or superseded in time, and is not sent."""
    PURGED = "purged"
    """It was purged; a subscription that was quicker than the purge may have it."""
    EXPIRED = "expired"
    """It is past its expiry, so whoever does not have it never gets it."""
    UNKNOWN = "unknown"
    """No ledger holds it: never sent, still in an ingest queue, sent directly, or collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """A message as its ledger holds it.

    Attributes:
        id: its stable id.
        deliver_at: when it is due.
        body: the body as SQS carries it (base64 for bytes).
        attributes: the sender's attributes.
        sent_at: when its sender sent it.
        key: the sender's key.
        expires_at: when it is no longer handed out.
        attempt: how often it was sent again by `retry_later`; 0 for the first time.
        original_id: the id of the first message, if it was sent again.
        payload: the S3 object that holds the body, if that is too large for SQS; `body` then only names it.
    """

    id: MessageId
    deliver_at: datetime
    body: str
    encoding: Encoding
    attributes: Mapping[str, str]
    sent_at: datetime
    key: str | None = None
    expires_at: datetime | None = None
    attempt: int = 0
    original_id: MessageId | None = None
    payload: str | None = None

    def json(self) -> Any:
        """Returns the body parsed as JSON."""
        return json.loads(self.body)

    def bytes(self) -> bytes:
        """Returns the bytes that were sent, or the text's UTF-8 bytes."""
        return base64.b64decode(self.body) if self.encoding is Encoding.BYTES else self.body.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionProgress:
    """How far a subscription is with one message.

    Attributes:
        handed_out: whether the message's plan was given to it.
        delivered: whether its queue surely has the message; not while it has messages held back, of which this may be
            one.
    """

    name: str
    state: State
    handed_out: bool
    delivered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStatus:
    """What is known of a message.

    Attributes:
        deliver_at: when it is due: its id says it, whether the message is known or not.
        message: the message, if a ledger holds it.
        moved_to: the message that took its place, if it was moved.
        subscriptions: of a message whose slot is planned, all that are to get it; empty before.
    """

    id: MessageId
    state: MessageState
    deliver_at: datetime
    message: WaitingMessage | None = None
    moved_to: MessageId | None = None
    subscriptions: tuple[SubscriptionProgress, ...] = ()


def get(connection: Connection, topic: str, message_id: MessageId, now_ms: int) -> MessageStatus:
    """Returns what is known of a message.

    A tombstone is believed only if it surely took effect: it was put in time, or the slot was open after it was read,
    or the plan names it. One that came about when its slot was sealed and is in no plan yet decides nothing.

    Raises:
        InvalidValue: the id is not one.
        UnknownTopic: the topic does not exist.
        ExtraMissing: pyarrow is not installed.
        CorruptLedger, ObjectMissing: a ledger is damaged or gone.
    """
    due_ms = id_deliver_at_ms(id_bytes(message_id))
    ledgers = _ledgers()
    topics = connection.topics
    state = _topic_state(topics, topic)
    slot = due_ms // state.slot_ms
    tombstone = topics.tombstone(topic, slot, message_id)
    # Again, after the tombstone was read: if the slot is still open, whatever sends the message reads it too.
    state = _topic_state(topics, topic)
    found: FoundMessage | None = ledgers.find_message(topics, connection.objects, state, message_id)
    progress: tuple[SubscriptionProgress, ...] = ()
    in_time = tombstone is not None and (tombstone.certain or slot >= state.sealed)
    if in_time or (found is not None and found.cancelled):
        message_state = MessageState.CANCELLED
    elif found is None:
        message_state = MessageState.UNKNOWN
    else:
        # Planned since the topic state was read, if the message was found by its plan.
        planned = slot < state.planned or found.plan is not None
        if planned:
            progress = _progress(topics, topic, slot, found.plan)
        if planned and tombstone is not None and found.plan is None:
            message_state = MessageState.UNKNOWN  # the plan that knew is collected
        else:
            waits = not planned and slot >= state.sealed
            delivered = planned and all(each.delivered for each in progress)
            message_state = MessageState.SENT if delivered else _waiting_state(state, found, waits, now_ms)
    return MessageStatus(
        id=message_id,
        state=message_state,
        deliver_at=_utc(due_ms),
        message=None if found is None else waiting_message(found),
        moved_to=tombstone.to if tombstone is not None and message_state is MessageState.CANCELLED else None,
        subscriptions=progress,
    )


def peek(
    connection: Connection, topic: str, count: int, now_ms: int, after: str | datetime | None = None
) -> list[WaitingMessage]:
    """Returns the next messages by due time that are not planned yet.

    Raises:
        InvalidValue: `count` or `after` is not usable.
        UnknownTopic: the topic does not exist.
        ExtraMissing: pyarrow is not installed.
        CorruptLedger, ObjectMissing: a ledger is damaged or gone.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_PEEK:
        raise InvalidValue("n", count, f"give a whole number from 1 to {MAX_PEEK}; go on with after=")
    after_id = _after(after)
    ledgers = _ledgers()
    state = _topic_state(connection.topics, topic)
    found = ledgers.peek_messages(connection.topics, connection.objects, state, count, now_ms, after=after_id)
    return [waiting_message(each) for each in found]


def find(connection: Connection, state: TopicState, message_id: MessageId) -> FoundMessage | None:
    """Returns the row of an id as `flows.find.find_message` does; raises ExtraMissing if pyarrow is not installed."""
    found: FoundMessage | None = _ledgers().find_message(connection.topics, connection.objects, state, message_id)
    return found


def waiting_message(found: FoundMessage) -> WaitingMessage:
    """Returns a ledger's row as callers see it."""
    checked = found.checked
    options = checked.options or Options()
    return WaitingMessage(
        id=id_text(checked.id),
        deliver_at=_utc(checked.deliver_at_ms),
        body=checked.text,
        encoding=checked.encoding,
        attributes=checked.attributes,
        sent_at=_utc(found.sent_at_ms),
        key=options.key,
        expires_at=None if options.expires_at_ms is None else _utc(options.expires_at_ms),
        attempt=options.attempt or 0,
        original_id=options.original_id,
        payload=options.payload,
    )


def _ledgers() -> ModuleType:
    """Loads what reads ledgers."""
    with needs_extra("what reads ledgers (get, peek)", "read"):
        from tidewheel.flows.waiting import peek
    return peek


def _topic_state(topics: Topics, topic: str) -> TopicState:
    state = topics.state(topic)
    if state is None:
        raise UnknownTopic(topic)
    return state


def _waiting_state(state: TopicState, found: FoundMessage, waits: bool, now_ms: int) -> MessageState:
    """Returns the state of a message that was not cancelled, and that not every subscription has."""
    expires_at_ms = found.expires_at_ms
    if state.purged(found.checked.deliver_at_ms, found.sent_at_ms):
        return MessageState.PURGED
    if expires_at_ms is not None and expires_at_ms < now_ms:
        return MessageState.EXPIRED
    return MessageState.WAITING if waits else MessageState.SEALED


def _progress(topics: Topics, topic: str, slot: int, plan: int | None) -> tuple[SubscriptionProgress, ...]:
    """Reads how far the subscriptions are that begin at or before a slot.

    In this order, since a message goes from a subscription's cursor to a delivery, and from there perhaps to a park.
    """
    subscriptions = [each for each in topics.subscriptions(topic) if each.start <= slot]
    opened = {
        (each.key.subscription, each.key.generation)
        for each in topics.open_deliveries(topic)
        if each.key.plan == plan and each.key.replay is None and not each.complete
    }
    parked = {(each.key.subscription, each.key.generation) for each in topics.parks(topic)}
    busy = opened | parked
    return tuple(
        SubscriptionProgress(
            name=each.name,
            state=each.state,
            handed_out=each.cursor > slot,
            delivered=each.cursor > slot and (each.name, each.generation) not in busy,
        )
        for each in subscriptions
    )


def _after(after: str | datetime | None) -> bytes | None:
    if after is None:
        return None
    if isinstance(after, datetime):
        if after.tzinfo is None:
            raise InvalidValue("after", after, "give a time with its zone, such as datetime.now(UTC), or a message id")
        at_ms = int(after.timestamp() * 1000)
        if not 0 <= at_ms < 1 << 47:
            raise InvalidValue("after", after, "give a time since 1970")
        return id_floor(at_ms + 1)
    try:
        return id_bytes(after)
    except InvalidValue:
        raise InvalidValue("after", after, "give a message id, or a time with its zone") from None


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
