"""Settles which messages of a batch are superseded, before any commit or send.

A message that loses gets a tombstone and stays in its batch, so that a repeated batch makes the same ledger. The
tombstone is put before the ledger, and before the direct path reads tombstones, so it always takes effect.

A message that is due after the latest time of its key gets a tombstone, too. A new message with the same body, due at
the latest time, takes its place. First the key names the new message. Then the tombstone names the new message. Then
ingest sends the new message to an ingest queue, in a pack with all such messages of the batch. Then ingest puts a note.
If ingest stops between two steps, the batch comes again, and ingest continues. If ingest stops before the note, the new
message is sent twice. If the first message was cancelled, the new message is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidewheel import deadline
from tidewheel.errors import ConcurrentModification, CorruptMetadata, InvalidValue, NewerRelease
from tidewheel.flows.delivery.cancel import cancel_late, some_may_not_claim, stop
from tidewheel.flows.ports import Ports, each_alone
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId, id_at, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.pack import Pack, outgoing, select
from tidewheel.model.pack import packs as packs_of
from tidewheel.model.settings import MAX_FUNCTION_S
from tidewheel.model.tombstone import LATE_REPLACE_MS, LATEST_CANCEL_MS, Claim, Tombstone, claim_ttl_s, tombstone, ttl_s
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import KEYED_URGENT_MS
from tidewheel.model.validation import Options, OutgoingMessage, at_its_latest
from tidewheel.storage.tombstones import superseding
from tidewheel.storage.writes import Change

_ATTEMPTS = 50
_MOST_MOVES = 20
_PACKED = 1_000
"""Messages of a pack, so that a call that dies with it leaves time to the others."""


CandidateName = tuple[str, str | None, str | None]
"""The id, key and moved id of a message, as sent."""
_Errors = dict[CandidateName, Exception]


class _Following(NamedTuple):
    """The next entry of a key, and what it does to the superseded message.

    Attributes:
        superseded: the message's tombstone.
        claim: the write on its claim.
        state: from which the readers that claim nothing are known.
    """

    entry: KeyEntry
    superseded: Tombstone | None = None
    claim: Change | None = None
    state: TopicState | None = None


class _Verdict(NamedTuple):
    """What becomes of a message.

    Attributes:
        lives_as: the id with which the message is delivered, its own or that of an earlier time. None: the message is
            dropped.
        write: the change of the key's entry that must be made first. If another writer was first, the entry is read
            again.
        again: whether the entry is read again in any case.
    """

    lives_as: MessageId | None
    write: _Following | None = None
    again: bool = False


_DIES = _Verdict(None)


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

    If a call of the table fails, only the messages of that key must wait. All other messages are settled. A message
    that waits may have claimed its key already. So a later try may settle an older message of the key.

    Args:
        unsettled: gets the messages that must wait, each with the error.
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

    # Keys get half of the time, and the rest waits: messages without keys need time too.
    with deadline.share(2):
        side_by_side([[each] for each in candidates if each.options.moves is not None], settling.move)
        by_key: dict[str, list[Candidate]] = {}
        for each in candidates:
            if each.options.key is not None and each.id not in losers and each.name not in unsettled:
                by_key.setdefault(each.options.key, []).append(each)
        side_by_side(list(by_key.values()), settling.claim)
    settling.send_earlier(unsettled)
    return len(losers)


def candidates_of(pack: Pack) -> list[Candidate]:
    """Returns the messages of a pack whose keys or moves are to be settled."""
    found = []
    for place, options in enumerate(pack.options or ()):
        if options is not None and options.affects_others and not options.settled:
            id = id_text(pack.ids[16 * place : 16 * place + 16])
            name = id, options.key, options.moves
            sent_ms = pack.sent_ms(place)
            found.append(Candidate(id=id, name=name, pack=pack, place=place, sent_ms=sent_ms, options=options))
    return found


@contextmanager
def _noted(unsettled: _Errors, candidates: Sequence[Candidate]) -> Iterator[None]:
    """Notes the error if an item of these candidates cannot be read.

    Many such errors are not an outage, so `each_alone` does not count these errors.
    """
    try:
        yield
    except NewerRelease:
        raise
    except (CorruptMetadata, InvalidValue) as error:
        unsettled.update((each.name, error) for each in candidates)


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
        self._earlier: dict[MessageId, tuple[Candidate, OutgoingMessage, int]] = {}
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
            if stop(self._storage, self._state, wanted, self._now_ms) != mine.id:
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
                self._bring_forward(mine, lives_as)
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
            verdict = self._verdict(found, mine, older, moves=moves)
            moved = verdict.write is None or self._storage.keys.move(self._state.topic, found, *verdict.write)
            if moved and not verdict.again:
                return verdict.lives_as
        raise ConcurrentModification("settle key", self._state.topic, _ATTEMPTS)

    def _verdict(self, found: KeyEntry, mine: KeyEntry, older: Sequence[KeyEntry], *, moves: bool) -> _Verdict:
        """Returns what becomes of a message, by the entry of its key. The first line that fits counts.

        the entry names                           the message              outcome
        ----------------------------------------  -----------------------  ---------------------------------------------
        the message itself, from an earlier try                            `_of_own`
        a message that was moved to this one      moves                    comes next, or dies if that was cancelled
        any, with a floor above the message                                dies: it was cancelled or replaced before
        a newer message that waits                                         `_of_newer`
        an older message that still waited        without `replace`        dies
        any                                       moves                    comes next, without the entry's latest time
        any                                                                comes next, at the latest time of all
        """
        if found.id is not None and found.id == id_at(mine.id or found.id, found.deliver_at_ms):
            return self._of_own(found, found.id, mine, moves=moves)
        if moves and found.id is not None and self._leads_to(found.id, mine.id):
            # The same message at another time: it must not lose against its own earlier version.
            if found.cancelled:
                return _DIES
            return _comes_next(_Following(self._with_plain_tail(found, _after(found, mine))))
        if mine.version[:2] < found.floor:
            return _DIES
        if found.version > mine.version and self._alive(found):
            return _of_newer(found, mine)
        if found.version < mine.version and not mine.replace and self._overlap(found, mine):
            return _DIES
        if moves:  # a time that is given anew ends the promises of older messages
            return _comes_next(self._following_entry(replace(found, latest_ms=0), mine))
        return _comes_next(
            self._following_entry(found, _by_latest(mine, [e for e in older if e.version[:2] >= found.floor]))
        )

    def _of_own(self, found: KeyEntry, id: MessageId, mine: KeyEntry, *, moves: bool) -> _Verdict:
        """Returns what becomes of a message that its entry names, since an earlier try."""
        corrected = found.sent_ms < mine.sent_ms or (found.sent_ms > mine.sent_ms and not found.cancelled)
        if corrected and not moves:
            # The earlier try did not know of a purge, which has changed the sending time.
            known = replace(found, sent_ms=mine.sent_ms, floor=max(mine.floor, found.floor))
            return _Verdict(id, _Following(known), again=True)
        # A cancel that found the slot sealed put no tombstone, and said that the message comes.
        return _Verdict(id) if not found.cancelled or self._find(id) is None else _DIES

    def _following_entry(self, found: KeyEntry, mine: KeyEntry) -> _Following:
        """Returns the entry that follows `found`, and the writes that stop the superseded message.

        the superseded message                      the following entry                   writes
        ------------------------------------------  ------------------------------------  ----------------------------
        is dead, or is not to be stopped            as it is                              none
        its slot is open                            bound by the superseded latest time   its tombstone
        its slot is sealed, nobody has it           bound by the superseded latest time   its tombstone and its claim
        its slot is sealed, it was cancelled        as it is                              none
        its slot is sealed, a consumer has it       `tail_ms` is the superseded due time  its tombstone and its claim
        its slot is sealed, nobody can claim it     `tail_ms` is the superseded due time  a tombstone for its own ingest

        If a plain reader gets a cancelled message all the same, `tail_ms` is the superseded due time, too.
        """
        following = replace(mine, floor=max(mine.floor, found.floor), tail_ms=found.tail_ms)
        known = None if found.id is None else self._find(found.id)
        replaced = self._may_replace(found, mine)
        if found.id is None or self._is_dead(found, known) or not (replaced or found.cancelled):
            return _Following(following if known is None else self._with_plain_tail(found, following))
        bound = _by_latest(following, [found]) if replaced else following
        own = tombstone(found.id, self._state.slot_ms, self._now_ms)
        near = found.deliver_at_ms < self._near_ms
        state = self._read_state() if near else self._state
        if not near or state.sealed <= own.slot:
            return _Following(bound, own._replace(certain=near) if known is None and replaced else None)
        claim, cancel = self._cancel_of_claim(own, found.deliver_at_ms) if replaced else (Claim(), None)
        following = following if claim.comes or cancel is None else bound
        if claim.comes or some_may_not_claim(self._storage, state):
            following = _with_tail(found, following)
        if cancel is not None:
            return _Following(following, own, cancel, state)
        # The message may still wait for a retry of its own ingest, which finds the tombstone.
        may_wait = claim.comes and replaced and known is None and not claim.cancelled and not found.latest_ms
        return _Following(following, own._replace(certain=False) if may_wait else None)

    def _may_replace(self, found: KeyEntry, mine: KeyEntry) -> bool:
        """Whether a message replaces that of an older entry, unless it is too late."""
        late_ms = LATE_REPLACE_MS if found.id is not None and self._state.claims(found.id) else 0
        over = 0 < found.latest_ms <= mine.sent_ms
        return mine.replace and not over and found.deliver_at_ms > mine.sent_ms - late_ms

    def _cancel_of_claim(self, own: Tombstone, due_ms: int) -> tuple[Claim, Change | None]:
        """Returns the claim that a message of a sealed slot will have, and the write that cancels the message, if any.

        If a consumer has the message, the write cancels the message for all other subscriptions. If the message is
        cancelled already, this puts its tombstone, which may be missing.
        """
        topic = self._state.topic
        if not self._state.claims(own.id) or self._now_ms - due_ms > LATEST_CANCEL_MS:
            return Claim(), None
        claim = self._storage.claims.read(topic, own.id)
        if claim.cancelled:  # its tombstone may be missing
            return cancel_late(self._storage, self._state, own._replace(to=claim.to), self._now_ms), None
        kept_s = claim_ttl_s(due_ms, self._now_ms, cancelled=True)
        return replace(claim, cancelled=True), superseding(topic, own.id, kept_s, from_all=not claim.holders)

    def _with_plain_tail(self, found: KeyEntry, following: KeyEntry) -> KeyEntry:
        """Returns the following entry, with a tail if the message comes to plain readers all the same."""
        comes = found.id is not None and self._comes_plainly(found.id, found.deliver_at_ms)
        return _with_tail(found, following) if comes else following

    def _comes_plainly(self, id: MessageId, due_ms: int) -> bool:
        """Whether a message that was cancelled or moved late may still come to a subscription that does not claim."""
        waits = self._now_ms < due_ms < self._near_ms and self._state.claims(id)
        stopped = waits and bool(self._state.readers) and self._storage.claims.read(self._state.topic, id).cancelled
        return stopped and some_may_not_claim(self._storage, self._state)

    def _bring_forward(self, mine: Candidate, earlier: MessageId) -> None:
        """Replaces a message that is due after the latest time of its key by a message that is due at that time.

        If the first message was cancelled, the other message is cancelled, too.
        """
        topic, slot_ms = self._state.topic, self._state.slot_ms
        own = tombstone(mine.id, slot_ms, self._now_ms, to=earlier)
        known = self._storage.tombstones.put(topic, own)
        if known is not None and known.to != earlier:
            self._storage.tombstones.put(topic, tombstone(earlier, slot_ms, self._now_ms))
        elif self._storage.notes.read(topic, earlier) is None:
            [message] = outgoing(select(mine.pack, [mine.place]))
            self._earlier[earlier] = mine, at_its_latest(message, earlier, mine.sent_ms), own.ttl_s

    def send_earlier(self, unsettled: _Errors) -> None:
        """Sends messages whose maximum makes them due earlier, in packs, and notes them."""
        topic, near_ms = self._state.topic, self._now_ms + KEYED_URGENT_MS
        known_ms = self._state.sent_at_ms(0)

        def note(id: MessageId) -> None:
            self._storage.notes.put(topic, id, 0, self._earlier[id][2])

        for urgent in (True, False):
            ids = [id for id, (_, each, _) in self._earlier.items() if (each.deliver_at_ms < near_ms) is urgent]
            messages = [self._earlier[id][1] for id in ids]
            packed = packs_of(
                topic, self._state.generation, self._now_ms, messages, max_messages=_PACKED, known_purge_ms=known_ms
            )
            for places, data in packed:
                sent = [ids[place] for place in places]
                try:
                    self._queues.forward(topic, len(sent), data, urgent=urgent)
                except Exception as error:
                    errors = dict.fromkeys(sent, error)
                else:
                    errors = each_alone(self._storage.parallel, note, sent)
                unsettled.update((self._earlier[id][0].name, error) for id, error in errors.items())

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
        return self._read_state().sealed

    def _read_state(self) -> TopicState:
        return self._storage.topic_states.read(self._state.topic) or self._state

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


def _comes_next(following: _Following) -> _Verdict:
    return _Verdict(following.entry.id, following)


def _with_tail(found: KeyEntry, following: KeyEntry) -> KeyEntry:
    """Returns the entry that follows that of a message which still comes: a cancel by key is too late until then."""
    return replace(following, tail_ms=max(found.tail_ms, found.deliver_at_ms))


def _of_newer(found: KeyEntry, mine: KeyEntry) -> _Verdict:
    """Returns what becomes of a message if a newer one waits. It lives only if due before the newer was sent."""
    if mine.deliver_at_ms <= found.sent_ms:
        return _Verdict(mine.id)
    # The message that `mine` replaces must not come either, even if the newer message is cancelled.
    return _DIES if mine.floor <= found.floor else _Verdict(None, _Following(replace(found, floor=mine.floor)))


def _by_latest(mine: KeyEntry, older: Sequence[KeyEntry]) -> KeyEntry:
    """Returns a message's entry with the earliest of the latest times of the message and of older messages.

    If the message is due after this time, the entry has the id of a message that is due at this time.
    """
    latest_ms = min((each.latest_ms for each in (mine, *older) if each.latest_ms), default=0)
    late = mine.id is not None and 0 < latest_ms < mine.deliver_at_ms
    return replace(mine, latest_ms=latest_ms, id=id_at(mine.id, latest_ms) if late and mine.id else mine.id)


def _after(found: KeyEntry, mine: KeyEntry) -> KeyEntry:
    """Returns a message's entry with a version above another entry's."""
    sent_ms, seq = max(mine.version[:2], (found.sent_ms, found.seq + 1))
    return replace(mine, sent_ms=sent_ms, seq=seq, floor=max(found.floor, (sent_ms, seq)), tail_ms=found.tail_ms)
