"""What a merge costs: many ledgers of real messages made few, by both engines, beside pyarrow and DuckDB.

    python -m benchmarks merge

Each contender is a process of its own on the same files, one after the other. `function` and `spark` run the whole
flow, choice and swaps included, over metadata in memory and objects in a folder; they write segments that can be read
alone, with checksums, and drop copies. `pyarrow` reads all files, sorts and writes one; DuckDB does the same with an
ORDER BY. Time is from the first read to the last write, without imports and without the start of Spark's session, which
is shown beside. Memory is the peak of the whole process tree, Java and Python's workers included, as the sum of
resident sets sampled every 50 ms. All but the function use two threads or tasks.

The function and Spark run once more on twice the input: their memory must stay where it was.
"""

from __future__ import annotations

import gzip
import json
import pickle
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_ledger import DATA, SPAN_MS, START_MS
from benchmarks.process_memory import watched
from tidewheel.clock import ManualClock
from tidewheel.flows.upkeep.merge import Engine, in_process, merge
from tidewheel.jobs.location import Location
from tidewheel.ledger.bucket import Bucket, bucket_id, content_id
from tidewheel.ledger.ledger import encode_ledger, rows_table
from tidewheel.memory import MemoryService
from tidewheel.model.message import Encoding
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state

CORES = 2
LEDGERS, ROWS = 300, 10_000
SETTINGS = TopicSettings(max_buckets=8)


def make_ledgers(folder: Path, ledgers: int, rows: int) -> None:
    """Writes ledgers of messages drawn at random, due at random within 60 days, and their buckets beside them."""
    random_ = random.Random(17)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        payloads = [json.dumps(json.loads(line)["payload"], ensure_ascii=False).encode() for line in lines]
    objects = Location(root=str(folder)).objects()
    buckets: list[Bucket] = []
    for _ in range(ledgers):
        times = sorted(START_MS + random_.randrange(SPAN_MS) for _ in range(rows))
        table = rows_table(
            deliver_at_ms=times,
            message_id=[ms.to_bytes(6) + random_.randbytes(10) for ms in times],
            payload=random_.choices(payloads, k=rows),
            encoding=[Encoding.JSON] * rows,
            sent_at_ms=[START_MS - random_.randrange(300_000) for _ in range(rows)],
        )
        ledger = encode_ledger(table, topic="t", generation="g", slot_ms=SETTINGS.slot_ms)
        id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
        name = ledger_name("t", id, SETTINGS.slot_ms, objects.new_attempt())
        objects.put(name, ledger.data)
        buckets.append(ledger.summary.bucket(id, name))
    (folder / "buckets.pickle").write_bytes(pickle.dumps(buckets))


def run_flow(folder: Path, engine: Engine, buckets: list[Bucket]) -> dict[str, float]:
    """Merges by the flow."""
    clock = ManualClock(START_MS - 3_600_000)
    service = MemoryService.at(clock)
    object.__setattr__(service, "objects", Location(root=str(folder)).objects())
    state = new_topic_state("t", "g", SETTINGS, clock.now_ms())
    service.topic_states.create(state)
    for bucket in buckets:
        service.buckets.commit(state, bucket, None)
    before = time.perf_counter()
    merged = merge(service, "t", engine, lease_s=900)
    seconds = time.perf_counter() - before
    assert merged is not None
    left = service.buckets.all("t")
    return {"seconds": seconds, "rows": merged.rows, "merges": merged.merges, "ledgers_left": len(left)}


def run_function(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """The function's engine."""
    return run_flow(folder, in_process(Location(root=str(folder)).objects()), buckets)


def run_spark(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """Spark's engine."""
    from tidewheel.jobs.merging import side_by_side
    from tidewheel.spark.session import local_session
    from tidewheel.spark.tasks import OnSpark

    before = time.perf_counter()
    spark = local_session(CORES, memory_mb=1024)
    spark.sparkContext.parallelize(range(CORES), CORES).map(_import_engine).collect()
    start = time.perf_counter() - before
    try:
        engine = side_by_side(lambda _: OnSpark(lambda: spark), Location(root=str(folder)))
        return run_flow(folder, engine, buckets) | {"session_start_s": start}
    finally:
        spark.stop()


def _import_engine(_: int) -> str:
    import tidewheel.flows.upkeep.merge_rows

    return tidewheel.flows.upkeep.merge_rows.__name__


def run_pyarrow(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """Reads all, sorts, writes one file."""
    pa.set_cpu_count(CORES)
    before = time.perf_counter()
    tables = [pq.read_table(folder / bucket.object_name, partitioning=None) for bucket in buckets]
    table = pa.concat_tables(tables).sort_by([("deliver_at_ms", "ascending")])
    pq.write_table(table, folder / "pyarrow.parquet", compression="zstd", compression_level=1)
    return {"seconds": time.perf_counter() - before, "rows": table.num_rows}


def run_duckdb(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """Sorts all into one file."""
    import duckdb

    duckdb.execute(f"SET threads = {CORES}")
    files = [str(folder / bucket.object_name) for bucket in buckets]
    before = time.perf_counter()
    duckdb.execute(
        f"COPY (SELECT * FROM read_parquet(?) ORDER BY deliver_at_ms, message_id) TO '{folder}/duckdb.parquet' "
        "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)",
        [files],
    )
    return {"seconds": time.perf_counter() - before, "rows": sum(bucket.rows for bucket in buckets)}


CONTENDERS = {"function": run_function, "spark": run_spark, "pyarrow": run_pyarrow, "duckdb": run_duckdb}


def contend(name: str, folder: Path) -> None:
    """Runs one contender here and prints its figures."""
    buckets = pickle.loads((folder / "buckets.pickle").read_bytes())
    print(json.dumps(CONTENDERS[name](folder, buckets)))


def measure(name: str, folder: Path) -> dict[str, float]:
    """Runs one contender in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_merge", name, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, watched(process.pid) as peak:
        output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} failed")
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found | {"peak_mb": peak.megabytes}


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Merges by each contender, and by both of ours at twice the input."""
    ledgers, rows = (20, 1_000) if quick else (LEDGERS, ROWS)
    runs: dict[str, dict[str, float]] = {}
    for factor, names in ((1, tuple(CONTENDERS)), (2, ("function", "spark"))):
        with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
            make_ledgers(Path(folder), ledgers * factor, rows)
            for name in names:
                runs[name if factor == 1 else f"{name} x2"] = measure(name, Path(folder))
    return {
        "ledgers": ledgers,
        "rows_each": rows,
        **{f"{name}_to_duckdb": runs[name]["seconds"] / runs["duckdb"]["seconds"] for name in ("function", "spark")},
        **{
            f"{name}_memory_at_twice_the_input": runs[f"{name} x2"]["peak_mb"] / runs[name]["peak_mb"]
            for name in ("function", "spark")
        },
        "contenders": runs,
    }


if __name__ == "__main__":
    contend(sys.argv[1], Path(sys.argv[2]))
