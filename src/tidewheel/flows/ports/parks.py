"""What the flows need of subscriptions' states, and of parks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription import DeliveryKey, Subscription
from tidewheel.model.topic_state import TopicState


class Parked(Enum):
    """What became of a park."""

    PARKED = "parked"
    EXISTS = "exists"
    """An earlier try put the same messages."""
    MOVED = "moved"
    """What it depends on is not as it was read, or is gone: nothing was done."""


class ParksPort(Protocol):
    """The part of the port `Topics` that is about subscriptions' states and parks."""

    # ---- a subscription's state
    def pause(self, subscription: Subscription) -> bool:
        """`SUB: state = PAUSED IF generation as read`; returns whether it did."""
        ...

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        """`SUB: state = BROKEN IF state = ACTIVE and generation same`; returns whether it did."""
        ...

    def resume(self, state: TopicState, subscription: Subscription) -> bool:
        """`T{SUB: state = ACTIVE IF state and generation as read; STATE: work_version + 1, the next slot lowered to the
        cursor IF generation as read and next_slot compares with the cursor as it did in `state`}`; returns whether it
        did.

        A next slot that is lowered has no schedule. Where it is an open slot, whose schedule would still fire, the
        sweep is to look at once (`AT_ONCE_MS`)."""
        ...

    def set_filter(self, subscription: Subscription, filter_policy: str | None) -> bool:
        """`SUB: filter_policy = ... IF generation as read`; returns whether it did."""
        ...

    def delete_subscription(self, subscription: Subscription) -> bool:
        """`delete SUB IF generation as read`; returns whether it did."""
        ...

    # ---- parks
    def put_park(self, park: Park) -> Parked:
        """`T{put PARK IF absent; check SUB: state in (PAUSED, BROKEN) and generation same}`.

        Only so can no park appear after the resume that drains them.
        """
        ...

    def spill_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        """`T{put PARK IF absent; DELIVERY: done + part, its lease forgotten IF the delivery exists and the part is not
        done}`."""
        ...

    def park(self, key: ParkKey) -> Park | None:
        """Reads a park."""
        ...

    def parks(self, topic: str) -> list[Park]:
        """Reads all parks of a topic, by subscription, without their ledgers."""
        ...

    def lease_park(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """`leased_ms = now IF the park exists and leased_ms is absent or older than expired_before_ms`; returns the
        park afterwards, or None."""
        ...

    def release_park(self, key: ParkKey) -> None:
        """Forgets a lease after a failure, so that a retry may take the park at once; harmless if it is gone."""
        ...

    def stamp_park(self, key: ParkKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        """`next_check_ms = ... IF it is as seen`; returns whether it did."""
        ...

    def delete_parks(self, keys: Iterable[ParkKey]) -> None:
        """Deletes parks; those that are gone already do not matter. Their objects are the caller's affair."""
        ...
