"""The port to recurring messages."""

from __future__ import annotations

from typing import Protocol

from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState


class RecurringMessages(Protocol):
    """The recurring messages of each topic. The topic state counts them in `recurring`."""

    def put(self, state: TopicState, recurring: Recurring, seen: Recurring | None, next_slot: int | None) -> bool:
        """Creates or replaces a recurring message. Returns False if refused.

        `T{put RECUR IF absent, or its generation as seen; STATE: work_version + 1, recurring + 1 if new, the next slot
        lowered, the sweep looks at once IF sealed <= slot of first_ms and generation, next_slot as read}`.

        Args:
            seen: the recurring message to replace.
            next_slot: the lowered next slot; None if it is low enough, or nothing is due.
        """
        ...

    def read(self, topic: str, name: str) -> Recurring | None:
        """Reads a recurring message."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Recurring]:
        """Reads all recurring messages of a topic, by name.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        ...

    def note_missed(self, topic: str, name: str, slot: int) -> None:
        """Notes on a recurring message that it was not planned from a slot on. An earlier note stays.

        `RECUR: missed_slot = slot if absent IF the recurring message exists`.
        """
        ...

    def delete(self, state: TopicState, name: str, generation: str | None) -> bool:
        """Deletes a recurring message. Returns False if refused.

        `T{delete RECUR IF its generation is as seen; STATE: recurring - 1 IF generation as read}`.

        Args:
            generation: the recurring message's, as seen. None: it cannot be read, and any is deleted.
        """
        ...

    def restore(self, recurring: Recurring) -> None:
        """Puts a recurring message for a rebuild and overwrites an existing recurring message."""
        ...
