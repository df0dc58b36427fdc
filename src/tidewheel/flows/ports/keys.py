"""The port to keys."""

from __future__ import annotations

from typing import Protocol

from tidewheel.model.key import KeyEntry
from tidewheel.model.tombstone import Tombstone


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
