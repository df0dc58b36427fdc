"""Reads a message's status by its id, and the next messages by due time.

Both read ledgers, so they need pyarrow. pyarrow is loaded at the first call, and no other part of the SDK needs it.

    found in a ledger:   WAITING ---seal---> SEALED ---all deliveries are done---> SENT, LEFT_OUT or UNCERTAIN
    not to be sent:      CANCELLED, PURGED, EXPIRED
    in no ledger:        UNKNOWN, unless it was cancelled, or a consumer took it: SENT

docs/states.md draws all places and their words.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tidewheel.client import outcome as outcomes
from tidewheel.client.connection import Connection
from tidewheel.client.outcome import Outcome, SubscriptionProgress
from tidewheel.client.outcome import Place as Place
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue, PeekIncomplete, needs_extra
from tidewheel.flows.delivery.cancel import Cancelled, fate, some_may_not_claim
from tidewheel.model.duration import at_ms
from tidewheel.model.message import Encoding, MessageId, id_bytes, id_deliver_at_ms, id_floor, id_text
from tidewheel.model.settings import DAY_MS
from tidewheel.model.subscription_state import Delivery, SubscriptionState
from tidewheel.model.tombstone import Claim
from tidewheel.model.topic_state import TopicState
from tidewheel.model.untrusted import check_whole
from tidewheel.model.validation import Options
from tidewheel.storage.storage import Storage

if TYPE_CHECKING:
    from tidewheel.flows.waiting.peek import FoundMessage

MAX_PEEK = 1000
_READING = "what reads ledgers (get, peek)"
_WAY_MS = 60_000
_RETRIES = (
    " A retry has an id of its own, and this id as original_id: look among the waiting and the sent messages, and the "
    "dead letters."
)
"""Nothing leads from a message to its retries."""


class MessageState(StrEnum):
    """The state of a message."""

    WAITING = "waiting"
    """A ledger holds the message and its slot is open, so it can be cancelled."""
    SEALED = "sealed"
    """A ledger holds the message, its slot is sealed, and some subscription does not have it yet."""
    SENT = "sent"
    """The queue of a subscription took the message, and no other subscription is still to get it."""
    LEFT_OUT = "left out"
    """No subscription gets the message, by their filters, or because the topic had none."""
    UNCERTAIN = "uncertain"
    """All deliveries are done, and nothing tells whether they sent the message. The subscriptions say why."""
    CANCELLED = "cancelled"
    """The message was cancelled, moved or superseded in time, and is not sent."""
    PURGED = "purged"
    """The message was purged; a subscription may have got it before the purge."""
    EXPIRED = "expired"
    """The message has expired; subscriptions that do not have it never get it."""
    UNKNOWN = "unknown"
    """No ledger holds the message: it was never sent, is still in an ingest queue, was sent direct, or is collected."""


ENDS = {
    MessageState.LEFT_OUT: "No subscription gets it: their filters leave it out, or the topic had none at its time.",
    MessageState.UNCERTAIN: "Its deliveries are done, and nothing tells for certain whether they sent it.",
    MessageState.CANCELLED: "It is not sent: it was cancelled, moved or replaced, or dropped since another with its "
    "key waited.",
    MessageState.PURGED: "A purge covers it. A subscription may have got it before.",
    MessageState.EXPIRED: "It has expired: subscriptions that do not have it never get it.",
}
"""States that do not change, and their meanings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """A message from a ledger.

    Attributes:
        id: the stable id.
        deliver_at: the due time.
        body: the body as SQS carries it (base64 for bytes).
        attributes: the sender's attributes.
        sent_at: the send time.
        key: the sender's key.
        expires_at: the time from which the message is no longer handed out.
        attempt: how often the message was sent again by `retry_later`; 0 for the first time.
        original_id: the id of the first message, if this is a retry.
        payload: the S3 object that holds the body, if the body is too large for SQS; `body` is then a pointer.
        group: the sender's group.
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
    group: str | None = None

    def json(self) -> Any:
        """Returns the body parsed as JSON."""
        return json.loads(self.body)

    def bytes(self) -> bytes:
        """Returns the bytes that were sent, or the text's UTF-8 bytes."""
        return base64.b64decode(self.body) if self.encoding is Encoding.BYTES else self.body.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where a ledger holds a message.

    Attributes:
        object: the ledger's name in the S3 bucket.
        segment, segments: the number of the segment, from 1, and how many the ledger has. None once it is planned.
    """

    object: str
    segment: int | None = None
    segments: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Whether a subscription gets a message, by its filter of today. The filter counts when the plan is handed out.

    Attributes:
        filter_policy: JSON of the subscription's filter policy. None: it takes all messages.
        excluded: whether it does not get the message: its filter leaves the message out, its first messages are due
            later, or `retry_later` sent the message to another subscription only.
    """

    name: str
    filter_policy: str | None
    excluded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStatus:
    """The status of a message.

    Attributes:
        deliver_at: the due time, which is part of the id; set for unknown messages too.
        seals_at: about when its slot is, or was, sealed. Until then any message can be cancelled.
        message: the message, if a ledger holds it.
        ledger: the message's place in this ledger.
        recipients: all subscriptions of the topic, by name, while a ledger holds the message.
        moved_to: the id of the message that replaced it, if it was moved.
        subscriptions: the subscriptions that get the message, and replays; empty until its slot is planned. Of a
            message without a ledger, those whose consumers took it.
        claimable: whether consumers claim the message.
        all_claim: whether those of all subscriptions do, so that it can be stopped until one has it.
        claimed_by: the subscriptions whose consumers have claimed the message.
        cancelled_late: whether it was cancelled after its slot was sealed, for all other claiming subscriptions.
        explanation: what the state means, what comes next, and where retries are found.
    """

    id: MessageId
    state: MessageState
    deliver_at: datetime
    seals_at: datetime
    message: WaitingMessage | None = None
    ledger: LedgerPlace | None = None
    recipients: tuple[Recipient, ...] = ()
    moved_to: MessageId | None = None
    subscriptions: tuple[SubscriptionProgress, ...] = ()
    claimable: bool = False
    all_claim: bool = False
    claimed_by: tuple[str, ...] = ()
    cancelled_late: bool = False
    explanation: str = ""

    @property
    def can_be_stopped(self) -> bool:
        """Whether the message can be cancelled or moved."""
        unclaimed = self.all_claim and not self.claimed_by and not self.cancelled_late
        ended = self.state in ENDS or self.state is MessageState.UNKNOWN
        return self.state is MessageState.WAITING or (unclaimed and not ended)


