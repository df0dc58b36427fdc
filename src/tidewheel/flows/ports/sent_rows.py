"""The port to the progress of packs whose ledger could not be stored, and to notes of jobs and topics."""

from __future__ import annotations

from typing import Protocol


class SentRows(Protocol):
    """How far the direct messages of packs were sent, although the packs come again.

    Two other notes are such items, under names of their own: a job's whose messages were parked, and a topic's that is
    away. In place of a slot, the latter has the second at which a rebuild began.
    """

    def read(self, topic: str, name: str) -> int | None:
        """Returns the slot below which all rows of a pack were sent. None: nothing is known of the pack."""
        ...

    def put(self, topic: str, name: str, below_slot: int, ttl_s: int) -> None:
        """Sets the slot below which all rows of a pack were sent."""
        ...
