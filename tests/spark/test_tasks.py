"""Tests all ways to run the tasks of a job."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tidewheel.errors import TaskFailed
from tidewheel.flows.ports import RUNS_AGAIN, InThisProcess, Tasks
from tidewheel.jobs.tasks import InThreads
from tidewheel.spark.tasks import OnSpark

SPARK = pytest.param("spark", marks=pytest.mark.long)
"""Spark starts a JVM and executors, so that `make test` runs tasks without it."""


@pytest.fixture(params=["this process", "threads", SPARK])
def tasks(request: pytest.FixtureRequest) -> Tasks:
    """Each way to run tasks."""
    return InThisProcess() if request.param == "this process" else _side_by_side(request)


@pytest.fixture(params=["threads", SPARK])
def side_by_side(request: pytest.FixtureRequest) -> Tasks:
    """Each way with two tasks at a time."""
    return _side_by_side(request)


def _side_by_side(request: pytest.FixtureRequest) -> Tasks:
    return InThreads(2) if request.param == "threads" else OnSpark(lambda: request.getfixturevalue("spark"))


@pytest.fixture
def on_spark(spark: SparkSession) -> Tasks:
    """Spark with two tasks at a time."""
    return OnSpark(lambda: spark)


def squared(number: int) -> int:
    return number * number


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ends when a file is there, which an item other than 0 waits for."""

    file: Path

    def __call__(self, item: int) -> int:
        while item and not self.file.exists():
            pass
        return item


@dataclass(frozen=True, slots=True)
class Endless:
    """Records its process id in a folder, and ends only for the item 0."""

    folder: Path

    def __call__(self, item: int) -> int:
        (self.folder / f"{os.getpid()}").touch()
        while item:
            pass
        # The other process has begun its task.
        while len(list(self.folder.iterdir())) < 2:
            pass
        return item


@dataclass(frozen=True, slots=True)
class Dying:
    """Kills the process at the first run of each odd item."""

    folder: Path

    def __call__(self, item: int) -> int:
        if item % 2 and not (mark := self.folder / str(item)).exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item


def failing(item: int) -> int:
    if item:
        raise ValueError(f"item {item} is bad")
    return item


@pytest.mark.parametrize("count", [0, 1, 7])
def test_every_item_has_its_result_at_its_place(tasks: Tasks, count: int) -> None:
    found = list(tasks.run(squared, range(10, 10 + count)))
    assert sorted(found) == [(place, (10 + place) ** 2) for place in range(count)]


def test_a_result_comes_while_other_tasks_still_run(side_by_side: Tasks, tmp_path: Path) -> None:
    file = tmp_path / "first result"
    found = []
    for place, result in side_by_side.run(Waiting(file), [1, 0, 2]):
        found.append((place, result))
        file.touch()
    assert found[0] == (1, 0)
    assert sorted(found) == [(0, 1), (1, 0), (2, 2)]


@pytest.mark.long
def test_a_task_whose_process_is_killed_runs_again(on_spark: Tasks, tmp_path: Path) -> None:
    assert sorted(on_spark.run(Dying(tmp_path), range(5))) == [(i, i) for i in range(5)]
    assert {path.name for path in tmp_path.iterdir()} == {"1", "3"}


@dataclass(frozen=True, slots=True)
class FailingUntilItsLastTry:
    """Records each try in a folder."""

    folder: Path

    def __call__(self, item: int) -> int:
        (self.folder / f"{item} {time.monotonic_ns()}").touch()
        if RUNS_AGAIN.get():
            raise ValueError("the network is away")
        return item


def test_a_task_knows_its_last_try(tasks: Tasks, tmp_path: Path) -> None:
    assert sorted(tasks.run(FailingUntilItsLastTry(tmp_path), [5, 6])) == [(0, 5), (1, 6)]
    tries = 4 if isinstance(tasks, OnSpark) else 1
    assert len(list(tmp_path.iterdir())) == 2 * tries


def test_a_task_that_always_fails_fails_the_run(tasks: Tasks) -> None:
    with pytest.raises(Exception, match="item 1 is bad"):
        list(tasks.run(failing, [0, 1]))


@pytest.mark.long
def test_the_error_of_a_run_on_spark_is_that_of_its_task(on_spark: Tasks) -> None:
    with pytest.raises(TaskFailed) as caught:
        list(on_spark.run(failing, [0, 1]))
    assert str(caught.value) == "ValueError: item 1 is bad"


@pytest.mark.long
def test_a_run_on_spark_that_is_stopped_early_ends_its_tasks(on_spark: Tasks, tmp_path: Path) -> None:
    run = on_spark.run(Endless(tmp_path), [0, 1, 2, 3])
    assert next(run) == (0, 0)
    run.close()
    assert sorted(on_spark.run(squared, [3, 4])) == [(0, 9), (1, 16)]


@pytest.mark.parametrize("fails", [False, True])
def test_threads_that_are_stopped_early_end_their_tasks_and_begin_no_others(fails: bool) -> None:
    begun, ended, stop = list[int](), list[int](), Event()

    def task(item: int) -> int:
        begun.append(item)
        if item:
            assert stop.wait(60)
            ended.append(item)
        elif fails:
            raise ValueError("item 0 is bad")
        return item

    run = InThreads(2, end=stop.set).run(task, [0, *range(1, 9)])
    if fails:
        with pytest.raises(ValueError, match="item 0 is bad"):
            next(run)
    else:
        assert next(run) == (0, 0)
        run.close()
    assert sorted(begun) == [0, *sorted(ended)]
    assert len(ended) <= 2


def test_a_run_in_threads_that_comes_to_its_end_ends_nothing() -> None:
    run = InThreads(2, end=lambda: pytest.fail("a task was ended")).run(squared, [1, 2, 3])
    assert sorted(run) == [(0, 1), (1, 4), (2, 9)]
