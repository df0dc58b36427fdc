"""What administrators change of a topic as a whole: its settings, what is purged, its end, and what comes again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription import Delivery
from tidewheel.model.topic_state import Purge, TopicState


class Replay(Enum):
    """What became of a plan that was to be delivered again."""

    OPENED = "opened"
    REFUSED = "refused"
    """The subscription is paused, or gone."""
    COLLECTED = "collected"
    """Its ledgers are not kept any more, or the topic is gone."""


class AdministrationPort(Protocol):
    """The part of the port `Topics` that serves administrators; a topic that is being deleted is no topic to others.

    A topic state's life:  created -> deleting (another generation) -> forgotten
    """

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """`settings = ... IF generation and settings as read`; returns whether it did."""
        ...

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """`purge_ms, purges = ... IF generation, purge_ms and purges as read`; returns whether it did."""
        ...

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """`T{put DELIVERY; check SUB: not PAUSED, generation same; STATE: subscriptions_version + 1 IF collected_until
        <= the plan and generation as read}`.

        A collection that has read the deliveries before is refused by subscriptions_version, so the plan's ledgers
        stay.
        """
        ...

    def mark_deleting(self, state: TopicState, generation: str, now_ms: int) -> bool:
        """`generation = another, sealed = all, deleting_at_ms, next_check_ms = now IF generation as read`; whether it
        did.

        Whatever is conditional on the old generation, or on an open slot, is refused from then on.
        """
        ...

    def deletion(self, topic: str) -> TopicState | None:
        """Reads the topic state of a topic that is being deleted; None if there is none, or it lives."""
        ...

    def claim_deletion(self, state: TopicState, next_check_ms: int) -> bool:
        """`next_check_ms = ... IF generation and next_check_ms as read`; returns whether it did: one sweep at a
        time."""
        ...

    def delete_items(self, topic: str) -> bool:
        """Deletes some of what is kept of a topic, subscriptions first, but not its topic state; whether nothing was
        left."""
        ...

    def forget_topic(self, state: TopicState) -> bool:
        """`delete STATE IF generation as read`; returns whether it did."""
        ...
