"""The part of the port `Topics` for parks and states of subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import TopicState


class Parked(Enum):
    """The outcome of putting a park."""

    PARKED = "parked"
    EXISTS = "exists"
    """An earlier try put the same messages."""
    MOVED = "moved"
    """A condition failed: an item is not as read, or is gone. Nothing was written."""


class ParksPort(Protocol):
    """The part of the port `Topics` for states of subscriptions and for parks."""

    # ---- a subscription's state
    def pause(self, subscription: SubscriptionState) -> bool:
        """Pauses a subscription. Returns False if refused.

        `SUB: state = PAUSED IF generation as read`.
        """
        ...

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        """Marks a subscription as broken. Returns False if refused.

        `SUB: state = BROKEN IF state = ACTIVE and generation same`.
        """
        ...

    def resume(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Makes a subscription active. Returns False if refused.

        `T{SUB: state = ACTIVE IF state and generation as read; STATE: work_version + 1, the next slot lowered to the
        cursor IF generation as read and next_slot compares with the cursor as in `state`}`.

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire,
        the sweep is to check the topic at once (`AT_ONCE_MS`).
        """
        ...

    def set_filter(self, subscription: SubscriptionState, filter_policy: str | None) -> bool:
        """Changes a subscription's filter. Returns False if refused.

        `SUB: filter_policy = ... IF generation as read`.
        """
        ...

    def delete_subscription(self, subscription: SubscriptionState) -> bool:
        """Deletes a subscription. Returns False if refused.

        `delete SUB IF generation as read`.
        """
        ...

    # ---- parks
    def put_park(self, park: Park) -> Parked:
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

    def park(self, key: ParkKey) -> Park | None:
        """Reads a park."""
        ...

    def parks(self, topic: str) -> list[Park]:
        """Reads all parks of a topic, by subscription, without their ledgers."""
        ...

    def lease_park(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """Leases a park. Returns the park afterwards, or None if refused.

        `leased_ms = now IF the park exists and leased_ms is absent or older than expired_before_ms`.
        """
        ...

    def release_park(self, key: ParkKey) -> None:
        """Deletes a park's lease after a failure. Does nothing if the lease is gone.

        A retry may then take the park at once.
        """
        ...

    def stamp_park(self, key: ParkKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        """Sets a park's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        ...

    def delete_parks(self, keys: Iterable[ParkKey]) -> None:
        """Deletes parks. Missing parks are ignored. The caller deletes the parks' objects."""
        ...
