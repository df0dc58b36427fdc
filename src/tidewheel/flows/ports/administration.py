"""What administrators change of a topic as a whole: its settings, what is purged, its end, and what comes again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription import Delivery
from tidewheel.model.topic_state import Fence, Purge


class Replay(Enum):
    """What became of a plan that was to be delivered again."""

    OPENED = "opened"
    REFUSED = "refused"
    """The subscription is paused, or gone."""
    COLLECTED = "collected"
    """Its ledgers are not kept any more, or the topic is gone."""


class AdministrationPort(Protocol):
    """The part of the port `Topics` that serves administrators; a topic that is being deleted is no topic to others.

    A fence's life:  created -> deleting (another generation) -> forgotten
    """

    def update_settings(self, fence: Fence, settings: TopicSettings) -> bool:
        """`settings = ... IF generation and settings as read`; returns whether it did."""
        ...

    def set_purges(self, fence: Fence, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """`purge_ms, purges = ... IF generation, purge_ms and purges as read`; returns whether it did."""
        ...

    def open_replay(self, fence: Fence, delivery: Delivery) -> Replay:
        """`T{put DELIVERY; check SUB: not PAUSED, generation same; FENCE: subs_ver + 1 IF gc_until <= the plan and
        generation as read}`.

        A collection that has read the deliveries before is refused by subs_ver, so the plan's ledgers stay.
        """
        ...

    def mark_deleting(self, fence: Fence, generation: str, now_ms: int) -> bool:
        """`generation = another, sealed = all, deleting_at_ms, look_at_ms = now IF generation as read`; whether it did.

        Whatever is conditional on the old generation, or on an open slot, is refused from then on.
        """
        ...

    def deletion(self, topic: str) -> Fence | None:
        """Reads the fence of a topic that is being deleted; None if there is none, or it lives."""
        ...

    def claim_deletion(self, fence: Fence, look_at_ms: int) -> bool:
        """`look_at_ms = ... IF generation and look_at_ms as read`; returns whether it did: one sweep at a time."""
        ...

    def delete_items(self, topic: str) -> bool:
        """Deletes some of what is kept of a topic, subscriptions first, but not its fence; whether nothing was left."""
        ...

    def forget_topic(self, fence: Fence) -> bool:
        """`delete FENCE IF generation as read`; returns whether it did."""
        ...
