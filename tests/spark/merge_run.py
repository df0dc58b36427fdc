"""Merges all topics of the stack at an endpoint, in a process killed by tests.

    python -m tests.spark.merge_run <endpoint> threads|cluster|speculation <folder>

It is the command `tidewheel merge --all-topics --all`, with threads or a cluster of two executors also for small
work. Its tasks leave a file in the folder after they wrote their output, and end later. The first one ends much later.
For speculation, the executors are on two addresses of this machine, because Spark runs no copy of a task on the same
host.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyspark

from benchmarks.peers.program import free_port
from tidewheel.cli.main import app
from tidewheel.jobs import job
from tidewheel.jobs.tasks import InThreads, Tasks
from tidewheel.spark.java import find_java, make_java_home
from tidewheel.spark.session import local_session
from tidewheel.spark.tasks import OnSpark

CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
}
HOSTS = ("127.0.0.1", "127.0.0.2")
SPECULATION = {
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
}
SLOWEST_S = {"threads": 2.0, "cluster": 60.0, "speculation": 200.0}
OTHERS_S = 0.3
FIRST = "first"


@dataclass(frozen=True, slots=True)
class Slow:
    """A task that ends some time after writing the output."""

    task: Callable[[Any], Any]
    folder: Path
    slowest_s: float

    def __call__(self, item: Any) -> Any:
        """Runs the task, leaves a file, and waits."""
        result = self.task(item)
        slowest = self._is_first()
        (self.folder / f"{time.time_ns()}-{os.getpid()}").touch()
        time.sleep(self.slowest_s if slowest else OTHERS_S)
        return result

    def _is_first(self) -> bool:
        try:
            (self.folder / FIRST).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


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


@contextmanager
def two_hosts() -> Iterator[Mapping[str, str]]:
    """Runs a Spark master and a worker on each of HOSTS. Yields the settings for a session."""
    port = free_port()
    master = f"{HOSTS[0]}:{port}"
    spark_class = Path(os.environ["SPARK_HOME"]) / "bin/spark-class"
    processes: list[subprocess.Popen[bytes]] = []

    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"JAVA_HOME": str(make_java_home(find_java(), Path(folder)))}

        def start(what: str, host: str, *arguments: str) -> None:
            command = [spark_class, f"org.apache.spark.deploy.{what}", "--host", host, "--webui-port", "0", *arguments]
            processes.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )

        try:
            start("master.Master", HOSTS[0], "--port", str(port))
            _wait_for(port)
            for host in HOSTS:
                start(
                    "worker.Worker", host, "--cores", "1", "--memory", "1g", "--work-dir", folder, f"spark://{master}"
                )
            yield SPECULATION | {"spark.master": f"spark://{master}"}
        finally:
            for each in processes:
                each.kill()
                each.wait()


def _wait_for(port: int) -> None:
    ends_s = time.monotonic() + 60
    while time.monotonic() < ends_s:
        with suppress(OSError), socket.create_connection((HOSTS[0], port)):
            return
        time.sleep(0.05)
    raise TimeoutError(f"Spark's master does not listen at port {port}")


def main(endpoint_url: str, where: str, folder: Path) -> None:
    """Runs the job."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    with two_hosts() if where == "speculation" else nullcontext(CLUSTER) as settings:
        tasks: Tasks = InThreads(2) if where == "threads" else OnSpark(lambda: local_session(settings=settings))
        with patch.object(job.Job, "tasks", lambda *_: Slowly(tasks, folder, SLOWEST_S[where])):
            app(["--endpoint-url", endpoint_url, "merge", "--all-topics", "--all"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