def get(connection: Connection, topic: str, message_id: MessageId, now_ms: int) -> MessageStatus:
    """Returns the status of a message.

    A tombstone counts only if it certainly took effect: it was put in time, or the slot was still open after the
    tombstone was read, or the plan names it. A tombstone that was put near the time of the seal and is in no plan yet
    does not count.

    Raises:
        InvalidValue: the id is not valid.
        UnknownTopic: the topic does not exist.
        ExtraMissing: pyarrow is not installed.
        CorruptLedger, CorruptMetadata, ObjectMissing: something that may hold the message cannot be read, and nothing
            else holds the message.
    """
    id = id_bytes(message_id)
    due_ms = id_deliver_at_ms(id)
    storage = connection.storage
    state = storage.topic_states.existing(topic)
    slot = due_ms // state.slot_ms
    tombstone = storage.tombstones.read(topic, slot, message_id)
    # Read again after the tombstone: if the slot is still open, any later sending sees the tombstone too.
    state = storage.topic_states.existing(topic)
    found = find(connection, state, message_id)
    claimable = state.claims(message_id)
    sealed = slot < state.sealed
    claim = storage.claims.read(topic, message_id) if claimable and sealed else Claim()
    # Before the seal as the receipt says, without a read. Then consumers that have received count as claiming.
    surely_ms = state.cancellable_until_ms(id)
    all_claim = claimable and not some_may_not_claim(storage, state) if sealed else surely_ms is None
    unreadable: dict[str, Exception] = {}
    subscriptions = storage.subscriptions.all(topic, unreadable) if found is not None or claim.holders else []
    progress: tuple[SubscriptionProgress, ...] = ()
    known = fate(storage, state, message_id, tombstone, claim, now_ms)
    if isinstance(known, Cancelled | str) or (found is not None and found.cancelled):
        message_state = MessageState.CANCELLED
    elif found is None:
        states, sent = {each.name: each.state for each in subscriptions}, Outcome(Place.SENT)
        progress = tuple(outcomes.progress(name, states.get(name), sent, claim) for name in claim.holders)
        message_state = MessageState.SENT if progress else MessageState.UNKNOWN
    else:
        # If the message was found through its plan, the slot was planned after the topic state was read.
        planned = slot < state.planned or found.plan is not None
        if planned:
            if unreadable:
                raise next(iter(unreadable.values()))
            cancelled = tombstone is not None
            progress = _progress(storage, state, subscriptions, found, claim, now_ms, cancelled=cancelled)
        if planned and tombstone is not None and found.plan is None:
            message_state = MessageState.UNKNOWN  # the plan that would tell is collected
        else:
            ended = _ended({each.place for each in progress if not each.replayed}) if planned else None
            waits = not planned and not sealed
            message_state = ended or _waiting_state(state, found, waits, now_ms)
    status = MessageStatus(
        id=message_id,
        state=message_state,
        deliver_at=utc(due_ms),
        seals_at=utc(slot * state.slot_ms - state.settings.lookahead_ms),
        message=None if found is None else waiting_message(found),
        ledger=None
        if found is None
        else LedgerPlace(object=found.object_name, segment=found.segment, segments=found.segments),
        recipients=() if found is None else tuple(_recipient(each, found, slot) for each in subscriptions),
        moved_to=known if isinstance(known, str) else None,
        subscriptions=progress,
        claimable=claimable,
        all_claim=all_claim,
        claimed_by=claim.holders,
        cancelled_late=claim.cancelled,
    )
    return replace(status, explanation=_explanation(status, now_ms, state.settings.retention_ms / DAY_MS))


