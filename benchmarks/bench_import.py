"""Measures imports of real messages, on two cores.

    python -m benchmarks import

Messages are drawn at random, due at random within 60 days, in no order, in four files of each format. Metadata is in
memory, objects are in a folder. Each of five rounds imports a million rows, on local Spark and in child processes. As
floors, DuckDB and Spark have read the same files before, sorted them by time and written Parquet with as many threads.

- *Time* is that of the job, with the start of its processes.
- *Memory* is the peak of the process tree, as the sum of resident sets sampled every 50 ms, without the benchmark's own
  process as it is before. Ten million rows of Parquet show that it does not grow.
- *CPU microseconds a row, by step* are those of one process, of a run of their own.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.bench_ledger import DATA, SPAN_MS, START_MS
from benchmarks.process_memory import tree, watched
from benchmarks.rounds import spread_figures
from tests.folder_objects import FolderLocation
from tests.stored import altered
from tidewheel.clock import ManualClock
from tidewheel.jobs.importing import checks, driver, staging
from tidewheel.jobs.importing.driver import Stager, import_messages
from tidewheel.jobs.importing.work import Imported
from tidewheel.jobs.job import Job
from tidewheel.memory import MemoryService
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.import_files import stage_on_spark
from tidewheel.spark.session import local_session

ROWS, MANY_ROWS, ROUNDS = 1_000_000, 10_000_000, 5
FILES, PROCESSES = 4, 2
FORMATS = {
    "parquet": "read_parquet('{}/*')",
    "json": "read_json('{}/*', columns={{deliver_at: 'BIGINT', body: 'JSON'}})",
    "csv": "read_csv('{}/*', columns={{deliver_at: 'BIGINT', body: 'VARCHAR'}}, header=true)",
}
"""Format -> how DuckDB reads a folder of it, with the types named."""
TOPIC = "commits"


def make_input(folder: Path, rows: int, file_format: str) -> int:
    """Writes four files and returns their bytes."""
    random_ = random.Random(17)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        bodies = [json.dumps(json.loads(line)["payload"], ensure_ascii=False) for line in lines]
    folder.mkdir()
    each = rows // FILES
    for number in range(FILES):
        path = folder / f"part-{number}.{file_format}"
        due = [START_MS + random_.randrange(SPAN_MS) for _ in range(each)]
        drawn = random_.choices(bodies, k=each)
        if file_format == "parquet":
            pq.write_table(pa.table({"deliver_at": due, "body": drawn}), path, row_group_size=100_000)
            continue
        with path.open("w", encoding="utf-8") as file:
            if file_format == "csv":
                file.write("deliver_at,body\n")
                file.writelines('{},"{}"\n'.format(*row) for row in zip(due, _quoted(drawn), strict=True))
            else:
                file.writelines('{{"deliver_at":{},"body":{}}}\n'.format(*row) for row in zip(due, drawn, strict=True))
    return sum(path.stat().st_size for path in folder.iterdir())


def _quoted(texts: list[str]) -> list[str]:
    return [text.replace('"', '""') for text in texts]


class Once:
    """An import into an empty topic."""

    def __init__(self, source: Path, objects: Path) -> None:
        shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir()
        clock = ManualClock(START_MS - 2 * 3_600_000)
        location = FolderLocation(root=str(objects))
        stored: Any = location.objects()
        self.service: Any = altered(MemoryService.at(clock), objects=stored)
        self.service.topic_states.create(new_topic_state(TOPIC, "g", TopicSettings(), clock.now_ms()))
        arguments = {"topic": TOPIC, "input": str(source)}
        self._job = Job(arguments=arguments, service=self.service, location=location, cores=PROCESSES, say=_quiet)

    def run(self, stager: Stager | None = None, *, cores: int = PROCESSES) -> Imported:
        """Imports, by default in child processes."""
        return import_messages(replace(self._job, cores=cores), stager)


def _quiet(_: str) -> None:
    pass


def floor_s(source: Path, file_format: str, target: Path) -> float:
    """Returns how long DuckDB takes to sort the same rows into Parquet."""
    started = time.perf_counter()
    with duckdb.connect(config={"threads": PROCESSES}) as connection:
        connection.execute(
            f"COPY (SELECT deliver_at, body FROM {FORMATS[file_format].format(source)} ORDER BY deliver_at) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
        )
    return time.perf_counter() - started


def spark_s(spark: SparkSession, source: Path, file_format: str, target: Path) -> float:
    """Returns how long Spark takes for the same."""
    started = time.perf_counter()
    reader = spark.read.schema("deliver_at bigint, body string").options(header="true", escape='"')
    ordered = reader.load(str(source), format=file_format).sort("deliver_at")
    ordered.write.mode("overwrite").option("compression", "zstd").parquet(str(target))
    return time.perf_counter() - started


def of_format(folder: Path, file_format: str, rows: int, rounds: int) -> dict[str, object]:
    """Imports a format several times, each time after DuckDB and Spark, and once more, which adds nothing."""
    source, objects, spark = folder / file_format, folder / "objects", local_session(PROCESSES)
    input_bytes = make_input(source, rows, file_format)
    rates, ratios, peaks = [], dict[str, list[float]](duckdb=[], spark=[], on_spark=[]), []
    for _ in range(rounds):
        duckdb_s = floor_s(source, file_format, folder / "sorted.parquet")
        spark_floor_s = spark_s(spark, source, file_format, folder / "spark")
        on_spark = Once(source, objects).run(stage_on_spark)
        once = Once(source, objects)
        before_mb = sum(tree(os.getpid()).values()) / 1e6
        with watched(os.getpid()) as peak:
            report = once.run()
        if (report.imported, on_spark.imported) != (rows, rows):
            raise RuntimeError(f"{report.imported} and {on_spark.imported} of {rows} rows were imported")
        rates.append(rows / report.seconds)
        ratios["duckdb"].append(report.seconds / duckdb_s)
        ratios["spark"].append(report.seconds / spark_floor_s)
        ratios["on_spark"].append(on_spark.seconds / spark_floor_s)
        peaks.append(peak.megabytes - before_mb)
    ledger_bytes = sum(bucket.size_bytes for bucket in once.service.buckets.all(TOPIC))
    again = once.run()
    if (again.imported, again.skipped) != (0, rows):
        raise RuntimeError(f"the second run imported {again.imported} rows")
    shutil.rmtree(source)
    return {
        "format": file_format,
        "rows": rows,
        "input_mb": input_bytes / 1e6,
        "ledgers": report.ledgers,
        "ledger_bytes_a_message": ledger_bytes / rows,
        **spread_figures("rows_a_second", rates),
        **spread_figures("time_to_duckdb", ratios["duckdb"]),
        **spread_figures("time_to_spark", ratios["spark"]),
        **spread_figures("on_spark_time_to_spark", ratios["on_spark"]),
        "peak_mb": max(peaks),
        "repeated_import_s": again.seconds,
    }


class Steps:
    """CPU time of this process by step, while an import runs in it."""

    def __init__(self) -> None:
        self.spent_ns: Counter[str] = Counter()
        self._inside: list[str] = []
        self._since_ns = time.process_time_ns()

    def _switch(self) -> None:
        now_ns = time.process_time_ns()
        self.spent_ns[self._inside[-1] if self._inside else "rest"] += now_ns - self._since_ns
        self._since_ns = now_ns

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function with a timer. Inner steps have their own timers."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._inside.append(step)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._inside.pop()

        return run

    def iterated(self, step: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """The same for a generator function."""

        def run(*args: Any, **kwargs: Any) -> Iterator[Any]:
            found = self.timed(step, iter(function(*args, **kwargs)).__next__)
            while True:
                try:
                    each = found()
                except StopIteration:
                    return
                yield each

        return run


def steps_of(folder: Path, file_format: str, rows: int) -> dict[str, object]:
    """Imports in this process, and returns the CPU microseconds a row of each step."""
    source = folder / file_format
    make_input(source, rows, file_format)
    once, steps = Once(source, folder / "objects"), Steps()
    with (
        patch.object(
            driver, "apart", lambda task, *given: (told for told in task(*given) if not isinstance(told, int))
        ),
        patch.object(checks, "read_part", steps.iterated("read", checks.read_part)),
        patch.object(checks, "check", steps.timed("check", checks.check)),
        patch.object(staging, "_sorted", steps.iterated("sort", staging._sorted)),
        patch.object(staging, "store_rows", steps.timed("encode_and_store", staging.store_rows)),
    ):
        steps.timed("rest", once.run)(cores=1)
    shutil.rmtree(source)
    return {"format": file_format, **{step: spent / 1e3 / rows for step, spent in sorted(steps.spent_ns.items())}}


def benchmark(*, quick: bool) -> dict[str, object]:
    """Imports each format several times, and many rows once."""
    rows, many, rounds = (20_000, 40_000, 2) if quick else (ROWS, MANY_ROWS, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as name:
        folder = Path(name)
        found = [of_format(folder, each, rows, rounds) for each in FORMATS]
        large = of_format(folder, "parquet", many, 1)
        steps = [steps_of(folder, each, rows) for each in FORMATS]
    return {
        "by_format": found,
        "least_rows_a_second": min(each["rows_a_second"] for each in found),  # type: ignore[type-var]
        "many_rows": large,
        "peak_mb_of_many": large["peak_mb"],
        "cpu_us_a_row": steps,
    }
