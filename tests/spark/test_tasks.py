"""One suite for all ways to run the tasks of a job."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from zipimport import zipimporter

import pytest
from pyspark.sql import SparkSession

from tidewheel.jobs.tasks import InProcesses, InThisProcess, Tasks
from tidewheel.spark.tasks import OnSpark


@pytest.fixture(params=["this process", "processes", "spark"])
def tasks(request: pytest.FixtureRequest) -> Tasks:
    """Each way, with two tasks at a time."""
    return InThisProcess() if request.param == "this process" else _elsewhere(request)


@pytest.fixture(params=["processes", "spark"])
def elsewhere(request: pytest.FixtureRequest) -> Tasks:
    """Each way in other processes."""
    return _elsewhere(request)


def _elsewhere(request: pytest.FixtureRequest) -> Tasks:
    if request.param == "processes":
        return InProcesses(2)
    spark: SparkSession = request.getfixturevalue("spark")
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
    """Names its process in a folder, and ends only if the item is 0."""

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
    """Kills its process, the first time that each item runs."""

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


def test_a_result_comes_while_other_tasks_still_run(elsewhere: Tasks, tmp_path: Path) -> None:
    file = tmp_path / "first result"
    found = []
    for place, result in elsewhere.run(Waiting(file), [1, 0, 2]):
        found.append((place, result))
        file.touch()
    assert found[0] == (1, 0)
    assert sorted(found) == [(0, 1), (1, 0), (2, 2)]


def test_a_task_whose_process_is_killed_runs_again(elsewhere: Tasks, tmp_path: Path) -> None:
    assert sorted(elsewhere.run(Dying(tmp_path), range(5))) == [(i, i) for i in range(5)]
    assert {path.name for path in tmp_path.iterdir()} == {"1", "3"}


def test_a_task_that_always_fails_fails_the_run(tasks: Tasks) -> None:
    with pytest.raises(Exception, match="item 1 is bad"):
        list(tasks.run(failing, [0, 1]))


def test_a_run_that_is_stopped_early_ends_its_tasks(elsewhere: Tasks, tmp_path: Path) -> None:
    run = elsewhere.run(Endless(tmp_path), [0, 1, 2, 3])
    assert next(run) == (0, 0)
    run.close()
    if isinstance(elsewhere, InProcesses):
        assert not [path for path in tmp_path.iterdir() if Path(f"/proc/{path.name}").exists()]
    assert sorted(elsewhere.run(squared, [3, 4])) == [(0, 9), (1, 16)]


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = multiprocessing.get_context("spawn").Process(target=run_endless, args=(tmp_path,))
    parent.start()
    while len(list(tmp_path.iterdir())) < 2:
        assert parent.is_alive()
    parent.kill()
    parent.join()
    while [path for path in tmp_path.iterdir() if Path(f"/proc/{path.name}").exists()]:
        pass


def run_endless(folder: Path) -> None:
    list(InProcesses(2).run(Endless(folder), [1, 2]))


def archives(_: int) -> tuple[int, int]:
    """Returns this process's id, and how many importers of archives Spark had read again before the task."""
    return os.getpid(), sum(isinstance(importer, zipimporter) for importer in sys.path_importer_cache.values())


def test_spark_reads_its_archives_again_before_the_first_task_of_a_worker_only(spark: SparkSession) -> None:
    found = [result for _, result in OnSpark(lambda: spark).run(archives, range(12))]
    reads = Counter(process for process, read in found if read)
    assert len(found) == 12
    assert set(reads.values()) <= {1}
