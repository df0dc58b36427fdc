"""Runs the independent tasks of a job, here or on other machines.

| implementation | runs tasks |
|---|---|
| `InThisProcess` | one after the other, here |
| `InProcesses` | side by side, in processes of this machine |
| `tidewheel.spark.tasks.OnSpark` | on Spark's workers |
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Tasks(Protocol):
    """Runs one function for many items."""

    @property
    def side_by_side(self) -> int:
        """The number of tasks that run at the same time."""
        ...

    def run(self, task: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        """Yields the place and the result of each item when its task ends, in any order.

        Tasks begin in the order of the items. A task may run several times, even at the same time. Only one of its
        results is yielded.

        Args:
            task: a function of a module, or a frozen dataclass that is called. The task, the items and the results
                must be picklable. A task returns expected failures as results: an exception may start it again.
            items: one for each task.

        Raises:
            Exception: a task failed, and repeating the task did not help. Other tasks may still run.
        """
        ...


@dataclass(frozen=True, slots=True)
class InThisProcess:
    """Runs tasks one after the other in this process. Pickles nothing."""

    @property
    def side_by_side(self) -> int:
        """One."""
        return 1

    def run(self, task: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        """Runs each task when its result is asked for."""
        return ((place, task(item)) for place, item in enumerate(items))


@dataclass(frozen=True, slots=True)
class InProcesses:
    """Runs tasks side by side in new processes of this machine.

    Attributes:
        processes: how many.
    """

    processes: int

    @property
    def side_by_side(self) -> int:
        """The number of processes."""
        return self.processes

    def run(self, task: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        """Starts the processes, and ends them after the last result, or when the caller stops early.

        Raises:
            BrokenProcessPool: a process died.
        """
        # A forked process would share connections and locks with this process.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(self.processes, len(items)) or 1, mp_context=context) as pool:
            try:
                places = {pool.submit(task, item): place for place, item in enumerate(items)}
                for future in as_completed(places):
                    yield places[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
