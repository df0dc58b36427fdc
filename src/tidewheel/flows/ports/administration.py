"""The part of the port `Topics` for the administration of whole topics."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import Purge, TopicState


class Replay(Enum):
    """The outcome of a request to deliver a plan again."""

    OPENED = "opened"
    REFUSED = "refused"
    """The subscription is paused or gone."""
    COLLECTED = "collected"
    """The plan's ledgers are not kept any more, or the topic is gone."""


class AdministrationPort(Protocol):
    """The part of the port `Topics` that serves administrators.

    Other callers do not see a topic that is being deleted.

    A topic state's life:  created -> deleting (another generation) -> forgotten
    """

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """Changes the settings. Returns False if refused.

        `settings = ... IF generation and settings as read`.
        """
        ...

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """Changes the purge marks. Returns False if refused.

        `purge_ms, purges = ... IF generation, purge_ms and purges as read`.
        """
        ...

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """Opens a delivery that replays a plan.

        `T{put DELIVERY; check SUB: not PAUSED, generation same; STATE: subscriptions_version + 1 IF collected_until <=
        the plan and generation as read}`.

        A collection that read the deliveries before this write is refused by subscriptions_version, so the plan's
        ledgers stay.
        """
        ...

    def mark_deleting(self, state: TopicState, generation: str, now_ms: int) -> bool:
        """Marks a topic as being deleted. Returns False if refused.

        `generation = another, sealed = all, deleting_at_ms, next_check_ms = now IF generation as read`.

        Writes that are conditional on the old generation, or on an open slot, are refused from then on.
        """
        ...

    def deletion(self, topic: str) -> TopicState | None:
        """Reads the state of a topic that is being deleted. Returns None if the topic is absent or lives."""
        ...

    def claim_deletion(self, state: TopicState, next_check_ms: int) -> bool:
        """Claims a deletion, so that one sweep works at a time. Returns False if refused.

        `next_check_ms = ... IF generation and next_check_ms as read`.
        """
        ...

    def delete_items(self, topic: str) -> bool:
        """Deletes some of a topic's items, subscriptions first. Returns True if none were left.

        The topic state stays.
        """
        ...

    def forget_topic(self, state: TopicState) -> bool:
        """Deletes the topic state. Returns False if refused.

        `delete STATE IF generation as read`.
        """
        ...
