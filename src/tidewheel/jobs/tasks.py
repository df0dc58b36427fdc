"""Runs the independent tasks of a job, here or on other machines.

| implementation | runs tasks |
|---|---|
| `InThisProcess` | one after the other, here |
| `InProcesses` | side by side, in processes of this machine |
| `tidewheel.spark.tasks.OnSpark` | on Spark's workers |
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Thread
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_TRIES = 4
"""Tries of a task whose process dies, as on Spark."""


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
                must be picklable, and small. A task returns expected failures as results: an exception may start it
                again.
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
    """Runs tasks side by side in new processes of this machine. The processes end with this process, however it ends.

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

        When a process dies, the unfinished tasks run again in new processes.

        Raises:
            BrokenProcessPool: processes died in four tries in a row without a result between them.
        """
        left = dict(enumerate(items))
        tries = 0
        while left:
            try:
                for place, result in self._tried(task, left):
                    del left[place]
                    tries = 0
                    yield place, result
            except BrokenProcessPool:
                tries += 1
                if tries == MOST_TRIES:
                    raise

    def _tried(self, task: Callable[[Item], Result], items: dict[int, Item]) -> Iterator[tuple[int, Result]]:
        # A forked process would share connections and locks with this process.
        context = multiprocessing.get_context("spawn")
        end, open_while_needed = context.Pipe(duplex=False)
        count = min(self.processes, len(items))
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_end_with, initargs=(end,))
        try:
            places = {pool.submit(task, item): place for place, item in items.items()}
            for future in as_completed(places):
                yield places[future], future.result()
        finally:
            open_while_needed.close()
            pool.shutdown(cancel_futures=True)
            end.close()


def _end_with(end: Connection) -> None:
    """Ends this process, whatever it does, when the parent closes the pipe or ends. Leaves Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        end.poll(None)
        os._exit(1)

    Thread(target=watch, name="tidewheel-end", daemon=True).start()
