"""Records starts of functions and jobs in memory."""

from __future__ import annotations

from tidewheel.flows.ports.runs import MergeSize


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

    def merge(self, topic: str, size: MergeSize) -> None:
        """Records the merge."""
        self.merges.append((topic, size))
