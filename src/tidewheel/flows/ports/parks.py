"""The port to parks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState


class Parked(Enum):
    """The outcome of putting a park."""

    PARKED = "parked"
    EXISTS = "exists"
    """An earlier try put the same messages."""
    MOVED = "moved"
    """A condition failed: an item is not as read, or is gone. Nothing was written."""


class JobNote(NamedTuple):
    """The note of a job whose messages are parked. It outlives the park. The port `Notes` reads it.

    Attributes:
        name: the job's.
        ttl_s: when the table forgets the note, in seconds of Unix time.
    """

    name: str
    ttl_s: int


class Parks(Protocol):
    """The parks of each topic."""

    def put(self, park: Park, state: State, note: JobNote | None = None) -> Parked:
        """Puts a park of a subscription whose state was read, and the note of its job. EXISTS if either is there.

        `T{put PARK IF absent; check SUB: state as read and generation same; put NOTE IF absent}`.

        The check ensures that no park of a paused subscription appears after the resume that drains the parks.
        """
        ...

    def replace(self, leased: Park, parks: Sequence[Park]) -> Parked:
        """Replaces a leased park by parks of the messages that are left. Returns EXISTS if one of them is there.

        `T{delete PARK IF leased_ms as read; put each PARK IF absent}`.
        """
        ...

    def put_off(self, leased: Park, park: Park) -> bool:
        """Ends the lease of a park whose messages are all left. Returns False if refused.

        `next_check_ms, tries, refused_ms and unreadable as in park, leased_ms forgotten IF leased_ms as
        read`.
        """
        ...

    def park_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        """Puts a park and marks the part done.

        `T{put PARK IF absent; DELIVERY: done + part, its lease forgotten IF the delivery exists and the part is not
        done}`.
        """
        ...

    def read(self, key: ParkKey) -> Park | None:
        """Reads a park."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Park]:
        """Reads all parks of a topic, by subscription, without their ledgers.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        ...

    def of(self, subscription: SubscriptionState) -> list[Park]:
        """Reads the parks of a subscription's generation, without their ledgers. Leaves out what cannot be read."""
        ...

    def lease(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """Leases a park. Returns the park afterwards, or None if refused.

        `leased_ms = now IF the park exists and leased_ms is absent or older than expired_before_ms`.
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
