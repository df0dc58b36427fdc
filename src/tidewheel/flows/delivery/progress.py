"""Keeps how far the direct rows of packs were sent, so that retries of the packs send no copies."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.flows.ports import Ports
from tidewheel.model.message import id_deliver_at_ms
from tidewheel.model.pack import Pack
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import RETENTION_S


class Progress:
    """The progress of the packs of one call.

    The first try of a pack writes only if the ledger fails after the direct rows were sent. A retry writes before and
    after it sends, and sends nothing if the first write is refused. So a table that refuses for hours makes one copy,
    and not a copy a try. Only a table that takes the first write and refuses the second makes a copy a try.

    Attributes:
        again: whether a pack may have been tried before. Nobody knows it of a pack without an arrival.
    """

    def __init__(self, ports: Ports, state: TopicState, packs: Sequence[Pack]) -> None:
        """Reads the progress of packs that were tried before."""
        self._ports = ports
        self._state = state
        self._packs = {pack.arrival.name: pack for pack in packs if pack.arrival is not None}
        arrivals = [pack.arrival for pack in packs if pack.arrival is not None]
        retried = list(dict.fromkeys(each.name for each in arrivals if each.retried))
        self._retried = bool(retried)
        self.again = len(arrivals) < len(packs) or self._retried
        self._known: dict[str, int] = {}
        self._below_slot: int | None = None

        def read(place: int) -> None:
            known = ports.notes.read(state.topic, retried[place])
            if known is not None:
                self._known[retried[place]] = known

        for _ in ports.parallel(read, range(len(retried))):
            pass

    def sent_below(self, pack: Pack) -> int:
        """Returns the slot below which all rows of a pack were sent."""
        return 0 if pack.arrival is None else self._known.get(pack.arrival.name, 0)

    def begin(self, below_slot: int) -> None:
        """Checks, for a retry, that the table takes the progress of the rows that are sent next."""
        if self._retried:
            known = self._below_slot or 0
            self._put({name: max(known, self.sent_below(pack)) for name, pack in self._packs.items()}, below_slot)

    def sent(self, below_slot: int) -> None:
        """Keeps in mind that all rows below a slot were sent. A retry writes this at once."""
        self._below_slot = below_slot
        if self._retried:
            self.keep()

    def keep(self) -> None:
        """Writes the progress, if rows were sent."""
        if self._below_slot is not None:
            self._put(dict.fromkeys(self._packs, self._below_slot), self._below_slot)

    def _put(self, slots: dict[str, int], below_slot: int) -> None:
        """Writes the progress of each pack that has a row below a slot."""
        names = [name for name in slots if _first_due_ms(self._packs[name]) < below_slot * self._state.slot_ms]
        # Longer than one stay in the ingest queue, and one in the queue of refused messages or of dead letters.
        ttl_s = self._ports.clock.now_ms() // 1000 + 2 * RETENTION_S

        def put(place: int) -> None:
            self._ports.notes.put(self._state.topic, names[place], slots[names[place]], ttl_s)

        for _ in self._ports.parallel(put, range(len(names))):
            pass


def _first_due_ms(pack: Pack) -> int:
    return id_deliver_at_ms(min(pack.ids[i : i + 6] for i in range(0, len(pack.ids), 16)))
