"""The part of the port `Topics` that is about recurring messages."""

from __future__ import annotations

from typing import Protocol

from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState


class RecurringPort(Protocol):
    """Recurring messages of a topic; the topic state counts them in `recurring`."""

    def put_recurring(
        self, state: TopicState, recurring: Recurring, seen: Recurring | None, next_slot: int | None
    ) -> bool:
        """`T{put RECUR IF absent, or its generation as seen; STATE: work_version + 1, recurring + 1 if new, the next
        slot lowered, the sweep looks at once IF sealed <= slot of first_ms and generation, next_slot as read}`; returns
        whether it did.

        Args:
            seen: the one that it replaces.
            next_slot: what the mark is lowered to; None if it is low enough, or nothing is due.
        """
        ...

    def recurring(self, topic: str, name: str) -> Recurring | None:
        """Reads one recurring message."""
        ...

    def all_recurring(self, topic: str) -> list[Recurring]:
        """Reads all recurring messages of a topic, by name."""
        ...

    def delete_recurring(self, state: TopicState, seen: Recurring) -> bool:
        """`T{delete RECUR IF its generation is as seen; STATE: recurring - 1 IF generation as read}`; says whether it
        did."""
        ...

    def restore_recurring(self, recurring: Recurring) -> None:
        """Puts a recurring message, whatever is there: for a rebuild."""
        ...
