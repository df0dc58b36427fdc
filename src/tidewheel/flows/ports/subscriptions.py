"""The port to subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic_state import TopicState


class Subscriptions(Protocol):
    """The subscriptions of each topic, with their states and filters."""

    def create(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Creates a subscription. Returns False if refused.

        `T{put SUB IF absent; STATE: subscriptions_version + 1, work_version + 1, the next slot lowered to the cursor IF
        collected_until <= cursor and generation as read}`.

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire, or
        the schedule of the higher next slot is missing, the sweep is to check the topic at once (`AT_ONCE_MS`).
        """
        ...

    def read(self, topic: str, name: str) -> SubscriptionState | None:
        """Reads one subscription."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[SubscriptionState]:
        """Reads all subscriptions of a topic, by name.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        ...

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

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire, or
        the schedule of the higher next slot is missing, the sweep is to check the topic at once (`AT_ONCE_MS`).
        """
        ...

    def update(self, subscription: SubscriptionState, changes: Mapping[str, Any]) -> bool:
        """Changes settings of a subscription. Returns False if refused.

        `SUB: the settings = ... IF generation as read`.

        Args:
            changes: values of `StoredSettings` by name.
        """
        ...

    def delete(self, subscription: SubscriptionState) -> bool:
        """Deletes a subscription. Returns False if refused.

        `delete SUB IF generation as read`.
        """
        ...

    def restore(self, subscription: SubscriptionState) -> None:
        """Puts a subscription and overwrites an existing subscription."""
        ...
