"""Cancels and reschedules waiting messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidewheel.client.core import Core
from tidewheel.client.receiving import move_payload
from tidewheel.client.sender import Sender
from tidewheel.errors import InvalidValue, UnknownMessage
from tidewheel.flows.delivery.cancel import (
    Cancelled,
    CancelResult,
    TooLate,
    after_moves,
    cancel,
    cancel_key,
    cancel_many,
    read_fate,
    stop,
    stopped_late,
)
from tidewheel.model.message import MessageId, Receipt, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.tombstone import tombstone, ttl_s
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import check_key, due_at_ms, moved
from tidewheel.storage.storage import Storage

_MOST_MOVES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescheduled:
    """The message comes only at the new time. True as a truth value.

    Attributes:
        receipt: the message's new id and time.
        old_id: the message's id before; cancelling or rescheduling by this id still works.
    """

    receipt: Receipt
    old_id: MessageId

    def __bool__(self) -> bool:
        return True


def check_one_of(message_id: str | None, key: str | None) -> None:
    """Raises InvalidValue unless the caller gave either a valid id or a valid key."""
    if (message_id is None) == (key is None):
        raise InvalidValue("id, key", (message_id, key), "give either an id or a key")
    if message_id is not None:
        id_bytes(message_id)
    if key is not None:
        check_key(key)


def cancel_one(core: Core, topic: str, message_id: str | None, key: str | None) -> CancelResult:
    """Cancels by id or by key. See `Tidewheel.cancel`."""
    storage, state = core.connection.storage, core.cache.state(topic)
    now_ms = state.sent_at_ms(core.clock.now_ms())
    check_one_of(message_id, key)
    if key is not None:
        return cancel_key(storage, state, key, (now_ms, core.ids.sequence()), now_ms)
    return cancel(storage, state, MessageId(str(message_id)), now_ms)


def cancel_all(core: Core, state: TopicState, message_ids: Iterable[str]) -> list[CancelResult]:
    """Cancels many messages by id. See `Tidewheel.cancel_many`."""
    if isinstance(message_ids, (str, bytes)) or not isinstance(message_ids, Iterable):
        raise InvalidValue("ids", message_ids, "give a list of ids; for one, use cancel")
    wanted = [MessageId(each) for each in message_ids]
    for index, each in enumerate(wanted):
        try:
            id_bytes(each)
        except InvalidValue as error:
            raise InvalidValue(f"ids[{index}]", each, "give the id of a receipt, which has 26 characters") from error
    if not wanted:
        raise InvalidValue("ids", [], "give at least one id")
    return cancel_many(core.connection.storage, state, wanted, core.clock.now_ms())


def new_due_ms(
    state: TopicState,
    now_ms: int,
    *,
    delay: float | timedelta | str | None,
    deliver_at: datetime | float | None,
    delay_level: int | None,
) -> int:
    """Returns the new time of a message. See `Tidewheel.reschedule`."""
    if delay is None and deliver_at is None and delay_level is None:
        raise InvalidValue("delay", None, "say when: give delay, deliver_at or delay_level")
    levels = state.settings.delay_levels
    return due_at_ms(now_ms, delay=delay, deliver_at=deliver_at, delay_level=delay_level, levels=levels)


def reschedule(
    sender: Sender, due_ms: int, message_id: str | None, key: str | None = None
) -> Rescheduled | CancelResult:
    """Moves a message to another time. See `Tidewheel.reschedule`.

    First an item allows the new message to move the old message. Ingest ignores a move without the item, so whoever may
    only send moves nothing. Then the new message is put into an ingest queue, then the old message's tombstone names
    the new message. Ingest does the same conditional write before it commits the new message. So client and ingest see
    the same outcome, and exactly one of the two messages comes. Once the slot is sealed, both write the old message's
    claim instead, and then its tombstone. If the writes stop
        after the move is allowed: nothing was done.
        after the new message is sent: ingest finishes the move.
        after the tombstone: the move is complete.

    Raises:
        BodyChanged: the message's large body is not the one that was sent. Nothing was done.
        UnknownTopic: the topic is deleted, or its index is being rebuilt. In the second case the move may still happen.
    """
    from tidewheel.client.waiting import find

    core, state, now_ms = sender.core, sender.state, sender.core.clock.now_ms()
    connection, storage = core.connection, core.connection.storage
    old, cancelled = (MessageId(str(message_id)), False) if key is None else _named(storage, state, key)
    named = [old]
    for _ in range(_MOST_MOVES):
        slot = id_deliver_at_ms(id_bytes(old)) // state.slot_ms
        state, known = read_fate(storage, state.topic, slot, old, now_ms)
        if not isinstance(known, str):
            break
        old = known
        named.append(old)
    if isinstance(known, Cancelled | TooLate):
        return after_moves(storage, state, named[:-1], known, now_ms)
    if cancelled:  # the successor is still in an ingest queue, and loses against the cancel
        return Cancelled(id=old)
    found = find(connection, state, old)
    if found is None and slot < state.sealed:
        return TooLate(id=old, unread=state.claims(old))
    if found is None:
        how = "if it was sent within the last minutes, try again; otherwise correct the id"
        raise UnknownMessage(state.topic, old, how)
    if state.purged(found.checked.deliver_at_ms, found.sent_at_ms):
        return cancel(storage, state, old, now_ms)
    new = move_payload(connection, state.topic, moved(found.checked, core.ids, due_ms, id_bytes(old)), old)
    storage.tombstones.allow_move(state.topic, id_text(new.id), old, ttl_s(due_ms, now_ms))
    [receipt] = sender.send_checked([new])
    answer = stop(storage, state, tombstone(old, state.slot_ms, now_ms, to=receipt.id), now_ms)
    if answer == receipt.id:
        if state.claims(old) and storage.claims.read(state.topic, old).to == receipt.id:
            told = stopped_late(storage, state.topic, receipt.id)
        else:
            told = after_moves(storage, state, named[:-1], Cancelled(id=receipt.id), now_ms)
        return replace(told, moved=True) if isinstance(told, TooLate) else Rescheduled(receipt=receipt, old_id=old)
    if isinstance(answer, str):  # another move came first
        return reschedule(sender, due_ms, old)
    return after_moves(storage, state, named[:-1], answer, now_ms)


def _named(storage: Storage, state: TopicState, key: str) -> tuple[MessageId, bool]:
    """Returns the id of a key's message, and whether the key was cancelled, in time or not."""
    entry = storage.keys.read(state.topic, key)
    if entry is None or entry.id is None:
        how = "no message with this key was ingested yet; if one was sent just now, try again"
        raise UnknownMessage(state.topic, key, how)
    return entry.id, entry.cancelled
