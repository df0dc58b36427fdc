"""Cancels waiting messages, by id or by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.tombstone import KEPT_S, LATEST_CANCEL_MS, Claim, Holder, Tombstone, claim_ttl_s, tombstone
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

    @property
    def found(self) -> bool:
        """Whether a message is known. By key, False if no ingested message had the key. By id, always True."""
        return self.id is not None

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLate:
    """The message is or was delivered, or may be, to some subscriptions. False as a truth value.

    Attributes:
        id: the message, or its replacement if the message was moved.
        subscriptions: whose consumers have claimed the message. The others get it too.
        plain: the subscriptions that are declared as plain, which may get the message. All others do not.
        unseen: likewise, the subscriptions without a declared reader from which no consumer of the SDK has received.
        unread: whether a move found the message in no ledger, so that its body is not known.
        moved: whether the message comes at its new time, to all subscriptions.
    """

    id: MessageId
    subscriptions: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    unread: bool = False
    moved: bool = False

    @property
    def reason(self) -> str:
        """Why the message comes, in words."""
        if self.subscriptions:
            return f"a consumer has it: {', '.join(self.subscriptions)}"
        if self.unread:
            return "it is in no ledger, so its body is not known: send it anew with its key and replace=True"
        if not self.plain and not self.unseen:
            return "its slot is sealed"
        when = " at its old time too" if self.moved else ""
        why = [f"plain readers may get it{when}: {', '.join(self.plain)}"] if self.plain else []
        if self.unseen:
            how = "declare reader='tidewheel' at its creation, or receive once"
            why.append(f"no consumer of the SDK has received yet from: {', '.join(self.unseen)} ({how})")
        return f"{'; '.join(why)}. For all others it is {'moved' if self.moved else 'stopped'}"

    def __bool__(self) -> bool:
        return False


CancelResult = Cancelled | TooLate


def fate(
    storage: Storage, state: TopicState, message_id: MessageId, found: Tombstone | None, claim: Claim, now_ms: int
) -> CancelResult | MessageId | None:
    """Returns the fate of a message: its successor's id, an answer, or None if the message can still be stopped.

    Every call that answers for a message asks here.

    Args:
        state: read after the tombstone. If the slot is open then, every plan and every direct sending sees the
            tombstone.
        found: the message's tombstone. A consumer may have a message before a newer one of its key puts a tombstone.
        claim: the message's, if consumers claim it.
    """
    due_ms = id_deliver_at_ms(id_bytes(message_id))
    is_open = due_ms // state.slot_ms >= state.sealed
    to = claim.to or (found and found.to)
    if to:
        return to
    if claim.holders:
        return TooLate(id=message_id, subscriptions=claim.holders)
    if claim.cancelled:
        return stopped_late(storage, state.topic, message_id)
    if found is not None and (found.certain or is_open):
        return Cancelled(id=message_id)
    is_claimable = state.claims(message_id) and now_ms - due_ms <= LATEST_CANCEL_MS
    return None if is_open or is_claimable else TooLate(id=message_id)


def stopped_late(storage: Storage, topic: str, message_id: MessageId) -> CancelResult:
    """Returns the answer for a message whose claim says that it is cancelled.

    The subscriptions are read after the claim. A later one gets no message of a slot that was sealed before, except by
    a delivery that reads the tombstones again.

    Raises:
        UnknownTopic: the topic is deleted, or a rebuild has taken it away.
    """
    state = storage.topic_states.existing(topic)
    plain, unseen = tuple(state.plain_readers), tuple(unseen_readers(storage, state))
    return TooLate(id=message_id, plain=plain, unseen=unseen) if plain or unseen else Cancelled(id=message_id)


def after_moves(
    storage: Storage, state: TopicState, moved: Sequence[MessageId], answer: CancelResult, now_ms: int
) -> CancelResult:
    """Returns the answer for a message under its first id. After a late move, plain readers get it at its old time too.

    Args:
        moved: the ids that the message had before. One whose time is over has come.
    """
    if not isinstance(answer, Cancelled) or answer.id is None:
        return answer
    waits = [each for each in moved if id_deliver_at_ms(id_bytes(each)) > now_ms]
    claimed = (each for each in waits if state.claims(each))
    late = any(storage.claims.read(state.topic, each).cancelled for each in claimed)
    return stopped_late(storage, state.topic, answer.id) if late else answer


def unseen_readers(storage: Storage, state: TopicState) -> Iterator[str]:
    """Yields the undeclared subscriptions from which no consumer of the SDK has received. Each costs a read."""
    for each in state.readers:
        holder = Holder(subscription=each.name, generation=each.generation)
        if not each.declared and not storage.claims.shown(state.topic, holder):
            yield each.name


def some_may_not_claim(storage: Storage, state: TopicState) -> bool:
    """Returns whether a subscription may get a message that was stopped late."""
    return bool(state.plain_readers) or any(unseen_readers(storage, state))


def read_fate(
    storage: Storage, topic: str, slot: int, message_id: MessageId, now_ms: int
) -> tuple[TopicState, CancelResult | MessageId | None]:
    """Reads the fate of a message that is due in a slot. Returns the topic's state too.

    Raises:
        UnknownTopic: the topic is deleted, or a rebuild has taken it away.
    """
    found = storage.tombstones.read(topic, slot, message_id)
    state = storage.topic_states.existing(topic)
    claimable = state.claims(message_id) and slot < state.sealed
    claim = storage.claims.read(topic, message_id) if claimable else Claim()
    return state, fate(storage, state, message_id, found, claim, now_ms)


def cancel(storage: Storage, state: TopicState, message_id: MessageId, now_ms: int) -> CancelResult:
    """Cancels a message by id, in one conditional transaction. A repetition is harmless.

    Messages that are still in an ingest queue can be cancelled too, because ingest and dispatch read tombstones after
    the seal. The id of a moved message cancels its replacement. If the slot is sealed, the message's claim decides.

    Raises:
        UnknownTopic: the topic is deleted, or a rebuild has taken it away; try again afterwards.
        ConcurrentModification: other transactions came first each time; try again.
    """
    moved: list[MessageId] = []
    for _ in range(_MOST_MOVES):
        answer = stop(storage, state, tombstone(message_id, state.slot_ms, now_ms), now_ms)
        if not isinstance(answer, str):
            return after_moves(storage, state, moved, answer, now_ms)
        moved.append(message_id)
        message_id = answer
    raise ConcurrentModification("cancel", state.topic, _MOST_MOVES)


def stop(storage: Storage, state: TopicState, wanted: Tombstone, now_ms: int) -> CancelResult | MessageId:
    """Cancels a message, or moves it to `wanted.to`. Returns its fate, so `wanted.to` if the message was moved.

    Raises:
        UnknownTopic, ConcurrentModification: as `cancel`.
    """
    for _ in range(_ATTEMPTS):
        outcome = storage.tombstones.cancel(state.topic, wanted)
        if outcome.done:
            return wanted.to or Cancelled(id=wanted.id)
        answer = _refused(storage, state, wanted, outcome.found, now_ms)
        if answer is not None:
            return answer
    raise ConcurrentModification("cancel", state.topic, _ATTEMPTS)


def _refused(
    storage: Storage, state: TopicState, wanted: Tombstone, found: Tombstone | None, now_ms: int
) -> CancelResult | MessageId | None:
    """Returns the fate of a message that a tombstone or the seal kept from being stopped. None: try again.

    If the slot is sealed, the claim of the message decides. A message that lost its key is cancelled, and not moved.
    """
    certain = found is not None and found.certain
    if not certain:
        state = storage.topic_states.existing(state.topic)
    late, claim = not certain and wanted.slot < state.sealed, Claim()
    if late:
        claim = cancel_late(storage, state, wanted if found is None else wanted._replace(to=None), now_ms)
    elif state.claims(wanted.id):
        claim = storage.claims.read(state.topic, wanted.id)
    answer = fate(storage, state, wanted.id, found, claim, now_ms)
    # A forged claim may name nobody, and is not written over.
    return TooLate(id=wanted.id) if late and answer is None else answer


def cancel_late(storage: Storage, state: TopicState, wanted: Tombstone, now_ms: int) -> Claim:
    """Cancels a message whose slot is sealed, unless consumers have it. Returns its claim, which stays as it is.

    A message that nobody claims comes. A message that was due over 14 days ago is not changed, because the
    tombstone that names its successor may be gone.

    If it stops after the claim, only the claim tells that the message is cancelled. A repetition puts the tombstone.

    Args:
        wanted: names the message that takes its place, if any.

    Raises:
        UnknownTopic: the topic is deleted, or a rebuild has taken it away; try again afterwards.
    """
    if not state.claims(wanted.id):
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

    # In order of slots, so that a seal refuses only the first batches. Messages that are known as sealed go alone.
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
    once more, stops nothing newer. If a message's slot is sealed, its claim decides, as in `cancel_key`.

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
    storage.topic_states.existing(state.topic)
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
    answer: CancelResult | MessageId | None = Cancelled(id=wanted.id)
    if not storage.keys.move(state.topic, found, entry, wanted):
        known = storage.tombstones.read(state.topic, wanted.slot, wanted.id)
        answer = _refused(storage, state, wanted, known, now_ms)
        if answer is None or not storage.keys.move(state.topic, found, entry, None):
            return None
    if isinstance(answer, TooLate):
        return answer
    if entry.tail_ms > now_ms:  # an older message comes
        told = stopped_late(storage, state.topic, wanted.id) if state.settings.claims != "none" else None
        return told if isinstance(told, TooLate) else TooLate(id=wanted.id)
    if isinstance(answer, str):
        # A replacement of the entry's message that is not in the entry yet loses against the cancel.
        return after_moves(storage, state, [wanted.id], Cancelled(id=answer), now_ms)
    return Cancelled(id=wanted.id)
