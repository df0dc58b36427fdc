"""Starting merges, in memory."""

from __future__ import annotations

from tidewheel.flows.ports import MergeSize


class MemoryMergeRuns:
    """The port `MergeRuns` as a list; whoever holds it does the merges.

    Attributes:
        started: topic and size of each merge that was started, in order.
    """

    def __init__(self) -> None:
        self.started: list[tuple[str, MergeSize]] = []

    def start(self, topic: str, size: MergeSize) -> None:
        """Notes the merge."""
        self.started.append((topic, size))
