"""What an import costs: JSON lines of real messages made ledgers by two processes.

    python -m benchmarks import

Messages are drawn at random, due at random within 60 days, in no order. Metadata is in memory, objects are in a folder.
Time is that of the job, with the start of its processes. Memory is the peak of the process tree, as the sum of resident
sets sampled every 50 ms. Beside it, as a floor: DuckDB reads the
same lines, sorts them by time and writes Parquet, with as many threads.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.bench_ledger import DATA, SPAN_MS, START_MS
from benchmarks.process_memory import watched
from tidewheel.clock import ManualClock
from tidewheel.jobs.importing.driver import Imported, import_messages
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import Location
from tidewheel.memory import MemoryService
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state

ROWS = 1_000_000
CORES = 2
TOPIC = "commits"


def make_input(folder: Path, rows: int) -> int:
    """Writes the lines into four files and returns their bytes."""
    random_ = random.Random(17)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        bodies = [json.dumps(json.loads(line)["payload"], ensure_ascii=False) for line in lines]
    folder.mkdir()
    files = [(folder / f"part-{i}.jsonl").open("w", encoding="utf-8") for i in range(4)]
    for i in range(rows):
        due_ms = START_MS + random_.randrange(SPAN_MS)
        files[i % 4].write(f'{{"deliver_at":{due_ms},"body":{random_.choice(bodies)}}}\n')
    for file in files:
        file.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def job_of(source: Path, root: Path, service: Any) -> Job:
    return Job(
        arguments={"topic": TOPIC, "input": str(source), "cores": str(CORES)},
        service=service,
        location=Location(root=str(root)),
        spark=_no_spark,
    )


def _no_spark() -> Any:
    raise AssertionError("an import needs no Spark")


def floor_s(source: Path, target: Path) -> float:
    """Returns how long DuckDB takes to sort the same lines into Parquet."""
    started = time.perf_counter()
    with duckdb.connect(config={"threads": CORES}) as connection:
        connection.execute(
            f"COPY (SELECT deliver_at, body FROM read_json('{source}/*.jsonl', columns="
            f"{{deliver_at: 'BIGINT', body: 'JSON'}}) ORDER BY deliver_at) TO '{target}' (COMPRESSION zstd)"
        )
    return time.perf_counter() - started


def benchmark(*, quick: bool) -> dict[str, float]:
    """Imports once, and once more, which adds nothing."""
    rows = 20_000 if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as name:
        folder = Path(name)
        input_bytes = make_input(folder / "input", rows)
        duckdb_s = floor_s(folder / "input", folder / "sorted.parquet")
        clock = ManualClock(START_MS - 2 * 3_600_000)
        (folder / "objects").mkdir()
        objects: Any = Location(root=str(folder / "objects")).objects()
        service = replace(MemoryService.at(clock), objects=objects)
        service.topic_states.create(new_topic_state(TOPIC, "g", TopicSettings(), clock.now_ms()))
        with watched(os.getpid()) as peak:
            report: Imported = import_messages(job_of(folder / "input", folder / "objects", service))
        assert report.imported == rows, report
        ledger_bytes = sum(bucket.size_bytes for bucket in service.buckets.all(TOPIC))
        again = import_messages(job_of(folder / "input", folder / "objects", service))
        assert (again.imported, again.skipped) == (0, rows), again
    return {
        "rows": rows,
        "input_mb": input_bytes / 1e6,
        "ledgers": report.ledgers,
        "ledger_bytes_a_message": ledger_bytes / rows,
        "import_s": report.seconds,
        "import_rows_a_second": rows / report.seconds,
        "import_peak_mb": peak.megabytes,
        "repeated_import_s": again.seconds,
        "duckdb_sort_s": duckdb_s,
        "import_to_duckdb": report.seconds / duckdb_s,
    }
