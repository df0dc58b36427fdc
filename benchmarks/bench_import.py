"""What an import costs: JSON lines of real messages made ledgers by local Spark.

    python -m benchmarks import
    python -m benchmarks.bench_import [--rows 1000000] [--data commits.jsonl.gz] [--json FILE]

Messages are drawn at random, due at random within 60 days, in no order. Metadata is in memory, objects are in a folder.
Time is that of the job, without the start of Spark, which is shown beside. Memory is the peak of the process tree, Java
and Python's workers included, as the sum of resident sets sampled every 50 ms. Beside it, as a floor: DuckDB reads the
same lines, sorts them by time and writes Parquet, with as many threads.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table

from benchmarks.bench_ledger import DATA, SPAN_MS, START_MS
from tidewheel.clock import ManualClock
from tidewheel.memory import MemoryService
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.importing import Imported, import_messages
from tidewheel.spark.job import Job
from tidewheel.spark.location import Location
from tidewheel.spark.session import local_session

ROWS = 1_000_000
CORES = 2
TOPIC = "commits"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def make_input(folder: Path, data: Path, rows: int) -> int:
    """Writes the lines into four files and returns their bytes."""
    random_ = random.Random(17)
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        bodies = [json.dumps(json.loads(line)["payload"], ensure_ascii=False) for line in lines]
    folder.mkdir()
    files = [(folder / f"part-{i}.jsonl").open("w", encoding="utf-8") for i in range(4)]
    for i in range(rows):
        due_ms = START_MS + random_.randrange(SPAN_MS)
        files[i % 4].write(f'{{"deliver_at":{due_ms},"body":{random_.choice(bodies)}}}\n')
    for file in files:
        file.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def tree_bytes(root: int) -> int:
    """Returns the resident bytes of a process and of all below it."""
    parents: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            resident[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * _PAGE
        except OSError:  # it has ended
            continue
        parents.setdefault(parent, []).append(int(entry.name))
    total, found = 0, [root]
    while found:
        process = found.pop()
        total += resident.get(process, 0)
        found += parents.get(process, [])
    return total


@dataclass(slots=True)
class Peak:
    """The most bytes that were seen."""

    bytes: int = 0


@contextmanager
def watched() -> Iterator[Peak]:
    """Samples the memory of this process's tree."""
    peak, ended = Peak(), threading.Event()

    def sample() -> None:
        while not ended.wait(0.05):
            peak.bytes = max(peak.bytes, tree_bytes(os.getpid()))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def job_of(source: Path, root: Path, service: Any) -> Job:
    return Job(
        arguments={"topic": TOPIC, "input": str(source)},
        service=service,
        location=Location(root=str(root)),
        spark=lambda: local_session(CORES),
    )


def floor_s(source: Path, target: Path) -> float:
    """Returns how long DuckDB takes to sort the same lines into Parquet."""
    started = time.perf_counter()
    with duckdb.connect(config={"threads": CORES}) as connection:
        connection.execute(
            f"COPY (SELECT deliver_at, body FROM read_json('{source}/*.jsonl', columns="
            f"{{deliver_at: 'BIGINT', body: 'JSON'}}) ORDER BY deliver_at) TO '{target}' (COMPRESSION zstd)"
        )
    return time.perf_counter() - started


def main(data: Path, rows: int = ROWS) -> dict[str, float]:
    """Imports once and returns the figures."""
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as name:
        folder = Path(name)
        input_bytes = make_input(folder / "input", data, rows)
        duckdb_s = floor_s(folder / "input", folder / "sorted.parquet")
        clock = ManualClock(START_MS - 2 * 3_600_000)
        (folder / "objects").mkdir()
        objects: Any = Location(root=str(folder / "objects")).objects()
        service = replace(MemoryService.at(clock), objects=objects)
        service.topics.create_topic(new_topic_state(TOPIC, "g", TopicSettings(), clock.now_ms()))
        started = time.perf_counter()
        local_session(CORES).range(1).count()
        start_s = time.perf_counter() - started
        with watched() as peak:
            report: Imported = import_messages(job_of(folder / "input", folder / "objects", service))
        assert report.imported == rows, report
        ledger_bytes = sum(bucket.size_bytes for bucket in service.topics.buckets(TOPIC))
        again = import_messages(job_of(folder / "input", folder / "objects", service))
        assert (again.imported, again.skipped) == (0, rows), again
    return {
        "rows": rows,
        "input_mb": input_bytes / 1e6,
        "ledgers": report.ledgers,
        "ledger_bytes_a_message": ledger_bytes / rows,
        "import_s": report.seconds,
        "import_rows_a_second": rows / report.seconds,
        "import_peak_mb": peak.bytes / 1e6,
        "spark_start_s": start_s,
        "repeated_import_s": again.seconds,
        "duckdb_sort_s": duckdb_s,
        "import_to_duckdb": report.seconds / duckdb_s,
    }


def benchmark(*, quick: bool) -> dict[str, float]:
    """Imports a million lines."""
    return main(DATA[0], 20_000 if quick else ROWS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = main(given.data, given.rows)
    table = Table(title=f"import on {CORES} cores", title_justify="left", show_header=False)
    for name, value in figures.items():
        table.add_row(name, f"{value:,.1f}")
    Console().print(table)
    if given.json:
        given.json.write_text(json.dumps(figures))
