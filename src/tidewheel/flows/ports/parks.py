"""The port to parks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey


class Parked(Enum):
    """The outcome of putting a park."""

    PARKED = "parked"
    EXISTS = "exists"
    """An earlier try put the same messages."""
    MOVED = "moved"
    """A condition failed: an item is not as read, or is gone. Nothing was written."""


class Parks(Protocol):
    """The parks of each topic."""

    def put(self, park: Park) -> Parked:
        """Puts a park of a paused or broken subscription.

        `T{put PARK IF absent; check SUB: state in (PAUSED, BROKEN) and generation same}`.

        The check ensures that no park appears after the resume that drains the parks.
        """
        ...

    def spill_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        """Puts a park and marks the part done.

        `T{put PARK IF absent; DELIVERY: done + part, its lease forgotten IF the delivery exists and the part is not
        done}`.
        """
        ...

    def read(self, key: ParkKey) -> Park | None:
        """Reads a park."""
        ...

    def all(self, topic: str) -> list[Park]:
        """Reads all parks of a topic, by subscription, without their ledgers."""
        ...

    def lease(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """Leases a park. Returns the park afterwards, or None if refused.

        `leased_ms = now IF the park exists and leased_ms is absent or older than expired_before_ms`.
        """
        ...

    def release(self, key: ParkKey) -> None:
        """Deletes a park's lease after a failure. Does nothing if the lease is gone.

        A retry may then take the park at once.
        """
        ...

    def set_next_check(self, key: ParkKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        """Sets a park's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        ...

    def delete(self, keys: Iterable[ParkKey]) -> None:
        """Deletes parks. Missing parks are ignored. The caller deletes the parks' objects."""
        ...