def _ended(places: set[Place]) -> MessageState | None:
    """Returns the state of a message by its places, if all deliveries are done. None: some are not."""
    if places & {Place.PLANNED, Place.DELIVERING, Place.PARKED}:
        return None
    for place in (Place.SENT, Place.UNCERTAIN, Place.PURGED, Place.EXPIRED):
        if place in places:
            return MessageState(place.value)
    return MessageState.LEFT_OUT


def _explanation(of: MessageStatus, now_ms: int, kept_days: float) -> str:
    """Returns the meaning of a status, and the next step."""
    has_come = of.deliver_at < utc(now_ms - _WAY_MS)  # long enough ago to be in no ingest queue
    stops = " It can be cancelled until a consumer has it." if of.can_be_stopped else ""
    match of.state:
        case MessageState.WAITING:
            until = "a consumer has it" if of.all_claim else "its slot is sealed"
            return (
                f"It can be cancelled or moved until {until}. Its slot is sealed minutes before it is due. Then it "
                "goes to the queues, which release it when it is due."
            )
        case MessageState.SEALED if any(each.place is Place.PARKED for each in of.subscriptions):
            return "It is parked: a subscription is paused, or its queue does not take messages."
        case MessageState.SEALED if any(each.state == "PAUSED" and not each.sent for each in of.subscriptions):
            return "A subscription is paused. It gets the message when it is resumed."
        case MessageState.SEALED:
            return f"Its slot is sealed: it is on its way to the queues, within seconds.{stops}"
        case MessageState.SENT:
            come = "had it: the rest is up to the consumers" if has_come else "releases it when it is due"
            direct = "" if of.ledger else " Without a ledger, nothing tells of consumers that do not claim."
            return f"Each queue has it, or {come}.{direct}{stops}{_RETRIES if has_come else ''}"
        case MessageState.UNKNOWN if has_come:
            return (
                "No ledger holds it. It went to the queues without a ledger, because it was due soon after it was "
                f"sent; or its ledger is gone, as ledgers are kept for {kept_days:g} days (retention_days); or nobody "
                f"sent it.{_RETRIES}"
            )
        case MessageState.UNKNOWN:
            return (
                "No ledger holds it. It is still in an ingest queue (for seconds, or up to five minutes if it is due "
                "in over half an hour); or it went to the queues without a ledger, because it is due soon; or nobody "
                "sent it."
            )
    return ENDS[of.state]


def peek(
    connection: Connection, topic: str, count: int, now_ms: int, after: str | datetime | None = None
) -> list[WaitingMessage]:
    """Returns the next unplanned messages by due time.

    Raises:
        InvalidValue: `count` or `after` is not usable.
        UnknownTopic: the topic does not exist.
        ExtraMissing: pyarrow is not installed.
        PeekIncomplete: a ledger or its item is damaged or gone; the error has the messages of all others.
    """
    check_whole("n", count, 1, MAX_PEEK, more="; go on with after=")
    after_id = _after(after)
    with needs_extra(_READING, "read"):
        from tidewheel.flows.waiting.peek import peek_messages
    state = connection.storage.topic_states.existing(topic)
    found, unreadable = peek_messages(connection.storage, state, count, now_ms, after=after_id)
    messages = [waiting_message(each) for each in found]
    if unreadable:
        raise PeekIncomplete(topic, [*messages], unreadable)
    return messages


def find(connection: Connection, state: TopicState, message_id: MessageId) -> FoundMessage | None:
    """Finds a message's row in ledgers and plans.

    Raises:
        ExtraMissing: pyarrow is not installed.
    """
    with needs_extra(_READING, "read"):
        from tidewheel.flows.waiting.peek import find_message
    return find_message(connection.storage, state, message_id)


