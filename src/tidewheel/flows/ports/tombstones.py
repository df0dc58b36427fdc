"""The port to tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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


class Tombstones(Protocol):
    """The tombstones of each topic."""

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

    def put(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone, in time or not.

        `put TOMB IF absent`.
        """
        ...

    def read(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads a tombstone."""
        ...

    def ids(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        """Reads the ids that were cancelled in slots [first_slot, end_slot)."""
        ...

    def all(self, topic: str) -> list[Tombstone]:
        """Reads all tombstones of a topic, by slot and id."""
        ...

    def delete_expired(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        """Deletes tombstones of slots below end_slot whose ttl has passed."""
        ...

    def allow_move(self, topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> None:
        """Allows a message that is not sent yet to take another message's place.

        Only callers who may cancel can write this, so a pack alone moves nothing.
        """
        ...

    def may_move(self, topic: str, mover: MessageId, moved: MessageId) -> bool:
        """Returns whether a message may take another message's place."""
        ...

    def restore(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone for a rebuild and overwrites an existing tombstone."""
        ...
