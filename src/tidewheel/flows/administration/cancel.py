"""Cancels waiting messages, by id or by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import KEPT_S, Tombstone, tombstone
from tidewheel.storage.storage import Storage
from tidewheel.storage.tombstones import MAX_CANCELS

_ATTEMPTS = 50
_MOST_MOVES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The message is never delivered. True as a truth value.

    Attributes:
        id: the message, or its replacement if the message was moved; None for a key without a known message. By key,
            messages that are still in an ingest queue are not delivered either, unless the sender's clock is ahead of
            ours by more than the time since the sending.
    """

    id: MessageId | None

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLate:
    """The message's slot is sealed, so the message is or was delivered. False as a truth value.

    Attributes:
        id: the message, or its replacement if the message was moved.
    """

    id: MessageId

    def __bool__(self) -> bool:
        return False


CancelResult = Cancelled | TooLate


def cancel(storage: Storage, topic: str, slot_ms: int, message_id: MessageId, now_ms: int) -> CancelResult:
    """Cancels a message by id, in one conditional transaction. A repetition is harmless.

    Messages that are still in an ingest queue can be cancelled too, because ingest and dispatch read tombstones after
    the seal. The id of a moved message cancels its replacement.

    Raises:
        ConcurrentModification: other transactions came first each time; try again.
    """
    for _ in range(_MOST_MOVES):
        outcome = storage.tombstones.cancel(topic, tombstone(message_id, slot_ms, now_ms))
        if outcome.done or (outcome.found is not None and outcome.found.certain and outcome.found.to is None):
            return Cancelled(id=message_id)
        if outcome.found is None or outcome.found.to is None:
            return TooLate(id=message_id)
        message_id = outcome.found.to
    raise ConcurrentModification("cancel", topic, _MOST_MOVES)


def cancel_many(
    storage: Storage, topic: str, slot_ms: int, message_ids: Sequence[MessageId], now_ms: int
) -> list[CancelResult]:
    """Cancels messages, up to ninety in one transaction. Returns one result per id, in order.

    A refused batch is halved until the refused message is alone. If it stops, some messages are cancelled, and a
    repetition reports these as cancelled.
    """
    results: dict[MessageId, CancelResult] = {}

    def settle(batch: list[Tombstone]) -> None:
        if len(batch) > 1 and storage.tombstones.cancel_batch(topic, batch):
            results.update({each.id: Cancelled(id=each.id) for each in batch})
        elif len(batch) > 1:
            middle = len(batch) // 2
            settle(batch[:middle])
            settle(batch[middle:])
        else:
            results[batch[0].id] = cancel(storage, topic, slot_ms, batch[0].id, now_ms)

    # In order of slots, so that a seal refuses only the first batches.
    wanted = sorted(tombstone(each, slot_ms, now_ms) for each in dict.fromkeys(message_ids))
    for start in range(0, len(wanted), MAX_CANCELS):
        settle(wanted[start : start + MAX_CANCELS])
    return [results[each] for each in message_ids]


def cancel_key(
    storage: Storage, topic: str, slot_ms: int, key: str, version: tuple[int, int], now_ms: int
) -> CancelResult:
    """Cancels the message of a key, and older messages with the key in ingest queues.

    The key's entry becomes a cancelled entry with a new version, so that older messages lose against it. The message
    that the entry names is cancelled in the same transaction. If its slot is sealed, only the entry changes.

    Args:
        version: the caller's clock in ms, and its count.

    Returns:
        Cancelled if no message sent with the key before is delivered from now on. TooLate if such a message is
            delivered: the newest, or an earlier message that was replaced after its slot was sealed. In the second case
            the newest is cancelled if possible.

    Raises:
        UnknownTopic: a rebuild has taken the topic away; try again afterwards.
        ConcurrentModification: others changed the key under every attempt; try again.
    """
    for _ in range(_ATTEMPTS):
        found = storage.keys.read(topic, key)
        if found is not None and found.version[:2] >= version:
            # From a sender whose clock is ahead of ours: the message came before this call, so it is cancelled too.
            version = (found.sent_ms, found.seq + 1)
        result = _put_cancelled(storage, topic, slot_ms, found, _cancelled(key, found, version, now_ms), now_ms)
        if result is not None:
            return result
    raise ConcurrentModification("cancel key", topic, _ATTEMPTS)


