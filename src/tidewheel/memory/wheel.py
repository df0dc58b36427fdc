"""Implements the coarse wheel, and the starts of functions and jobs, in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tidewheel.flows.ports import MergeSize
from tidewheel.model.wheel import schedule_name, schedule_prefix


class MemoryWheel:
    """Implements the port `Wheel` with a dict. The owner calls `take_due` to fire schedules."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schedules: dict[str, tuple[str, int, int]] = {}

    @property
    def schedules(self) -> dict[str, tuple[str, int, int]]:
        """A copy of the schedules: name -> (topic, slot, fires_at_ms)."""
        with self._lock:
            return dict(self._schedules)

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Creates a schedule. An existing schedule stays unchanged."""
        with self._lock:
            self._schedules.setdefault(schedule_name(topic, slot), (topic, slot, fires_at_ms))

    def unschedule(self, topic: str) -> None:
        """Deletes a topic's schedules."""
        with self._lock:
            for name in [each for each in self._schedules if each.startswith(schedule_prefix(topic))]:
                del self._schedules[name]

    def take_due(self, now_ms: int) -> list[tuple[str, int, int]]:
        """Removes and returns the due schedules, sorted by time, as (topic, slot, fires_at_ms)."""
        with self._lock:
            due = sorted(
                ((name, each) for name, each in self._schedules.items() if each[2] <= now_ms),
                key=lambda named: (named[1][2], named[0]),
            )
            for name, _ in due:
                del self._schedules[name]
        return [each for _, each in due]


class MemoryRuns:
    """Implements the port `Runs` with two lists. The owner does the recorded work.

    Attributes:
        largest: the largest merge that the owner does.
        dispatches: the topic of each started dispatch, in order.
        merges: topic and size of each started merge, in order.
    """

    def __init__(self, largest: MergeSize = MergeSize.LARGE) -> None:
        self.largest = largest
        self.dispatches: list[str] = []
        self.merges: list[tuple[str, MergeSize]] = []

    def dispatch(self, topic: str) -> None:
        """Records the dispatch."""
        self.dispatches.append(topic)

    def merge(self, topic: str) -> None:
        """Records the merge."""
        self.merges.append((topic, MergeSize.SMALL))

    def merge_large(self, topics: Sequence[str]) -> bool:
        """Records the merges."""
        self.merges += ((topic, MergeSize.LARGE) for topic in topics)
        return True
