"""What a rebuild takes: ledgers of real messages in a folder, an empty table, Spark with two tasks.

    python -m benchmarks rebuild

Rows of each ledger are due at random over 60 days, as in a topic that was never merged: the worst case for the
comparison of ids. One ledger in a hundred holds half of another's messages again, as after an ingest that died, so that
something is rewritten. The parts: list; inspect (read everything, checksums, slots); compare (what counts, and which
ledgers share a message); write (rewritten ledgers, buckets and marks, into a table in memory). Wall time, without the
start of Spark's session, which is shown beside. The time of 100 M messages on Glue is extrapolated (`glue_s`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tidewheel.spark.rebuilding import OnSpark

from benchmarks.bench_ledger import SPAN_MS, START_MS, messages
from tidewheel.clock import ManualClock
from tidewheel.flows.ports.objects import Objects, StoredObject
from tidewheel.flows.recovery.rebuild import ledgers_of, rebuild
from tidewheel.flows.recovery.rebuild_engine import Overlaps
from tidewheel.flows.upkeep.checkpoint import store_checkpoint
from tidewheel.flows.upkeep.merge_rows import MergeWork
from tidewheel.jobs.location import Location
from tidewheel.ledger.bucket import Bucket, bucket_id, content_id
from tidewheel.ledger.inspection import Inspected
from tidewheel.ledger.ledger import SCHEMA, encode_ledger
from tidewheel.memory import MemoryQueues, MemoryService
from tidewheel.model.checkpoint import checkpoint_of
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.session import local_session

TOPIC = "commits"
LEDGERS, ROWS = 300, 10_000
CORES = 2
GLUE_CORES = 36
"""Of ten G.1X workers one is the driver; the others have four virtual processors each."""
GET_S, PUT_S = 0.03, 0.005
"""Assumed of AWS: time to the first byte of a GET, and of one write to DynamoDB."""
TARGET = 100_000_000


class Timed:
    """The engine on Spark, with the time of each part."""

    def __init__(self, engine: OnSpark) -> None:
        """Nothing has been timed yet."""
        self.engine = engine
        self.seconds: dict[str, float] = {}

    def inspect(self, stored: Sequence[StoredObject], slot_ms: int, /) -> list[Inspected]:
        """Inspects."""
        start = time.perf_counter()
        found = self.engine.inspect(stored, slot_ms)
        self.seconds["inspect"] = time.perf_counter() - start
        return found

    def overlaps(self, ledgers: Sequence[Bucket], from_ms: int, /) -> Overlaps:
        """Compares ids."""
        start = time.perf_counter()
        found = self.engine.overlaps(ledgers, from_ms)
        self.seconds["compare"] = time.perf_counter() - start
        return found

    def write(self, work: MergeWork, /) -> Iterable[Bucket | None]:
        """Writes."""
        return self.engine.write(work)


def store(objects: Objects, ledgers: int, rows: int, generation: str) -> int:
    """Puts the ledgers; returns their bytes."""
    payloads = messages(rows, "shuffled").column("payload").combine_chunks()
    random = np.random.default_rng(17)
    before: pa.Table | None = None
    size_bytes = 0
    for number in range(ledgers):
        table = _table(payloads, random)
        if number % 100 == 99 and before is not None:
            table = pa.concat_tables([table.slice(0, rows // 2), before.slice(0, rows - rows // 2)])
        ledger = encode_ledger(table, topic=TOPIC, generation=generation, slot_ms=300_000)
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
    """The floor: how long Arrow takes to read the same ledgers, all columns, on as many threads, and nothing else."""
    pa.set_cpu_count(CORES)
    paths = [path for path in folder.rglob("*.parquet") if path.is_file()]
    start = time.perf_counter()
    rows = sum(pq.read_table(path, partitioning=None).num_rows for path in paths)
    assert rows, folder
    return time.perf_counter() - start


def benchmark(*, quick: bool) -> dict[str, float]:
    """Makes the ledgers and rebuilds their metadata."""
    # One ledger in a hundred overlaps another one, so there are a hundred at least.
    ledgers, rows = (100, 100) if quick else (LEDGERS, ROWS)
    clock = ManualClock(START_MS - 3_600_000)
    state = new_topic_state(TOPIC, "g", TopicSettings(), clock.now_ms())
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as folder:
        location = Location(root=folder)
        objects = location.objects()
        size_bytes = store(objects, ledgers, rows, state.generation)
        store_checkpoint(objects, checkpoint_of(state, [], [], [], clock.now_ms()))
        bare_s = bare_read_s(Path(folder))
        service = MemoryService(clock=clock, objects=objects, queues=MemoryQueues(clock))  # type: ignore[arg-type]
        start = time.perf_counter()
        spark = local_session(CORES)
        spark.range(1000).rdd.map(lambda row: row.id).count()
        session_s = time.perf_counter() - start
        start = time.perf_counter()
        assert len(ledgers_of(objects, TOPIC)) == ledgers
        list_s = time.perf_counter() - start
        engine = Timed(OnSpark(spark=lambda: spark, location=location))
        start = time.perf_counter()
        report = rebuild(service, TOPIC, engine, lease_s=7200)
        total_s = time.perf_counter() - start
        spark.stop()
    assert len(report.overlapping) == ledgers // 100, report.overlapping
    seconds = {"list": list_s, **engine.seconds}
    seconds["write"] = total_s - sum(seconds.values())
    found = {
        "ledgers": ledgers,
        "messages": ledgers * rows,
        "megabytes": size_bytes / 1e6,
        "live_after": report.live,
        "session_s": session_s,
        **{f"{name}_s": value for name, value in seconds.items()},
        "total_s": total_s,
        "bare_read_s": bare_s,
        "rebuild_ratio": bare_s / total_s,
        "messages_a_second": ledgers * rows / total_s,
    }
    return found | {"glue_100m_s": glue_s(found)}


def glue_s(figures: dict[str, float]) -> float:
    """Returns the seconds that 100 M messages would take on ten G.1X workers of Glue, extrapolated.

    Each of their processors is taken to be as fast as one here, and side by side. One after the other come a list
    request of 0.1 s for each 1,000 ledgers and a write for each. The job's start, about a minute, is not in it.
    """
    factor = TARGET / figures["messages"]
    ledgers = figures["ledgers"] * factor
    on_spark_s = figures["inspect_s"] + figures["compare_s"] + figures["write_s"]
    return (
        on_spark_s * factor * CORES / GLUE_CORES
        + ledgers / 1000 * 0.1
        + 3 * ledgers * GET_S / GLUE_CORES
        + ledgers * PUT_S
    )
