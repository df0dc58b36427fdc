"""Which machines merge fastest: this process, processes of this machine, or local Spark, by the amount of work.

    python -m benchmarks merge_machines

Runs the same merge at several sizes. Each run has a process of its own and the whole flow, over metadata in memory and
objects in a folder. The contenders take turns. Time is from the choice to the last swap. It includes the start of
processes. Spark is reported twice: `spark` with the start of its session, which a user waits for, and `spark_started`
without. Ratios are not taken, since a crossing needs the medians only.

A crossing is the work, as the raw bytes by which `Job.tasks` decides, from which the later contender is faster at all
larger sizes. It is interpolated between the two sizes beside it. It is None if the later contender is slower at the
largest size. `TINY_BYTES` and `SMALL_BYTES` in `jobs/job.py` are thresholds of this kind.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench_merge import CORES, make_ledgers, run_flow
from tidewheel.flows.upkeep.merge_outputs import SideBySide
from tidewheel.jobs.location import Location
from tidewheel.jobs.tasks import InProcesses, InThisProcess, Tasks

LEDGERS = 40
ROWS = (500, 2_000, 8_000, 32_000, 128_000)
"""Of each ledger. The largest merge is of about five million messages."""
ROUNDS = 5
MEBIBYTE = 1024 * 1024
NEVER = "above all sizes"


def contend(name: str, folder: Path) -> dict[str, float]:
    """Runs one contender in this process."""
    buckets = pickle.loads((folder / "buckets.pickle").read_bytes())
    start_s, tasks = machines(name)
    raw_bytes: list[int] = []

    def noted(raw: int) -> Tasks:
        raw_bytes.append(raw)
        return tasks

    writer = SideBySide(tasks=noted, objects=Location(root=str(folder)).objects)
    figures = run_flow(folder, writer, buckets)
    return {"seconds": figures["seconds"], "start_s": start_s, "raw_mib": max(raw_bytes) / MEBIBYTE}


def machines(name: str) -> tuple[float, Tasks]:
    """Returns the seconds that a contender's session took to start, and its tasks."""
    if name == "this_process":
        return 0.0, InThisProcess()
    if name == "processes":
        return 0.0, InProcesses(CORES)
    from tidewheel.spark.session import local_session
    from tidewheel.spark.tasks import OnSpark

    before = time.perf_counter()
    spark = local_session(CORES, memory_mb=1024)
    return time.perf_counter() - before, OnSpark(lambda: spark)


def crossing(work: Sequence[float], earlier: Sequence[float], later: Sequence[float]) -> float | None:
    """Returns the work from which `later` is faster at all larger sizes. Returns None if there is none.

    Args:
        work: the sizes, ascending.
        earlier, later: seconds of each size.
    """
    gains = [before - after for before, after in zip(earlier, later, strict=True)]
    last_slower = max((i for i, gain in enumerate(gains) if gain <= 0), default=None)
    if last_slower is None:
        return work[0]
    if last_slower == len(gains) - 1:
        return None
    low, high = gains[last_slower], gains[last_slower + 1]
    return work[last_slower] + (work[last_slower + 1] - work[last_slower]) * -low / (high - low)


def measure(name: str, folder: Path) -> dict[str, float]:
    """Runs one contender in a process of its own, and deletes what it wrote."""
    before = set(folder.rglob("*.parquet"))
    command = [sys.executable, "-m", "benchmarks.bench_merge_machines", name, str(folder)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    for written in set(folder.rglob("*.parquet")) - before:
        written.unlink()
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Runs the rounds of each size, and finds the crossings."""
    sizes, rounds = ((100, 1_000), 1) if quick else (ROWS, ROUNDS)
    seconds: dict[str, list[float]] = {name: [] for name in ("this_process", "processes", "spark", "spark_started")}
    work: list[float] = []
    for rows in sizes:
        with tempfile.TemporaryDirectory(prefix="bench-merge-machines-") as folder:
            make_ledgers(Path(folder), LEDGERS, rows)
            names = ("this_process", "processes", "spark")
            runs = [{name: measure(name, Path(folder)) for name in names} for _ in range(rounds)]
        work.append(runs[0]["this_process"]["raw_mib"])
        for name in names:
            seconds[name].append(median(each[name]["seconds"] + each[name]["start_s"] for each in runs))
        seconds["spark_started"].append(median(each["spark"]["seconds"] for each in runs))
    return {
        "ledgers": LEDGERS,
        "rounds": rounds,
        "processes_from_raw_mib": crossing(work, seconds["this_process"], seconds["processes"]) or NEVER,
        "spark_from_raw_mib": crossing(work, seconds["processes"], seconds["spark"]) or NEVER,
        "started_spark_from_raw_mib": crossing(work, seconds["processes"], seconds["spark_started"]) or NEVER,
        "seconds": {
            f"{LEDGERS * rows:,} messages": {"raw_mib": work[i], **{name: each[i] for name, each in seconds.items()}}
            for i, rows in enumerate(sizes)
        },
    }


if __name__ == "__main__":
    print(json.dumps(contend(sys.argv[1], Path(sys.argv[2]))))
