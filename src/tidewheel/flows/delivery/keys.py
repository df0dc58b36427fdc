"""Settles which messages of a batch are superseded, before any commit or send.

A message that loses gets a tombstone and stays in its batch, so that a repeated batch makes the same ledger. The
tombstone is put before the ledger, and before the direct path reads tombstones, so it always takes effect.

A message that would be due after the latest time of its key gets a tombstone too. Another message with its body, due
then, takes its place: the key names that message, then the tombstone does, then it is sent to an ingest queue, and a
note says so. If it stops between these, the batch comes again and goes on; between the last two, one more copy is sent.
The tombstone decides: if the message was cancelled, the other is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidewheel.errors import ConcurrentModification, CorruptMetadata, InvalidValue, KeysNotSettled, NewerRelease
from tidewheel.flows.administration.cancel import cancel_late
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parallel import each_alone
from tidewheel.model.claim import LATE_REPLACE_MS, LATEST_CANCEL_MS, Claim, claim_ttl_s
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId, id_at, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.pack import Pack, outgoing, select
from tidewheel.model.pack import packs as packs_of
from tidewheel.model.settings import MAX_FUNCTION_S
from tidewheel.model.tombstone import Tombstone, tombstone, ttl_s
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import KEYED_URGENT_MS
from tidewheel.model.validation import Options, at_its_latest
from tidewheel.storage.claims import superseding
from tidewheel.storage.writes import Change

_ATTEMPTS = 50
_MOST_MOVES = 20


CandidateName = tuple[str, str | None, str | None]
"""The id, key and moved id of a message, as sent."""
_Errors = dict[CandidateName, Exception]
_Following = tuple[KeyEntry, Tombstone | None, Change | None]
"""The next entry of a key, the tombstone of the superseded message, and the write on its claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message of a batch that has a key, or replaces another message.

    Attributes:
        name: id, key and moved id, as sent. Tells the message from another sender's that was given the same id.
        pack, place: where it is.
        options: as sent, without a move that nobody allowed.
    """

    id: MessageId
    name: CandidateName
    pack: Pack
    place: int
    sent_ms: int
    options: Options


def settle_keys(ports: Ports, state: TopicState, packs: Iterable[Pack], unsettled: _Errors) -> int:
    """Claims keys and replaces moved messages. Returns how many messages lost.

    Each message with a key claims the key. Each message that moves another message replaces it.

    If it stops anywhere, the batch comes again and finds the earlier writes: an entry that names the message already,
    or its tombstone. A message that has claimed its key is still in an ingest queue or in the queue of refused
    messages, so the message that it superseded has a successor.

    A call that fails leaves the messages of its key alone. They must wait, and all others are settled. A message that
    waits may have claimed its key. In which order messages of a key are settled does not matter.

    Args:
        unsettled: gets the messages that must wait, each with the error.

    Raises:
        KeysNotSettled: items of some messages cannot be read. All others are settled or wait.
    """
    # SQS may hand a pack out twice: a message must not lose against itself.
    candidates = list({each.id: each for pack in packs for each in candidates_of(pack)}.values())
    if not candidates:
        return 0
    settling = _Settling(ports, state)
    losers: list[MessageId] = []
    candidates = _with_allowed_moves(ports, state.topic, candidates, unsettled)

    def side_by_side(groups: list[list[Candidate]], settle: Callable[[list[Candidate]], list[MessageId]]) -> None:
        def one(index: int) -> None:
            with _noted(unsettled, groups[index]):
                losers.extend(settle(groups[index]))

        for index, error in each_alone(ports.parallel, one, range(len(groups))).items():
            unsettled.update((each.name, error) for each in groups[index])

    side_by_side([[each] for each in candidates if each.options.moves is not None], settling.move)
    by_key: dict[str, list[Candidate]] = {}
    for each in candidates:
        if each.options.key is not None and each.id not in losers and each.name not in unsettled:
            by_key.setdefault(each.options.key, []).append(each)
    side_by_side(list(by_key.values()), settling.claim)
    unread = {name: each for name, each in unsettled.items() if _is_unreadable(each)}
    if unread:
        raise KeysNotSettled(state.topic, unread)
    return len(losers)


def candidates_of(pack: Pack) -> list[Candidate]:
    """Returns the messages of a pack whose keys or moves are to be settled."""
    found = []
    for place, options in enumerate(pack.options or ()):
        if options is None or options.settled:
            continue
        if options.key is not None or options.moves is not None:
            id = id_text(pack.ids[16 * place : 16 * place + 16])
            name = id, options.key, options.moves
            sent_ms = pack.sent_at_ms if options.sent_at_ms is None else options.sent_at_ms
            found.append(Candidate(id=id, name=name, pack=pack, place=place, sent_ms=sent_ms, options=options))
    return found


@contextmanager
def _noted(unsettled: _Errors, candidates: Sequence[Candidate]) -> Iterator[None]:
    """Notes the error of candidates for whose keys or moves an item cannot be read."""
    try:
        yield
    except Exception as error:
        if not _is_unreadable(error):
            raise
        unsettled.update((each.name, error) for each in candidates)


def _is_unreadable(error: Exception) -> bool:
    return isinstance(error, CorruptMetadata | InvalidValue) and not isinstance(error, NewerRelease)


def _with_allowed_moves(ports: Ports, topic: str, candidates: list[Candidate], unsettled: _Errors) -> list[Candidate]:
    """Returns the candidates without moves that nobody allowed: such a message comes beside the other message.

    A pack may name any ids. Only the item that `reschedule` writes under its own permission makes a move count.
    """

    def check(index: int) -> None:
        mine = candidates[index]
        moved = mine.options.moves
        with _noted(unsettled, [mine]):
            if moved is not None and not ports.tombstones.may_move(topic, mine.id, moved):
                candidates[index] = replace(mine, options=replace(mine.options, moves=None))

    moving = [i for i, each in enumerate(candidates) if each.options.moves is not None]
    for index, error in each_alone(ports.parallel, check, moving).items():
        unsettled[candidates[index].name] = error
    return [each for each in candidates if each.name not in unsettled]


class _Settling:
    """Settles the candidates of a topic."""

    def __init__(self, ports: Ports, state: TopicState) -> None:
        self._storage = ports
        self._queues = ports.queues
        self._state = state
        self._now_ms = ports.clock.now_ms()
        settings = state.settings
        # The slot of an earlier message may be sealed before this call ends: its tombstone may be too late.
        self._near_ms = self._now_ms + settings.lookahead_ms + settings.slot_ms + MAX_FUNCTION_S * 1000

    def move(self, candidates: list[Candidate]) -> list[MessageId]:
        """Replaces moved messages by the candidates. Returns the candidates that came too late.

        The client does the same write, so the first writer decides for both.
        """
        losers: list[MessageId] = []
        for mine in candidates:
            assert mine.options.moves is not None
            wanted = tombstone(mine.options.moves, self._state.slot_ms, self._now_ms, to=mine.id)
            outcome = self._storage.tombstones.cancel(self._state.topic, wanted)
            decided: Tombstone | Claim | None = outcome.found
            if not outcome.done and decided is None:  # the slot is sealed
                decided = cancel_late(self._storage, self._state, wanted, self._now_ms)
            if not outcome.done and (decided is None or decided.to != mine.id):
                self._drop(mine)
                losers.append(mine.id)
        return losers

    def claim(self, candidates: list[Candidate]) -> list[MessageId]:
        """Settles the candidates of a key, oldest first. Returns the losers."""
        entries = sorted(
            ((self._entry(each), each) for each in candidates), key=lambda pair: (*pair[0].version, pair[0].id)
        )
        losers: list[MessageId] = []
        if any(each.options.moves is not None for each in candidates):
            # A replacement comes after the replaced message, whatever their senders' clocks said.
            entries.sort(key=lambda pair: pair[1].options.moves is not None)
            newest, replaced_ms = 0, 0
        else:
            # All messages before the newest with `replace` are superseded, whatever the table says.
            newest = max((i for i, (entry, _) in enumerate(entries) if entry.replace), default=0)
            replaced_ms = entries[newest][0].sent_ms
        older: list[KeyEntry] = []
        for i, (entry, mine) in enumerate(entries):
            if i < newest and entry.deliver_at_ms > replaced_ms:
                older.append(entry)
                lives_as = None
            else:
                lives_as = self._settle(entry, older if i == newest else (), moves=mine.options.moves is not None)
            if lives_as is None:
                self._drop(mine)
                losers.append(mine.id)
            elif lives_as != mine.id:
                self._send_earlier(mine, lives_as)
        return losers

    def _entry(self, mine: Candidate) -> KeyEntry:
        options = mine.options
        assert options.key is not None and options.seq is not None
        due_ms = id_deliver_at_ms(id_bytes(mine.id))
        return KeyEntry(
            key=options.key,
            id=mine.id,
            sent_ms=mine.sent_ms,
            seq=options.seq,
            replace=options.replace,
            floor=(mine.sent_ms, options.seq) if options.replace else (0, 0),
            latest_ms=0 if options.max_wait_ms is None else mine.sent_ms + options.max_wait_ms,
            ttl_s=ttl_s(due_ms, self._now_ms),
        )

    def _settle(self, mine: KeyEntry, older: Sequence[KeyEntry], *, moves: bool) -> MessageId | None:
        """Claims a key for a message. Returns the id as which the message lives, or None if it does not.

        Args:
            older: what the message has superseded in its batch.
            moves: whether the message replaced another message.
        """
        first = _by_latest(mine, older)
        for _ in range(_ATTEMPTS):
            found = self._storage.keys.claim(self._state.topic, first)
            if found is None:
                return first.id
            is_mine = found.id is not None and found.id == id_at(mine.id or found.id, found.deliver_at_ms)
            if is_mine and found.sent_ms < mine.sent_ms and not moves:
                # An earlier try did not know of a purge before the message, and the entry would count as purged.
                known = replace(found, sent_ms=mine.sent_ms, floor=max(mine.floor, found.floor))
                self._storage.keys.move(self._state.topic, found, known)
                continue
            if is_mine and found.id is not None:
                # A cancel that found the slot sealed put no tombstone, and said that the message comes.
                return found.id if not found.cancelled or self._find(found.id) is None else None
            if moves and found.id is not None and self._leads_to(found.id, mine.id):
                # The same message at another time: it must not lose against its own earlier version.
                if found.cancelled:
                    return None
                following: _Following = _after(found, mine), None, None
            elif mine.version[:2] < found.floor:
                return None
            elif found.version > mine.version and self._alive(found):
                # The entry is newer and stays. `mine` lives only if it was due before the newer message was sent.
                if mine.deliver_at_ms <= found.sent_ms:
                    return mine.id
                # What `mine` replaces must not come either, even if the newer message is cancelled.
                raised = replace(found, floor=mine.floor)
                if mine.floor <= found.floor or self._storage.keys.move(self._state.topic, found, raised):
                    return None
                continue
            elif found.version < mine.version and not mine.replace and self._overlap(found, mine):
                return None
            elif moves:  # a time that is given anew ends the promises of older messages
                following = self._moved(replace(found, latest_ms=0), mine)
            else:
                following = self._moved(found, _by_latest(mine, [e for e in older if e.version[:2] >= found.floor]))
            if self._storage.keys.move(self._state.topic, found, *following):
                return following[0].id
        raise ConcurrentModification("settle key", self._state.topic, _ATTEMPTS)

    def _moved(self, found: KeyEntry, mine: KeyEntry) -> _Following:
        """Returns the entry that follows `found`, and the writes that stop the superseded message.

        A message that is due so soon that its slot may be sealed gets a tombstone on the condition that the slot is
        open. If the slot is sealed, the message's claim decides. A message that comes anyway keeps its own promise;
        the entry holds until when it may come.
        """
        following = replace(mine, floor=max(mine.floor, found.floor), tail_ms=found.tail_ms)
        known = None if found.id is None else self._find(found.id)
        replaced = self._may_replace(found, mine)
        if found.id is None or self._is_dead(found, known) or not (replaced or found.cancelled):
            return following, None, None
        kept = _by_latest(following, [found]) if replaced else following
        own = tombstone(found.id, self._state.slot_ms, self._now_ms)
        near = found.deliver_at_ms < self._near_ms
        if not near or self._sealed_now() <= own.slot:
            return kept, own._replace(certain=near) if known is None and replaced else None, None
        claim, stop = self._stop(own, found.deliver_at_ms) if replaced else (Claim(), None)
        if not claim.comes:
            return (following, None, None) if stop is None else (kept, own, stop)
        following = replace(following, tail_ms=max(found.tail_ms, found.deliver_at_ms))
        if stop is not None:
            return following, own, stop
        # A tombstone would still stop the message while it waits for a retry of its own ingest.
        keeps = claim.cancelled or known is not None or not replaced or found.latest_ms
        return following, None if keeps else own._replace(certain=False), None

    def _may_replace(self, found: KeyEntry, mine: KeyEntry) -> bool:
        """Whether a message replaces that of an older entry, unless it is too late."""
        late_ms = LATE_REPLACE_MS if self._state.settings.claimed else 0
        over = 0 < found.latest_ms <= mine.sent_ms
        return mine.replace and not over and found.deliver_at_ms > mine.sent_ms - late_ms

    def _stop(self, own: Tombstone, due_ms: int) -> tuple[Claim, Change | None]:
        """Returns the claim of a message whose slot is sealed once the write is done that cancels it, if any.

        What a consumer has is cancelled for all others.
        """
        topic = self._state.topic
        if not self._state.settings.claimed or self._now_ms - due_ms > LATEST_CANCEL_MS:
            return Claim(), None
        claim = self._storage.claims.read(topic, own.id)
        if claim.cancelled:  # its tombstone may be missing
            return cancel_late(self._storage, self._state, own._replace(to=claim.to), self._now_ms), None
        kept_s = claim_ttl_s(due_ms, self._now_ms, cancelled=True)
        return replace(claim, cancelled=True), superseding(topic, own.id, kept_s, from_all=not claim.holders)

    def _send_earlier(self, mine: Candidate, earlier: MessageId) -> None:
        """Sends a message in the place of one that is due after its key's latest time, unless this was cancelled."""
        topic, slot_ms = self._state.topic, self._state.slot_ms
        own = tombstone(mine.id, slot_ms, self._now_ms, to=earlier)
        known = self._storage.tombstones.put(topic, own)
        if known is not None and known.to != earlier:
            self._storage.tombstones.put(topic, tombstone(earlier, slot_ms, self._now_ms))
            return
        if self._storage.notes.read(topic, earlier) is not None:
            return
        [message] = outgoing(select(mine.pack, [mine.place]))
        message = at_its_latest(message, earlier, mine.sent_ms)
        urgent = message.deliver_at_ms < self._now_ms + KEYED_URGENT_MS
        for _, data in packs_of(topic, self._state.generation, self._now_ms, [message]):
            self._queues.forward(topic, 1, data, urgent=urgent)
        self._storage.notes.put(topic, earlier, 0, own.ttl_s)

    def _leads_to(self, message_id: MessageId, successor: MessageId | None) -> bool:
        """Whether a message was moved and became the given successor."""
        named: MessageId | None = message_id
        for _ in range(_MOST_MOVES):
            known = None if named is None else self._find(named)
            if known is None or known.to is None:
                return False
            if known.to == successor:
                return True
            named = known.to
        return False

    def _sealed_now(self) -> int:
        state = self._storage.topic_states.read(self._state.topic)
        return self._state.sealed if state is None else state.sealed

    def _alive(self, found: KeyEntry) -> bool:
        """Whether an entry names a message that can still be delivered, and no cancel by key came after it."""
        return not found.cancelled and not self._is_dead(found, None if found.id is None else self._find(found.id))

    def _is_dead(self, found: KeyEntry, known: Tombstone | None) -> bool:
        """Whether an entry is dead, given the tombstone of its message."""
        if found.id is None or self._state.purged(found.deliver_at_ms, found.sent_ms):
            return True
        # An uncertain tombstone took effect if the slot is still open.
        return known is not None and (known.certain or self._sealed_now() <= known.slot)

    def _overlap(self, found: KeyEntry, mine: KeyEntry) -> bool:
        """Whether the message of an older entry still waited when `mine` was sent."""
        # After a cancel, in time or not, the next message is wanted.
        if found.id is None or found.cancelled or self._state.purged(found.deliver_at_ms, found.sent_ms):
            return False
        named: MessageId | None = found.id
        for _ in range(_MOST_MOVES):
            if named is None or id_deliver_at_ms(id_bytes(named)) <= mine.sent_ms:
                return False
            cancelled = self._find(named)
            if cancelled is None:
                return True
            named = cancelled.to  # the replacement waits in an ingest queue, or is in a ledger
        return True

    def _find(self, message_id: MessageId) -> Tombstone | None:
        slot = id_deliver_at_ms(id_bytes(message_id)) // self._state.slot_ms
        return self._storage.tombstones.read(self._state.topic, slot, message_id)

    def _drop(self, mine: Candidate) -> None:
        own = tombstone(mine.id, self._state.slot_ms, self._now_ms, certain=False)
        self._storage.tombstones.put(self._state.topic, own)


def _by_latest(mine: KeyEntry, older: Sequence[KeyEntry]) -> KeyEntry:
    """Returns the entry of a message that comes no later than it and older ones may, with an earlier id if need be."""
    latest_ms = min((each.latest_ms for each in (mine, *older) if each.latest_ms), default=0)
    late = mine.id is not None and 0 < latest_ms < mine.deliver_at_ms
    return replace(mine, latest_ms=latest_ms, id=id_at(mine.id, latest_ms) if late and mine.id else mine.id)


def _after(found: KeyEntry, mine: KeyEntry) -> KeyEntry:
    """Returns a message's entry with a version above another entry's."""
    sent_ms, seq = max(mine.version[:2], (found.sent_ms, found.seq + 1))
    return replace(mine, sent_ms=sent_ms, seq=seq, floor=max(found.floor, (sent_ms, seq)), tail_ms=found.tail_ms)
