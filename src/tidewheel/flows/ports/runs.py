"""The port to functions and jobs that run on their own."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class MergeSize(Enum):
    """The service that a merge runs on."""

    SMALL = "small"
    """A Lambda function."""
    LARGE = "large"
    """A Glue job."""


class Runs(Protocol):
    """Starts functions and jobs that run on their own, and returns at once."""

    @property
    def largest(self) -> MergeSize:
        """The largest merge that can be started; SMALL where the service has no jobs."""
        ...

    def dispatch(self, topic: str) -> None:
        """Starts a topic's dispatch. An extra dispatch does no harm, and the sweep repairs a lost dispatch."""
        ...

    def merge(self, topic: str) -> None:
        """Starts a topic's merge in a function. The merge may find nothing to do."""
        ...

    def merge_large(self, topics: Sequence[str]) -> bool:
        """Starts one run of a job for the merges of topics.

        Returns:
            False if another run is under way, so that the caller tries again later.
        """
        ...
