"""Keeps which rows of packs are done, so that retries of the packs send no copies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tidewheel.flows.delivery.keys import CandidateName, candidates_of, settle_keys
from tidewheel.flows.ports import Ports, each_alone, persistently
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.message import TIMES_END_MS, id_deliver_at_ms
from tidewheel.model.pack import Pack, select
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import RETENTION_S
from tidewheel.model.wheel import open_from
from tidewheel.storage.items import Note

_EVERY_SLOT = TIMES_END_MS
"""Above each slot, since a slot has more than a millisecond."""


def settled(ports: Ports, state: TopicState, packs: Sequence[Pack]) -> Progress:
    """Settles the keys of packs, of which some may have been tried before. See `settle_keys`, also for what is raised.

    The table must then take the progress of the packs that come again and have rows of sealed slots.
    """
    progress = Progress(ports, state, packs)
    unsettled: dict[CandidateName, Exception] = {}
    progress.superseded = settle_keys(ports, state, progress.packs.values(), unsettled)
    progress.wait_for(unsettled)
    progress.probe(max(state.sealed, open_from(ports.clock.now_ms(), state.settings)))
    return progress


class Progress:
    """The progress of the packs of one call. A failed call of the table affects only its own pack.

    The first try of a pack writes only if the ledger fails after the direct rows were sent. A retry writes before and
    after it sends, and sends nothing if the first write is refused. So a table that refuses for hours makes one copy,
    and not a copy a try. Only a table that takes the first write and refuses the second makes a copy a try.

    A pack with messages that wait for their keys writes before the others are sent, and when they are done. It comes
    again for the messages that wait.

    Attributes:
        packs: place in the batch -> the pack, with only the messages that this call ingests. A pack whose other
            messages wait is in `pending`, too.
        pending: place in the batch -> the error of a pack that comes again.
        superseded: messages that were dropped because of their key, or because their move came too late.
    """

    def __init__(self, ports: Ports, state: TopicState, packs: Sequence[Pack]) -> None:
        """Reads the progress of packs that were tried before."""
        self._ports = ports
        self._state = state
        self.packs = dict(enumerate(packs))
        self.pending: dict[int, Exception] = {}
        self.superseded = 0
        self._arrivals = {place: pack.arrival for place, pack in self.packs.items() if pack.arrival is not None}
        self._retried = {place for place, each in self._arrivals.items() if each.retried}
        self._known: dict[int, Note] = {}
        self._waiting: dict[int, frozenset[bytes]] = {}
        self._begun: set[int] = set()
        self._below_slot = 0

        def read(place: int) -> None:
            known = ports.notes.read(state.topic, self._arrivals[place].name)
            if known is not None:
                self._known[place] = known

        self._leave(each_alone(ports.parallel, read, sorted(self._retried)))
        for place, known in self._known.items():
            ids, end_ms = _ids(self.packs[place]), known.number * state.slot_ms
            rest = [i for i, id in enumerate(ids) if id in known.waiting or id_deliver_at_ms(id) >= end_ms]
            self.packs[place] = select(self.packs[place], rest)

    def _leave(self, errors: Mapping[int, Exception]) -> None:
        self.pending |= errors
        for place in errors:
            self.packs.pop(place, None)

    def wait_for(self, unsettled: Mapping[CandidateName, Exception]) -> None:
        """Takes messages out of their packs whose keys cannot be settled now.

        The rest of a pack is pending, too, if the table does not take its progress.
        """
        for place, pack in [*self.packs.items()]:
            waiting = {each.place: unsettled[each.name] for each in candidates_of(pack) if each.name in unsettled}
            if waiting and (len(waiting) == len(pack) or place not in self._arrivals):
                self._leave({place: next(iter(waiting.values()))})
            elif waiting:
                self.pending[place] = next(iter(waiting.values()))
                self.packs[place] = select(pack, [i for i in range(len(pack)) if i not in waiting])
                self._waiting[place] = frozenset(id for i, id in enumerate(_ids(pack)) if i in waiting)
        self._probe(self._waiting)

    def probe(self, below_slot: int) -> dict[int, Exception]:
        """Writes the known progress of retries with rows below a slot, as a test of the table.

        Returns the error of each pack whose progress the table refused. These packs are pending.
        """
        return self._probe(self._with_rows(self._retried, below_slot))

    def _probe(self, places: Collection[int]) -> dict[int, Exception]:
        errors = self._put({place: self._note(place) for place in places if place not in self._begun})
        self._begun |= {*places} - errors.keys()
        self._leave(errors)
        return errors

    @contextmanager
    def sending(self, below_slot: int) -> Iterator[None]:
        """Writes the progress of packs that come again, before and after the block sends their rows below a slot.

        Raises:
            Exception: the table does not take the first write.
        """
        for error in self.probe(below_slot).values():
            raise error
        yield
        self._keep(self._retried, below_slot)

    def failed(self, below_slot: int) -> None:
        """Writes the progress of all packs, since all rows below a slot were sent, and the ledger failed."""
        self._keep(self.packs, below_slot)

    def _keep(self, places: Iterable[int], below_slot: int) -> None:
        """Writes the progress of packs of which rows were sent. Raises nothing: without it, a retry sends copies."""
        self._below_slot = below_slot
        self._put({place: self._note(place) for place in self._with_rows(places, below_slot)})

    def finish(self) -> None:
        """Writes that all messages of the packs are done, except those that wait."""
        self._put({place: Note(_EVERY_SLOT, ids) for place, ids in self._waiting.items() if place in self.packs})

    def _with_rows(self, places: Iterable[int], below_slot: int) -> list[int]:
        """Returns the packs that this call ingests and that have a row below a slot."""
        end_ms, named = below_slot * self._state.slot_ms, self.packs.keys() & self._arrivals.keys() & {*places}
        return [place for place in named if any(id_deliver_at_ms(id) < end_ms for id in _ids(self.packs[place]))]

    def _note(self, place: int) -> Note:
        """Returns what is known of a pack, by the messages that wait and the slots whose rows were sent."""
        known, end_ms = self._known.get(place, Note(0)), self._below_slot * self._state.slot_ms
        unsent = {id for id in known.waiting if id_deliver_at_ms(id) >= end_ms}
        return Note(max(known.number, self._below_slot), self._waiting.get(place, frozenset()) | unsent)

    def _put(self, notes: Mapping[int, Note]) -> dict[int, Exception]:
        # Longer than one stay in the ingest queue, and one in the queue of refused messages or of dead letters.
        ttl_s = unchecked_ms(self._ports.clock) // 1000 + 2 * RETENTION_S

        def put(place: int) -> None:
            name, note = self._arrivals[place].name, notes[place]
            persistently(lambda: self._ports.notes.put(self._state.topic, name, note.number, ttl_s, note.waiting))

        return each_alone(self._ports.parallel, put, notes)


def _ids(pack: Pack) -> list[bytes]:
    return [pack.ids[i : i + 16] for i in range(0, len(pack.ids), 16)]
