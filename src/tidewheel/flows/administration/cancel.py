"""Cancels waiting messages, by id or by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.model.claim import LATEST_CANCEL_MS, Claim, claim_ttl_s
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.tombstone import KEPT_S, Tombstone, tombstone
from tidewheel.model.topic_state import TopicState
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
        subscriptions: whose consumers have the message, in a topic with `cancel_until="consumed"`. Others get it too.
    """

    id: MessageId
    subscriptions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return False


CancelResult = Cancelled | TooLate


def cancel(storage: Storage, state: TopicState, message_id: MessageId, now_ms: int) -> CancelResult:
    """Cancels a message by id, in one conditional transaction. A repetition is harmless.

    Messages that are still in an ingest queue can be cancelled too, because ingest and dispatch read tombstones after
    the seal. The id of a moved message cancels its replacement. If the slot is sealed, the message's claim decides.

    Raises:
        UnknownTopic: as of `cancel_late`.
        ConcurrentModification: other transactions came first each time; try again.
    """
    for _ in range(_MOST_MOVES):
        wanted = tombstone(message_id, state.slot_ms, now_ms)
        outcome = storage.tombstones.cancel(state.topic, wanted)
        if outcome.done:
            return Cancelled(id=message_id)
        answer = _refused(storage, state, wanted, outcome.found, now_ms)
        if not isinstance(answer, str):
            return answer
        message_id = answer
    raise ConcurrentModification("cancel", state.topic, _MOST_MOVES)


def _refused(
    storage: Storage, state: TopicState, wanted: Tombstone, found: Tombstone | None, now_ms: int
) -> CancelResult | MessageId:
    """Returns the answer if a tombstone or the seal refused a cancel, or the id of what took the message's place."""
    if found is not None and found.to is not None:
        return found.to
    if found is not None and found.certain:
        holders = storage.claims.read(state.topic, wanted.id).holders if state.settings.claimed else ()
        return TooLate(id=wanted.id, subscriptions=holders) if holders else Cancelled(id=wanted.id)
    claim = cancel_late(storage, state, wanted, now_ms)
    if claim.comes:
        return TooLate(id=wanted.id, subscriptions=claim.holders)
    return Cancelled(id=wanted.id) if claim.to is None else claim.to


def cancel_late(storage: Storage, state: TopicState, wanted: Tombstone, now_ms: int) -> Claim:
    """Cancels a message whose slot is sealed, unless consumers have it. Returns its claim, which stays as it is.

    Where consumers claim nothing, it comes. A message that was due 14 days ago stays as it is: its tombstone, which
    would say that it was moved in time, may be gone.

    If it stops after the claim, only the claim tells that the message is cancelled. A repetition puts the tombstone.

    Args:
        wanted: names the message that takes its place, if any.

    Raises:
        UnknownTopic: the topic is deleted, or a rebuild has taken it away; try again afterwards.
    """
    if not state.settings.claimed:
        return Claim()
    due_ms = id_deliver_at_ms(id_bytes(wanted.id))
    if now_ms - due_ms > LATEST_CANCEL_MS:
        claim = storage.claims.read(state.topic, wanted.id)
    else:
        ttl_s = claim_ttl_s(due_ms, now_ms, cancelled=True)
        claim = storage.claims.cancel(state.topic, wanted.id, ttl_s, wanted.to)
    said = not claim.cancelled or storage.tombstones.put_late(state.topic, wanted._replace(to=claim.to))
    if not said and storage.tombstones.read(state.topic, wanted.slot, wanted.id) is None:
        raise UnknownTopic(state.topic)
    return claim


def cancel_many(
    storage: Storage, state: TopicState, message_ids: Sequence[MessageId], now_ms: int
) -> list[CancelResult]:
    """Cancels messages, up to ninety in one transaction. Returns one result per id, in order.

    A refused batch is halved until the refused message is alone. If it stops, some messages are cancelled, and a
    repetition reports these as cancelled.
    """
    results: dict[MessageId, CancelResult] = {}

    def settle(batch: list[Tombstone]) -> None:
        if len(batch) > 1 and storage.tombstones.cancel_batch(state.topic, batch):
            results.update({each.id: Cancelled(id=each.id) for each in batch})
        elif len(batch) > 1:
            middle = len(batch) // 2
            settle(batch[:middle])
            settle(batch[middle:])
        else:
            results[batch[0].id] = cancel(storage, state, batch[0].id, now_ms)

    # In order of slots, so that a seal refuses only the first batches. Those that are known as sealed go alone.
    wanted = sorted(tombstone(each, state.slot_ms, now_ms) for each in dict.fromkeys(message_ids))
    sealed = sum(each.slot < state.sealed for each in wanted)
    for start in (*range(sealed), *range(sealed, len(wanted), MAX_CANCELS)):
        settle(wanted[start : start + (1 if start < sealed else MAX_CANCELS)])
    return [results[each] for each in message_ids]