def waiting_message(found: FoundMessage) -> WaitingMessage:
    """Returns a ledger's row in the form for callers."""
    checked = found.checked
    options = checked.options or Options()
    return WaitingMessage(
        id=id_text(checked.id),
        deliver_at=utc(checked.deliver_at_ms),
        body=checked.text,
        encoding=checked.encoding,
        attributes=checked.attributes,
        sent_at=utc(found.sent_at_ms),
        key=found.key,
        expires_at=None if options.expires_at_ms is None else utc(options.expires_at_ms),
        attempt=options.attempt or 0,
        original_id=options.original_id,
        payload=options.payload,
        group=options.group,
    )


def _waiting_state(state: TopicState, found: FoundMessage, waits: bool, now_ms: int) -> MessageState:
    """Returns the state of a message that is neither cancelled nor delivered to all subscriptions."""
    expires_at_ms = found.expires_at_ms
    if state.purged(found.checked.deliver_at_ms, found.sent_at_ms):
        return MessageState.PURGED
    if expires_at_ms is not None and expires_at_ms < now_ms:
        return MessageState.EXPIRED
    return MessageState.WAITING if waits else MessageState.SEALED


def _recipient(each: SubscriptionState, found: FoundMessage, slot: int) -> Recipient:
    """Returns whether a subscription gets a message that is due in a slot."""
    from tidewheel.flows.waiting.peek import is_taken

    checked = found.checked
    options = checked.options or Options()
    excluded = not is_taken(each.filter_policy, checked.attributes, options.group)
    if options.only is not None:
        excluded = options.only != each.name
    return Recipient(name=each.name, filter_policy=each.filter_policy, excluded=excluded or each.start > slot)


def _progress(
    storage: Storage,
    state: TopicState,
    subscriptions: Sequence[SubscriptionState],
    message: FoundMessage,
    claim: Claim,
    now_ms: int,
    *,
    cancelled: bool,
) -> tuple[SubscriptionProgress, ...]:
    """Reads the progress of those of a topic's subscriptions whose start is at or before a slot, and of replays.

    The order of the reads follows the way of a message: from the subscription's cursor to a delivery, from there
    perhaps to a park, and to the record that the delivery leaves.
    """
    topic, plan, unreadable = state.topic, message.plan, dict[str, Exception]()
    slot = message.checked.deliver_at_ms // state.slot_ms
    owners = {(topic, each.name, each.generation): each for each in subscriptions}
    opened = {
        each.key: each
        for each in storage.deliveries.all(topic, unreadable)
        if (each.key.plan, each.key.replay) == (plan, None)
    }
    lost_parks = dict[str, Exception]()
    parked = {each.key.owner for each in storage.parks.all(topic, lost_parks)}
    done = {key: each for key, each in opened.items() if each.complete}  # its record is to come
    done |= {key: replace(it, done_ms=now_ms) for key, it in opened.items() if _has_sent(it, message.object_name)}
    if plan is not None:
        done |= {each.key: each for each in storage.deliveries.sent(topic, plan, plan + 1)}
    known = outcomes.Known(
        state=state,
        read_ms=now_ms,
        states={owner: each.state for owner, each in owners.items()},
        parked=owners if lost_parks else parked,
    )
    found = known.told(message, () if unreadable else done.values(), claim, cancelled=cancelled)
    told = {key.owner for key in done if key.replay is None and not unreadable}
    opens = {key.owner for key in opened}
    for owner, each in owners.items():
        if each.start <= slot and owner not in told:
            of = Outcome(Place.UNCERTAIN, "it was handed out, but no record of its delivery is kept")
            if each.cursor <= slot or owner in opens or unreadable:
                of = Outcome(Place.PLANNED if each.cursor <= slot else Place.DELIVERING)
            found.append(outcomes.progress(each.name, each.state, of, claim))
    return tuple(sorted(found, key=lambda each: (each.name, each.replayed)))


def _has_sent(delivery: Delivery, object_name: str) -> bool:
    """Whether an open delivery has sent the messages of a ledger: it is stuck, and only has what it cannot read."""
    return delivery.stuck and delivery.names_all and object_name not in delivery.unread_objects


def _after(after: str | datetime | None) -> bytes | None:
    if after is None:
        return None
    if isinstance(after, datetime):
        return id_floor(max(0, at_ms("after", after + timedelta(microseconds=1))))
    try:
        return id_bytes(after)
    except InvalidValue:
        raise InvalidValue("after", after, "give a message id, or a time with its zone") from None
