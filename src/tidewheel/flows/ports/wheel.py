"""The port to the coarse wheel."""

from __future__ import annotations

from typing import Protocol


class Wheel(Protocol):
    """The coarse wheel."""

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Creates the schedule of a topic's slot. An existing schedule is fine."""
        ...

    def unschedule(self, topic: str) -> None:
        """Deletes all schedules of a topic. Missing schedules are ignored."""
        ...
