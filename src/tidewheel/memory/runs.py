"""Starting functions and jobs, in memory."""

from __future__ import annotations

from tidewheel.flows.ports import MergeSize


class MemoryRuns:
    """The port `Runs` as two lists; whoever holds it does what is in them.

    Attributes:
        largest: the largest merge that somebody does.
        dispatches: the topic of each dispatch that was started, in order.
        merges: topic and size of each merge that was started, in order.
    """

    def __init__(self, largest: MergeSize = MergeSize.LARGE) -> None:
        self.largest = largest
        self.dispatches: list[str] = []
        self.merges: list[tuple[str, MergeSize]] = []

    def dispatch(self, topic: str) -> None:
        """Notes the dispatch."""
        self.dispatches.append(topic)

    def merge(self, topic: str, size: MergeSize) -> None:
        """Notes the merge."""
        self.merges.append((topic, size))
