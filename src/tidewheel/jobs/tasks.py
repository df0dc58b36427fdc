"""Runs the independent tasks of a job, here or on other machines.

| implementation | runs tasks |
|---|---|
| `tidewheel.flows.ports.tasks.InThisProcess` | one after the other, here |
| `InProcesses` | side by side, in processes of this machine |
| `tidewheel.spark.tasks.OnSpark` | on Spark's workers |
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Thread

from tidewheel.errors import ProcessesEnded
from tidewheel.flows.ports.tasks import InThisProcess, Item, Result, Tasks

__all__ = ["InProcesses", "InThisProcess", "Item", "Result", "Tasks"]

MOST_TRIES = 4
"""Tries of a task whose process dies, as on Spark."""


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

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Starts the processes, and ends them after the last result, or when the caller stops early.

        When a process dies, the unfinished tasks run again in new processes.

        Raises:
            ProcessesEnded: processes died in four tries in a row without a result between them.
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
                    raise ProcessesEnded(MOST_TRIES) from None

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
