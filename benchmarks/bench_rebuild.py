"""Measures rebuilds of an empty table from ledgers of real messages in a folder, on two cores.

    python -m benchmarks rebuild

Rows of each ledger are due at random over 60 days, as in a topic that was never merged: the worst case for the
comparison of ids. One ledger in a hundred holds half of another's messages again, as after an ingest that died, so that
something is rewritten. Each size is rebuilt beside Arrow's bare reading of the same files: five rounds of a million,
and one round of ten million, which shows whether the time is linear. The parts are the scan (every byte is read and
verified, ids are collected), the comparison, and the rest (rewritten ledgers, buckets and marks, into a table in
memory). The larger size is rebuilt once more on Spark. CPU seconds and the peak of memory are those of all processes
together. The time of 100 M messages on Glue is extrapolated (`glue_s`).
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.bench_ledger import SPAN_MS, START_MS, messages
from benchmarks.process_memory import tree_cpu_s, watched
from tests.folder_objects import FolderLocation
from tests.stored import altered
from tidewheel.clock import ManualClock
from tidewheel.flows.maintenance.checkpoint import store_checkpoint
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.recovery.rebuild_keys import KeyRestore
from tidewheel.flows.recovery.scan import LedgerScan, Overlaps, RebuildEngine, ScanRange
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import Location
from tidewheel.jobs.rebuilding import engine_of
from tidewheel.ledger.bucket import bucket_id, content_id
from tidewheel.ledger.inspection import Inspected
from tidewheel.ledger.ledger import SCHEMA, encode_ledger
from tidewheel.ledger.rows import sort_rows
from tidewheel.memory import MemoryService
from tidewheel.model.checkpoint import checkpoint_of
from tidewheel.model.key import KeyEntry
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.ledger_scan import scan_on_spark
from tidewheel.spark.session import local_session
from tidewheel.spark.tasks import OnSpark
from tidewheel.storage.objects import Objects, StoredObject

TOPIC = "commits"
ROWS = 10_000
LEDGERS, ROUNDS = 100, 5
"""A million messages, five times."""
MANY_LEDGERS = 1_000
"""Ten million, once."""
CORES = 2
GLUE_CORES = 36
"""Of ten G.1X workers one is the driver; the others have four virtual processors each."""
GET_S, PUT_S = 0.03, 0.005
"""Assumed of AWS: time to the first byte of a GET, and of one write to DynamoDB."""
WRITES = 16
"""Writes to DynamoDB side by side."""
TARGET = 100_000_000


def timed(engine: RebuildEngine, seconds: dict[str, float]) -> RebuildEngine:
    """Returns an engine that notes the seconds of each part."""

    def scan(stored: Sequence[StoredObject], wanted: ScanRange) -> LedgerScan:
        start = time.perf_counter()
        found = engine.scan(stored, wanted)
        seconds["scan"] = time.perf_counter() - start
        return _TimedScan(found, seconds)

    return replace(engine, scan=scan)


@dataclass
class _TimedScan:
    found: LedgerScan
    seconds: dict[str, float]

    @property
    def inspected(self) -> Sequence[Inspected]:
        return self.found.inspected

    def overlaps(self, ledgers: Sequence[Inspected], /) -> Overlaps:
        start = time.perf_counter()
        found = self.found.overlaps(ledgers)
        self.seconds["compare"] = time.perf_counter() - start
        return found

    def restore_keys(self, ledgers: Sequence[Inspected], restore: KeyRestore, known: Sequence[KeyEntry], /) -> int:
        return self.found.restore_keys(ledgers, restore, known)

    def close(self) -> None:
        self.found.close()


def store(objects: Objects, ledgers: int, rows: int, generation: str) -> int:
    """Puts the ledgers. Returns their bytes."""
    payloads = messages(rows, "shuffled").column("payload").combine_chunks()
    random = np.random.default_rng(17)
    before: pa.Table | None = None
    size_bytes = 0
    for number in range(ledgers):
        table = _table(payloads, random)
        if number % 100 == 99 and before is not None:
            table = pa.concat_tables([table.slice(0, rows // 2), before.slice(0, rows - rows // 2)])
        ledger = encode_ledger(sort_rows(table), topic=TOPIC, generation=generation, slot_ms=300_000)
        first_slot = ledger.summary.segments[0].first_deliver_at_ms // 300_000
        name = ledger_name(TOPIC, bucket_id(first_slot, content_id(ledger.data)), 300_000, objects.new_attempt())
        objects.put(name, ledger.data)
        size_bytes += len(ledger.data)
        before = table
    return size_bytes


def _table(payloads: pa.Array, random: np.random.Generator) -> pa.Table:
    rows = len(payloads)
    times = np.sort(START_MS + random.integers(0, SPAN_MS, rows))
    ids = random.integers(0, 256, (rows, 16), np.uint8)
    ids[:, :6] = times.astype(">i8").view(np.uint8).reshape(rows, 8)[:, 2:]
    columns = {
        "deliver_at_ms": pa.array(times),
        "message_id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(ids.tobytes())]),
        "payload": payloads.take(pa.array(random.permutation(rows))),
        "encoding": pa.array(np.full(rows, 1, np.int8)),
        "sent_at_ms": pa.array(np.full(rows, START_MS - 1)),
    }
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def bare_read_s(folder: Path) -> float:
    """Returns the floor, the seconds in which Arrow reads all columns of the same ledgers on as many threads."""
    pa.set_cpu_count(CORES)
    paths = [path for path in folder.rglob("*.parquet") if path.is_file()]
    start = time.perf_counter()
    rows = sum(pq.read_table(path, partitioning=None).num_rows for path in paths)
    assert rows, folder
    return time.perf_counter() - start


@dataclass(frozen=True, kw_only=True)
class Round:
    """One rebuild beside a bare reading."""

    bare_s: float
    total_s: float
    cpu_s: float
    seconds: dict[str, float]
    peak_mb: float


def one_round(location: Location, ledgers: int, spark: SparkSession | None) -> Round:
    """Reads all ledgers with Arrow, and rebuilds their index, in this process or on Spark."""
    clock = ManualClock(START_MS - 3_600_000)
    bare_s = bare_read_s(Path(location.root))
    service = altered(MemoryService.at(clock), objects=location.objects())
    job = Job(arguments={"spark-above-mb": "0"}, service=service, location=location, cores=CORES)
    if spark is not None:
        job = replace(job, spark=OnSpark(lambda: spark), scan_on_spark=partial(scan_on_spark, lambda: spark))
    seconds = dict[str, float]()
    cpu_before, start = tree_cpu_s(os.getpid()), time.perf_counter()
    with watched(os.getpid()) as peak:
        report = rebuild(service, TOPIC, timed(engine_of(job), seconds), lease_s=7200)
    total_s, cpu_s = time.perf_counter() - start, tree_cpu_s(os.getpid()) - cpu_before
    assert len(report.overlapping) == ledgers // 100, report.overlapping
    return Round(bare_s=bare_s, total_s=total_s, cpu_s=cpu_s, seconds=seconds, peak_mb=peak.megabytes)


def rounds(ledgers: int, rows: int, count: int, spark: SparkSession | None = None) -> tuple[int, list[Round]]:
    """Makes ledgers, and returns their bytes and so many rounds.

    Each round makes the ledgers anew, because a rebuild adds rewritten ledgers.
    """
    found = []
    size_bytes = 0
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as folder:
            location = FolderLocation(root=folder)
            objects = location.objects()
            state = new_topic_state(TOPIC, "g", TopicSettings(), START_MS - 3_600_000)
            size_bytes = store(objects, ledgers, rows, state.generation)
            store_checkpoint(objects, checkpoint_of(state, [], [], [], START_MS - 3_600_000))
            found.append(one_round(location, ledgers, spark))
    return size_bytes, found


def benchmark(*, quick: bool) -> dict[str, float]:
    """Rebuilds a million and ten million messages."""
    # One ledger in a hundred overlaps another one, so there are a hundred at least.
    rows = 100 if quick else ROWS
    size_bytes, few = rounds(LEDGERS, rows, 1 if quick else ROUNDS)
    figures: dict[str, float] = {"ledgers": LEDGERS, "messages": LEDGERS * rows, "megabytes": size_bytes / 1e6}
    figures |= _figures(few, LEDGERS * rows)
    if not quick:
        size_bytes, many = rounds(MANY_LEDGERS, rows, 1)
        of_many = {"ledgers": MANY_LEDGERS, "messages": MANY_LEDGERS * rows, "megabytes": size_bytes / 1e6}
        figures |= {f"many_{name}": value for name, value in {**of_many, **_figures(many, MANY_LEDGERS * rows)}.items()}
        figures["linear"] = figures["many_cpu_us_a_row"] / figures["cpu_us_a_row"]
    spark = local_session(CORES, memory_mb=1024)
    rounds(LEDGERS, 100, 1, spark)  # Java compiles what it runs
    ledgers = LEDGERS if quick else MANY_LEDGERS
    _, on_spark = rounds(ledgers, rows, 1, spark)
    spark.stop()
    figures |= {f"spark_{name}": value for name, value in _figures(on_spark, ledgers * rows).items()}
    return figures | {"glue_100m_s": glue_s(figures["spark_cpu_us_a_row"], rows)}


def _figures(found: Sequence[Round], messages: int) -> dict[str, float]:
    totals = [each.total_s for each in found]
    return {
        "scan_s": statistics.median(each.seconds["scan"] for each in found),
        "compare_s": statistics.median(each.seconds["compare"] for each in found),
        "total_s": statistics.median(totals),
        "total_least_s": min(totals),
        "total_most_s": max(totals),
        "bare_read_s": statistics.median(each.bare_s for each in found),
        "rebuild_ratio": statistics.median(each.bare_s / each.total_s for each in found),
        "messages_a_second": messages / statistics.median(totals),
        "peak_mb": max(each.peak_mb for each in found),
        "cpu_us_a_row": statistics.median(each.cpu_s for each in found) / messages * 1e6,
    }


def glue_s(cpu_us_a_row: float, rows: int) -> float:
    """Returns the seconds that 100 M messages would take on ten G.1X workers of Glue, extrapolated.

    Each of their processors is taken to be as fast as one here, and all CPU work to be side by side. Then come, side by
    side on the same processors, one GET of 0.03 s for each ledger; one after the other, a list request of 0.1 s for
    each 1,000 ledgers; and sixteen at a time, one write of 5 ms for each ledger. The job's start, about a minute, and
    keys, each one more write, are not in it.
    """
    ledgers = TARGET / rows
    return (
        TARGET * cpu_us_a_row / 1e6 / GLUE_CORES
        + ledgers * GET_S / GLUE_CORES
        + ledgers / 1000 * 0.1
        + ledgers * PUT_S / WRITES
    )
