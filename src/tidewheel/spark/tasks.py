"""Runs the tasks of a job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidewheel.jobs.tasks import Item, Result
from tidewheel.spark.progress import watched


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Runs tasks on Spark's workers. Spark repeats a task that raises, or whose worker dies.

    Attributes:
        spark: makes or finds the session; called when it is first needed.
        advance: takes the finished and the total number of tasks.
    """

    spark: Callable[[], SparkSession]
    advance: Callable[[float, float], None] = lambda _done, _total: None

    @property
    def side_by_side(self) -> int:
        """The number of Spark's cores."""
        return self.spark().sparkContext.defaultParallelism

    def run(self, task: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        """Runs one task of Spark an item. Yields the results when all tasks have ended."""
        if not items:
            return
        context = self.spark().sparkContext
        with watched(context, len(items), self.advance):
            results = context.parallelize(items, len(items)).map(task).collect()
        yield from enumerate(results)