def cancel_as_sent(storage: Storage, topic: str, slot_ms: int, key: str, version: tuple[int, int], now_ms: int) -> None:
    """Cancels all messages of a key that are older than a version, as a plain message asks.

    A newer entry stays, and keeps that older messages in ingest queues are dropped. So a cancel that comes late, or
    once more, stops nothing newer. A message whose slot is sealed is delivered.

    Raises:
        UnknownTopic: a rebuild has taken the topic away; try again afterwards.
        ConcurrentModification: others changed the key under every attempt; try again.
    """
    for _ in range(_ATTEMPTS):
        found = storage.keys.read(topic, key)
        if found is not None and found.floor >= version:
            return
        if found is None or found.version[:2] < version:
            entry = _cancelled(key, found, version, now_ms)
            if _put_cancelled(storage, topic, slot_ms, found, entry, now_ms) is not None:
                return
        elif storage.keys.move(topic, found, replace(found, floor=version), None):
            return
    raise ConcurrentModification("cancel key", topic, _ATTEMPTS)


def _put_cancelled(
    storage: Storage, topic: str, slot_ms: int, found: KeyEntry | None, entry: KeyEntry, now_ms: int
) -> CancelResult | None:
    """Moves a key to a cancelled entry, with a tombstone of its message. Returns None if the key has changed."""
    if found is not None and found.id is not None:
        return _cancel_named(storage, topic, found, entry, tombstone(found.id, slot_ms, now_ms), now_ms)
    done = storage.keys.claim(topic, entry) is None if found is None else storage.keys.move(topic, found, entry, None)
    if not done:
        return None
    # A rebuild that restores the key cancels the message if it finds this entry, but perhaps too late.
    _is_sealed(storage, topic, 0)
    restored = storage.keys.read(topic, entry.key)
    if restored is None or restored.id is None or not restored.cancelled:
        return Cancelled(id=None)
    return None


def _cancelled(key: str, found: KeyEntry | None, version: tuple[int, int], now_ms: int) -> KeyEntry:
    """Returns the entry of a cancelled key."""
    return KeyEntry(
        key=key,
        id=None if found is None else found.id,
        sent_ms=version[0],
        seq=version[1],
        cancelled=True,
        floor=version,
        tail_ms=0 if found is None else found.tail_ms,
        ttl_s=max(now_ms, 0 if found is None else found.deliver_at_ms) // 1000 + KEPT_S,
    )


def _cancel_named(
    storage: Storage, topic: str, found: KeyEntry, entry: KeyEntry, wanted: Tombstone, now_ms: int
) -> CancelResult | None:
    """Cancels a key's entry and the message that it names. Returns None if the key has changed."""
    named: MessageId | None = wanted.id
    if not storage.keys.move(topic, found, entry, wanted):
        known = storage.tombstones.read(topic, wanted.slot, wanted.id)
        if known is None and not _is_sealed(storage, topic, wanted.slot):
            return None
        if not storage.keys.move(topic, found, entry, None):
            return None
        if known is None or not (known.certain or storage.tombstones.cancel(topic, wanted).done):
            return TooLate(id=wanted.id)
        # A replacement of the entry's message that is not in the entry yet loses against the cancel.
        named = known.to or named
    return TooLate(id=wanted.id) if entry.tail_ms > now_ms else Cancelled(id=named)


def _is_sealed(storage: Storage, topic: str, slot: int) -> bool:
    """Returns whether a slot is sealed.

    Raises:
        UnknownTopic: a rebuild has taken the topic away.
    """
    state = storage.topic_states.read(topic)
    if state is None:
        raise UnknownTopic(topic)
    return state.sealed > slot
