"""What a rebuild takes: ledgers of real messages in a folder, an empty table, Spark with two tasks.

    python -m benchmarks rebuild
    python -m benchmarks.bench_rebuild [--ledgers 300] [--rows 10000] [--data commits.jsonl.gz] [--json FILE]

Rows of each ledger are due at random over 60 days, as in a topic that was never merged: the worst case for the
comparison of ids. One ledger in a hundred holds half of another's messages again, as after an ingest that died, so that
something is rewritten. The parts: list; inspect (read everything, checksums, slots); compare (what counts, and which
ledgers share a message); write (rewritten ledgers, buckets and marks, into a table in memory). Wall time, without the
start of Spark's session, which is shown beside. The extrapolation to 100 M messages prints what it assumes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_ledger import DATA, SPAN_MS, START_MS, messages
from tidewheel.clock import ManualClock
from tidewheel.flows.ports import Objects, StoredObject
from tidewheel.flows.recovery.rebuild import ledgers_of, rebuild
from tidewheel.flows.recovery.rebuild_engine import Overlaps
from tidewheel.flows.upkeep.checkpoint import store_checkpoint
from tidewheel.flows.upkeep.merge_rows import MergeWork
from tidewheel.ledger.bucket import Bucket, content_id
from tidewheel.ledger.inspection import Inspected
from tidewheel.ledger.ledger import SCHEMA, encode_ledger
from tidewheel.memory import MemoryQueues, MemoryService
from tidewheel.model.checkpoint import checkpoint_of
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.location import Location
from tidewheel.spark.rebuilding import OnSpark
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


def store(objects: Objects, data: Path, ledgers: int, rows: int, generation: str) -> int:
    """Puts the ledgers; returns their bytes."""
    payloads = messages(data, rows, "shuffled").column("payload").combine_chunks()
    random = np.random.default_rng(17)
    before: pa.Table | None = None
    size_bytes = 0
    for number in range(ledgers):
        table = _table(payloads, random)
        if number % 100 == 99 and before is not None:
            table = pa.concat_tables([table.slice(0, rows // 2), before.slice(0, rows - rows // 2)])
        ledger = encode_ledger(table, topic=TOPIC, generation=generation, slot_ms=300_000)
        first_slot = ledger.summary.segments[0].first_deliver_at_ms // 300_000
        name = ledger_name(TOPIC, first_slot, 300_000, content_id(ledger.data), objects.new_attempt())
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


def main(data: Path, ledgers: int, rows: int) -> dict[str, float]:
    """Makes the ledgers, rebuilds, and returns the figures."""
    clock = ManualClock(START_MS - 3_600_000)
    state = new_topic_state(TOPIC, "g", TopicSettings(), clock.now_ms())
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as folder:
        location = Location(root=folder)
        objects = location.objects()
        size_bytes = store(objects, data, ledgers, rows, state.generation)
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
    return {
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


def benchmark(*, quick: bool) -> dict[str, float]:
    """Rebuilds 3,000,000 messages."""
    # One ledger in a hundred overlaps another one, so there are a hundred at least.
    found = main(DATA[0], 100, 100) if quick else main(DATA[0], LEDGERS, ROWS)
    seconds, _ = extrapolation(found)
    return found | {"extrapolated_100m_s": seconds}


def extrapolation(figures: dict[str, float]) -> tuple[float, list[str]]:
    """Returns the seconds that 100 M messages would take on Glue, and lines that say by what assumptions."""
    factor = TARGET / figures["messages"]
    ledgers = figures["ledgers"] * factor
    speed = CORES / GLUE_CORES
    list_s = ledgers / 1000 * 0.1
    parallel_s = (figures["inspect_s"] + figures["compare_s"]) * factor * speed
    gets_s = 3 * ledgers * GET_S / GLUE_CORES
    rewrite_s = figures["write_s"] * factor * speed
    puts_s = ledgers * PUT_S
    total_s = list_s + parallel_s + gets_s + rewrite_s + puts_s
    return total_s, [
        f"100 M messages in {ledgers:,.0f} ledgers on ten G.1X workers: about {total_s / 60:.1f} minutes",
        f"  list      {list_s:7.1f} s   1,000 names a request, 0.1 s each, one after the other",
        f"  inspect   {figures['inspect_s'] * factor * speed:7.1f} s   as measured, {GLUE_CORES} processors "
        f"instead of {CORES}, each as fast as here",
        f"  compare   {figures['compare_s'] * factor * speed:7.1f} s   likewise; a shuffle of 24 bytes a message",
        f"  GETs      {gets_s:7.1f} s   three a ledger, {GET_S * 1000:.0f} ms each, side by side; "
        "S3's throughput is no limit",
        f"  rewrite   {rewrite_s:7.1f} s   one ledger in a hundred overlaps; side by side",
        f"  buckets   {puts_s:7.1f} s   one PutItem each, {PUT_S * 1000:.0f} ms, one after the other",
        "  without the start of the job (about a minute); assumed, not measured: all of AWS's own times",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA[0])
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    measured = main(given.data, given.ledgers, given.rows)
    print(json.dumps(measured, indent=1))
    print("\n".join(extrapolation(measured)[1]))
    if given.json:
        given.json.write_text(json.dumps(measured))
