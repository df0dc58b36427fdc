"""Runs the tasks of a job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

from pyspark import Accumulator, AccumulatorParam, InheritableThread, SparkContext, TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from tidewheel.errors import TaskFailed
from tidewheel.flows.ports import RUNS_AGAIN, Item, Result
from tidewheel.spark.session import TRIES

_CANCEL_AGAIN_S = 0.2
_TRACE = "Traceback (most recent call last):"
_JAVA = "\n\tat "


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Runs tasks on Spark's workers. Spark repeats a task that raises, or whose worker dies.

    All tasks of a run are one Spark job, so `spark.speculation` can compare them. Each result arrives when its task
    ends, as the update of an accumulator. Spark applies the updates of one attempt of a task only.

    Attributes:
        session: makes or finds the session; called when it is first needed.
        title: what Spark's pages call the work.
    """

    session: Callable[[], SparkSession]
    title: str = "tidewheel"

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Runs one task of Spark an item. Cancels the other tasks if the caller stops early.

        Raises:
            TaskFailed: a task failed in all tries.
        """
        if not items:
            return
        context = self.session().sparkContext
        events: SimpleQueue[tuple[int, Result] | Exception | None] = SimpleQueue()  # at last the job's error, if any
        results = arrivals(context, events.put)
        tries = int(context.getConf().get("spark.task.maxFailures", str(TRIES)))

        def run_one(numbered: tuple[int, Item]) -> None:
            place, item = numbered
            _begin_try(tries)
            results.add([(place, task(item))])

        group = f"tidewheel-{uuid4()}"
        numbered = context.parallelize(list(enumerate(items)), len(items))

        def run_all() -> None:
            context.setJobGroup(group, f"{self.title}: {len(items)} tasks", interruptOnCancel=True)
            try:
                numbered.foreach(run_one)
                events.put(None)
            except Exception as error:
                events.put(failure_of(error))

        job = InheritableThread(target=run_all)
        job.start()
        missing = len(items)
        try:
            while isinstance(event := events.get(), tuple):
                missing -= 1
                yield event
            if event is not None:
                raise event
            if missing:
                raise TaskFailed(f"Spark lost the results of {missing} tasks; run the job again")
        finally:
            while job.is_alive():
                # A job that has not begun yet is not cancelled.
                context.cancelJobGroup(group)
                job.join(_CANCEL_AGAIN_S)


def _begin_try(most: int) -> None:
    context = TaskContext.get()
    RUNS_AGAIN.set(context is not None and context.attemptNumber() + 1 < most)


def failure_of(error: Exception) -> TaskFailed:
    """Returns the error of a task, from the stack traces of Java and Python in which it stands."""
    _, _, trace = str(error).partition(_TRACE)
    lines = trace.partition(_JAVA)[0].rstrip().splitlines() or str(error).splitlines()[:1]
    begin = max((i for i, line in enumerate(lines) if line.startswith(" ")), default=-1) + 1
    return TaskFailed("\n".join(lines[begin:]))


def collected(frame: DataFrame) -> list[Row]:
    """Returns all rows.

    Raises:
        TaskFailed: a task failed in all tries.
    """
    try:
        return frame.collect()
    except Exception as error:
        raise failure_of(error) from None


def arrivals(context: SparkContext, call: Callable[[Any], None]) -> Accumulator[Any]:
    """Returns an accumulator to which tasks add lists. The driver calls a function with each value."""
    return context.accumulator(_Calls(call), _Lists())


def progress(context: SparkContext, advance: Callable[[float, float], None], total: int) -> Accumulator[Any]:
    """Returns an accumulator to which tasks add lists of finished amounts. The driver advances by each."""
    done = 0

    def add(amount: int) -> None:
        nonlocal done
        done += amount
        advance(done, total)

    return arrivals(context, add)


class _Calls:
    """An accumulator's value on the driver: passes values on, and keeps none."""

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def extend(self, values: Iterable[object]) -> None:
        for value in values:
            self._call(value)


class _Lists(AccumulatorParam[Any]):
    """Adds lists. A worker begins with an empty list."""

    def zero(self, value: object) -> list[object]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: Any, value2: list[object]) -> Any:
        value1.extend(value2)
        return value1
