"""Merges all topics of the stack at an endpoint, in a process that tests kill.

    python -m tests.spark.merge_run <endpoint> processes|cluster <folder>

It is the command `tidewheel merge --all-topics --all`, with processes or a cluster of two executors also for small
work. Its tasks leave a file in the folder after they wrote their output, and end later. The first one ends much later.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyspark

from tidewheel.cli.main import app
from tidewheel.jobs import job
from tidewheel.jobs.tasks import InProcesses, Tasks
from tidewheel.spark.session import local_session
from tidewheel.spark.tasks import OnSpark

CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
}
SLOWEST_S = {"processes": 2.0, "cluster": 60.0}
OTHERS_S = 0.3


@dataclass(frozen=True, slots=True)
class Slow:
    """A task that ends some time after its output is written."""

    task: Callable[[Any], Any]
    folder: Path
    slowest_s: float

    def __call__(self, item: Any) -> Any:
        """Runs the task, leaves a file, and waits."""
        result = self.task(item)
        slowest = not any(self.folder.iterdir())
        (self.folder / f"{time.time_ns()}-{os.getpid()}").touch()
        time.sleep(self.slowest_s if slowest else OTHERS_S)
        return result


@dataclass(frozen=True, slots=True)
class Slowly:
    """Runs slow tasks."""

    tasks: Tasks
    folder: Path
    slowest_s: float

    @property
    def side_by_side(self) -> int:
        """As the tasks."""
        return self.tasks.side_by_side

    def run(self, task: Callable[[Any], Any], items: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        """Runs each item slowly."""
        return self.tasks.run(Slow(task, self.folder, self.slowest_s), items)


def main(endpoint_url: str, where: str, folder: Path) -> None:
    """Runs the job."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    tasks: Tasks = InProcesses(2) if where == "processes" else OnSpark(lambda: local_session(settings=CLUSTER))
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    with patch.object(job.Job, "tasks", lambda *_: Slowly(tasks, folder, SLOWEST_S[where])):
        app(["--endpoint-url", endpoint_url, "merge", "--all-topics", "--all"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
