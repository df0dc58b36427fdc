"""Runs the independent tasks of a job, here or on other machines.

| implementation | runs tasks |
|---|---|
| `tidewheel.flows.ports.InThisProcess` | one after the other, here |
| `InThreads` | side by side, in threads of this process |
| `tidewheel.spark.tasks.OnSpark` | on Spark's workers |
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from time import sleep

from tidewheel.flows.ports import Item, Result

_END_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class InThreads:
    """Runs tasks side by side in threads of this process. Arrow and connections release the interpreter's lock.

    Attributes:
        side_by_side: the number of threads.
        end: makes the running tasks end soon. Called again while one runs. By default they run to their end.
    """

    side_by_side: int
    end: Callable[[], None] = lambda: None

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Yields each result when its task ends. Waits for the running tasks if the caller stops early.

        Raises:
            Exception: a task failed. No task is repeated.
        """
        pool = ThreadPoolExecutor(self.side_by_side, "tidewheel-task")
        places = {pool.submit(task, item): place for place, item in enumerate(items)}
        try:
            for future in as_completed(places):
                yield places[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while any(future.running() for future in places):
                self.end()
                sleep(_END_AGAIN_S)
            pool.shutdown()
