"""Reports the progress of Spark jobs, for a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pyspark import SparkContext

_EVERY_S = 0.5


@contextmanager
def watched(context: SparkContext, tasks: int, advance: Callable[[float, float], None]) -> Iterator[None]:
    """Reports the number of finished tasks while the block runs.

    Args:
        context: Spark's.
        tasks: number of tasks in the block, over all its stages.
        advance: takes the finished and the total number of tasks.
    """
    ended = Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not ended.wait(_EVERY_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            advance(sum(stage.numCompletedTasks for stage in stages if stage is not None), tasks)

    watcher = Thread(target=watch, name="tidewheel-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    advance(tasks, tasks)
