"""The port to the machines that run independent tasks of much work."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
RUNS_AGAIN: ContextVar[bool] = ContextVar("RUNS_AGAIN", default=False)
"""Within a task: whether the task runs again if it raises now. Set by an engine that repeats tasks."""


class Tasks(Protocol):
    """Runs one function for many items."""

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Yields the place and the result of each item when its task ends, in any order.

        Tasks begin in the order of the items. A task may run several times, even at the same time. Only one of its
        results is yielded. When the generator is closed, no other task begins, and the running tasks
        are ended, or waited for.

        Args:
            task: a function of a module, or a frozen dataclass that is called. The task, the items and the results
                must be picklable. Items and results are small, and what all tasks share is in the task. A task returns
                expected failures as results: an exception may start it again.
            items: one for each task.

        Raises:
            Exception: a task failed, and repeating the task did not help. Other tasks may still run.
        """
        ...


@dataclass(frozen=True, slots=True)
class InThisProcess:
    """Runs tasks one after the other in this process. Pickles nothing."""

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Runs each task when its result is asked for."""
        for place, item in enumerate(items):
            yield place, task(item)