def cancel_key(storage: Storage, state: TopicState, key: str, version: tuple[int, int], now_ms: int) -> CancelResult:
    """Cancels the message of a key, and older messages with the key in ingest queues.

    The key's entry becomes a cancelled entry with a new version, so that older messages lose against it. The message
    that the entry names is cancelled in the same transaction. If its slot is sealed, the message's claim decides, and
    then the entry changes.

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
        found = storage.keys.read(state.topic, key)
        if found is not None and found.version[:2] >= version:
            # From a sender whose clock is ahead of ours: the message came before this call, so it is cancelled too.
            version = (found.sent_ms, found.seq + 1)
        result = _put_cancelled(storage, state, found, _cancelled(key, found, version, now_ms), now_ms)
        if result is not None:
            return result
    raise ConcurrentModification("cancel key", state.topic, _ATTEMPTS)


def cancel_as_sent(storage: Storage, state: TopicState, key: str, version: tuple[int, int], now_ms: int) -> None:
    """Cancels all messages of a key that are older than a version, as a plain message asks.

    A newer entry stays, and keeps that older messages in ingest queues are dropped. So a cancel that comes late, or
    once more, stops nothing newer. A message whose slot is sealed is delivered.

    Raises:
        UnknownTopic: a rebuild has taken the topic away; try again afterwards.
        ConcurrentModification: others changed the key under every attempt; try again.
    """
    for _ in range(_ATTEMPTS):
        found = storage.keys.read(state.topic, key)
        if found is not None and found.floor >= version:
            return
        if found is None or found.version[:2] < version:
            entry = _cancelled(key, found, version, now_ms)
            if _put_cancelled(storage, state, found, entry, now_ms) is not None:
                return
        elif storage.keys.move(state.topic, found, replace(found, floor=version), None):
            return
    raise ConcurrentModification("cancel key", state.topic, _ATTEMPTS)


def _put_cancelled(
    storage: Storage, state: TopicState, found: KeyEntry | None, entry: KeyEntry, now_ms: int
) -> CancelResult | None:
    """Moves a key to a cancelled entry, with a tombstone of its message. Returns None if the key has changed."""
    if found is not None and found.id is not None:
        return _cancel_named(storage, state, found, entry, tombstone(found.id, state.slot_ms, now_ms), now_ms)
    if found is None:
        done = storage.keys.claim(state.topic, entry) is None
    else:
        done = storage.keys.move(state.topic, found, entry, None)
    if not done:
        return None
    # A rebuild that restores the key cancels the message if it finds this entry, but perhaps too late.
    _is_sealed(storage, state.topic, 0)
    restored = storage.keys.read(state.topic, entry.key)
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
    storage: Storage, state: TopicState, found: KeyEntry, entry: KeyEntry, wanted: Tombstone, now_ms: int
) -> CancelResult | None:
    """Cancels a key's entry and the message that it names. Returns None if the key has changed."""
    named: MessageId | None = wanted.id
    if not storage.keys.move(state.topic, found, entry, wanted):
        known = storage.tombstones.read(state.topic, wanted.slot, wanted.id)
        asked = known is None or state.settings.claimed
        sealed = asked and _is_sealed(storage, state.topic, wanted.slot)
        if known is None and not sealed:
            return None
        claim = cancel_late(storage, state, wanted, now_ms) if sealed else None
        if not storage.keys.move(state.topic, found, entry, None):
            return None
        if claim is not None and claim.comes:
            return TooLate(id=wanted.id, subscriptions=claim.holders)
        if claim is None and (
            known is None or not (known.certain or storage.tombstones.cancel(state.topic, wanted).done)
        ):
            return TooLate(id=wanted.id)
        # A replacement of the entry's message that is not in the entry yet loses against the cancel.
        named = (known and known.to) or (claim and claim.to) or named
    return TooLate(id=wanted.id) if entry.tail_ms > now_ms else Cancelled(id=named)


def _is_sealed(storage: Storage, topic: str, slot: int) -> bool:
    """Returns whether a slot is sealed.

    Raises:
        UnknownTopic: a rebuild has taken the topic away.
    """
    return storage.topic_states.existing(topic).sealed > slot
