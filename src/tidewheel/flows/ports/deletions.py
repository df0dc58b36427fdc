"""The port to deletions of whole topics."""

from __future__ import annotations

from typing import Protocol

from tidewheel.model.topic_state import TopicState


class Deletions(Protocol):
    """The topics that are being deleted.

    A topic state's life:  created -> deleting (another generation) -> forgotten
    """

    def mark(self, state: TopicState, generation: str, now_ms: int) -> bool:
        """Marks a topic as being deleted. Returns False if refused.

        `generation = another, sealed = all, deleting_at_ms, next_check_ms = now IF generation as read`.

        Writes that are conditional on the old generation, or on an open slot, are refused from then on.
        """
        ...

    def read(self, topic: str) -> TopicState | None:
        """Reads the state of a topic that is being deleted. Returns None if the topic is absent or lives."""
        ...

    def claim(self, state: TopicState, next_check_ms: int) -> bool:
        """Claims a deletion, so that one sweep works at a time. Returns False if refused.

        `next_check_ms = ... IF generation and next_check_ms as read`.
        """
        ...

    def delete_items(self, topic: str) -> bool:
        """Deletes some of a topic's items, subscriptions first. Returns True if none were left.

        The topic state stays.
        """
        ...

    def forget(self, state: TopicState) -> bool:
        """Deletes the topic state. Returns False if refused.

        `delete STATE IF generation as read`.
        """
        ...
