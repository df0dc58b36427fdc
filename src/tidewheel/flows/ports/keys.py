"""The part of the port `Topics` for keys and tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import Tombstone

MAX_CANCELS = 90
"""Tombstones of one `cancel_batch`: a transaction takes 100 items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entombed:
    """The outcome of a cancel.

    Attributes:
        done: the tombstone was put, in time.
        found: the tombstone that was there already. If not `done` and None: the slot was sealed.
    """

    done: bool
    found: Tombstone | None = None


class KeysPort(Protocol):
    """Keys and tombstones of a topic."""

    # ---- tombstones
    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """Puts a tombstone if its slot is not sealed.

        `T{STATE check sealed <= slot; put TOMB IF absent}`.

        An uncertain tombstone is overwritten, unless `tombstone` names another message.
        """
        ...

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """Puts at most 90 tombstones of different ids. Returns False if nothing was written.

        `T{STATE check sealed <= each slot; put each TOMB IF absent}`.
        """
        ...

    def put_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone, in time or not.

        `put TOMB IF absent`.
        """
        ...

    def tombstone(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads a tombstone."""
        ...

    def tombstones(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        """Reads the ids that were cancelled in slots [first_slot, end_slot)."""
        ...

    def all_tombstones(self, topic: str) -> list[Tombstone]:
        """Reads all tombstones of a topic, by slot and id."""
        ...

    def delete_tombstones(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        """Deletes tombstones of slots below end_slot whose ttl has passed."""
        ...

    def restore_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone for a rebuild and overwrites an existing tombstone."""
        ...

    # ---- keys
    def key(self, topic: str, key: str) -> KeyEntry | None:
        """Reads a key's entry."""
        ...

    def claim_key(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """Creates a key's entry. Returns None, or the entry that exists already.

        `put KEY IF absent`.
        """
        ...

    def move_key(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        """Replaces a key's entry. Returns False if refused.

        `T{KEY = entry IF its version is as seen; put TOMB IF absent; STATE check sealed <= slot, if the tombstone is to
        be certain}`.
        """
        ...
