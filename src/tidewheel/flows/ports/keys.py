"""The port to keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import Protocol

from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import Tombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInLedgers:
    """Selects the keys that a rebuild could not find in ledgers.

    These are cancelled and replaced keys, and keys of messages that are sealed and not due.

    Attributes:
        now_ms: a key also counts if a message that was superseded too late is due after it.
        first_id, end_id: ids of the sealed messages that are not due are in [first_id, end_id).
        most: how many entries at most. The newest cancelled and replaced keys count.
    """

    now_ms: int
    first_id: MessageId
    end_id: MessageId
    most: int

    def selects(self, entry: KeyEntry) -> bool:
        """Returns whether a key counts."""
        return entry.floor[0] > 0 or self._comes(entry)

    def most_of(self, entries: Iterable[KeyEntry]) -> list[KeyEntry]:
        """Returns the most important entries, in the order of their keys."""
        found = nlargest(self.most, entries, key=lambda each: (self._comes(each), each.version))
        return sorted(found, key=lambda each: each.key)

    def _comes(self, entry: KeyEntry) -> bool:
        return entry.tail_ms > self.now_ms or (entry.id is not None and self.first_id <= entry.id < self.end_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKeys:
    """Keys that were found.

    Attributes:
        examined: how many keys were read for that.
    """

    entries: list[KeyEntry]
    examined: int


class Keys(Protocol):
    """The keys of each topic."""

    def read(self, topic: str, key: str) -> KeyEntry | None:
        """Reads a key's entry."""
        ...

    def claim(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """Creates a key's entry. Returns None, or the entry that exists already.

        `put KEY IF absent`.
        """
        ...

    def move(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        """Replaces a key's entry. Returns False if refused.

        `T{KEY = entry IF its version is as seen; put TOMB IF absent; STATE check sealed <= slot, if the tombstone is to
        be certain}`.
        """
        ...

    def not_in_ledgers(self, topic: str, wanted: NotInLedgers) -> FoundKeys:
        """Finds keys that a rebuild could not find in ledgers. May miss changes of the last second.

        Reads a bounded number of keys. Leaves out entries that cannot be read.
        """
        ...
