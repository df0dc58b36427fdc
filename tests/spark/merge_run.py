"""Merges all topics of the stack at an endpoint in threads, in a process that tests interrupt.

    python -m tests.spark.merge_run <endpoint> <folder> <seconds of the lease>

It is the command `tidewheel merge --all-topics --all`, with threads also for small work. Its tasks leave a file in the
folder after they wrote their output, and end later.
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

from tidewheel.cli.main import app
from tidewheel.jobs import job, merging
from tidewheel.jobs.tasks import InThreads

SLOW_S = 2.0


@dataclass(frozen=True, slots=True)
class Slowly:
    """Runs tasks that end some time after they wrote their output."""

    tasks: InThreads
    folder: Path

    def run(self, task: Callable[[Any], Any], items: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        """Runs each item slowly."""

        def slow(item: Any) -> Any:
            result = task(item)
            (self.folder / str(time.time_ns())).touch()
            time.sleep(SLOW_S)
            return result

        return self.tasks.run(slow, items)


def main(endpoint_url: str, folder: Path, lease_s: int) -> None:
    """Runs the job."""
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    slowly = patch.object(job.Job, "tasks", lambda *_: Slowly(InThreads(2), folder))
    with slowly, patch.object(merging, "LEASE_S", lease_s):
        app(["--endpoint-url", endpoint_url, "merge", "--all-topics", "--all"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
