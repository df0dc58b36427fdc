"""The part of the port `Topics` that is about keys and tombstones."""

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
    """What became of a cancel.

    Attributes:
        done: the tombstone was put, in time.
        found: the one that was there already. If neither: the slot was sealed.
    """

    done: bool
    found: Tombstone | None = None


class KeysPort(Protocol):
    """Keys and tombstones of a topic."""

    # ---- tombstones
    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """`T{STATE check sealed <= slot; put TOMB IF absent}`.

        One that is there but not certain is written over, unless `tombstone` names another message.
        """
        ...

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """`T{STATE check sealed <= each slot; put each TOMB IF absent}` of at most 90 with different ids; all or
        nothing: returns whether it did."""
        ...

    def put_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """`put TOMB IF absent`, whether it is in time or not."""
        ...

    def tombstone(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads one tombstone."""
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
        """Puts a tombstone, whatever is there: for a rebuild."""
        ...

    # ---- keys
    def key(self, topic: str, key: str) -> KeyEntry | None:
        """Reads a key's entry."""
        ...

    def claim_key(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """`put KEY IF absent`; returns the entry that is in the way, None if it did."""
        ...

    def move_key(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        """`T{KEY = entry IF its version is as seen; put TOMB IF absent; STATE check sealed <= slot, if the tombstone is
        to be certain}`; returns whether it did."""
        ...
