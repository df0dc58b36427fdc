"""What a merge costs: many ledgers of real messages made few, by both engines, beside pyarrow and DuckDB.

    python -m benchmarks merge
    python -m benchmarks.bench_merge [--ledgers 300] [--rows 10000] [--data commits.jsonl.gz] [--json FILE]

Each contender is a process of its own on the same files, one after the other. `function` and `spark` run the whole
flow, choice and swaps included, over metadata in memory and objects in a folder; they write segments that can be read
alone, with checksums, and drop copies. `pyarrow` reads all files, sorts and writes one; DuckDB does the same with an
ORDER BY. Time is from the first read to the last write, without imports and without the start of Spark's session, which
is shown beside. Memory is the peak of the whole process tree, Java and Python's workers included, as the sum of
resident sets sampled every 50 ms. All but the function use two threads or tasks.

The function and Spark run once more on twice the input: their memory must stay where it was.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
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
from tidewheel.clock import ManualClock
from tidewheel.flows.upkeep.merge import Engine, in_process, merge
from tidewheel.ledger.bucket import Bucket, content_id
from tidewheel.ledger.ledger import encode_ledger, rows_table
from tidewheel.memory import MemoryService
from tidewheel.model.message import Encoding
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.spark.location import Location

CORES = 2
LEDGERS, ROWS = 300, 10_000
SETTINGS = TopicSettings(max_buckets=8)
CONTENDERS = ("function", "spark", "pyarrow", "duckdb")


def make_ledgers(folder: Path, data: Path, ledgers: int, rows: int) -> None:
    """Writes ledgers of messages drawn at random, due at random within 60 days, and their buckets beside them."""
    random_ = random.Random(17)
    with gzip.open(data, "rt", encoding="utf-8") as lines:
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
        bucket_id = content_id(ledger.data)
        name = ledger_name("t", ledger.summary.slots.min(), SETTINGS.slot_ms, bucket_id, objects.new_attempt())
        objects.put(name, ledger.data)
        buckets.append(ledger.summary.bucket(bucket_id, name))
    (folder / "buckets.pickle").write_bytes(pickle.dumps(buckets))


def run_flow(folder: Path, engine: Engine, buckets: list[Bucket]) -> dict[str, float]:
    """Merges by the flow."""
    clock = ManualClock(START_MS - 3_600_000)
    service = MemoryService.at(clock)
    object.__setattr__(service, "objects", Location(root=str(folder)).objects())
    state = new_topic_state("t", "g", SETTINGS, clock.now_ms())
    service.topics.create_topic(state)
    for bucket in buckets:
        service.topics.commit_bucket(state, bucket, None)
    before = time.perf_counter()
    merged = merge(service, "t", engine, lease_s=900)
    seconds = time.perf_counter() - before
    assert merged is not None
    left = service.topics.buckets("t")
    return {"seconds": seconds, "rows": merged.rows, "merges": merged.merges, "ledgers_left": len(left)}


def run_function(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """The function's engine."""
    return run_flow(folder, in_process(Location(root=str(folder)).objects()), buckets)


def run_spark(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """Spark's engine."""
    from tidewheel.spark.merging import on_spark
    from tidewheel.spark.session import local_session

    before = time.perf_counter()
    spark = local_session(CORES, memory_mb=1024)
    spark.sparkContext.parallelize(range(CORES), CORES).map(_import_engine).collect()
    start = time.perf_counter() - before
    try:
        engine = on_spark(lambda: spark, Location(root=str(folder)))
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


def contend(name: str, folder: Path) -> dict[str, float]:
    """Runs one contender here."""
    buckets = pickle.loads((folder / "buckets.pickle").read_bytes())
    runs = {"function": run_function, "spark": run_spark, "pyarrow": run_pyarrow, "duckdb": run_duckdb}
    return runs[name](folder, buckets)


def tree_mb(root: int) -> float:
    """Returns the resident memory of a process and all below it, in MB."""
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                parents[int(each.name)] = int(fields[1])
                resident[int(each.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                continue
    total = 0
    for process in parents:
        at = process
        while at not in (root, 0, 1):
            at = parents.get(at, 0)
        total += resident[process] if at == root else 0
    return total / 1e6


def measure(name: str, folder: Path) -> dict[str, float]:
    """Runs one contender in a process of its own, and watches the memory of all its processes."""
    command = [sys.executable, "-m", "benchmarks.bench_merge", "--contender", name, "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, tree_mb(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{name} failed")
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found | {"peak_mb": peak}


def bench(data: Path, ledgers: int, rows: int) -> dict[str, Any]:
    """Measures all contenders, and ours at twice the input."""
    found: dict[str, Any] = {"ledgers": ledgers, "rows_each": rows}
    for factor, names in ((1, CONTENDERS), (2, ("function", "spark"))):
        with tempfile.TemporaryDirectory(prefix="bench-merge-") as text:
            folder = Path(text)
            make_ledgers(folder, data, ledgers * factor, rows)
            for name in names:
                found[name if factor == 1 else f"{name} x2"] = measure(name, folder)
    found["spark_to_duckdb"] = found["spark"]["seconds"] / found["duckdb"]["seconds"]
    found["function_to_duckdb"] = found["function"]["seconds"] / found["duckdb"]["seconds"]
    found["memory_at_twice_the_input"] = {
        name: found[f"{name} x2"]["peak_mb"] / found[name]["peak_mb"] for name in ("function", "spark")
    }
    return found


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Merges all ledgers, by every contender."""
    return bench(DATA[0], 20, 1_000) if quick else bench(DATA[0], LEDGERS, ROWS)


def show(found: dict[str, Any]) -> None:
    """Prints a table."""
    print(f"merge of {found['ledgers']} ledgers x {found['rows_each']:,} messages (x2: twice as many)")
    print(f"{'':<14}{'seconds':>9}{'rows/s':>12}{'peak MB':>9}  notes")
    for name, run in found.items():
        if not isinstance(run, dict) or "seconds" not in run:
            continue
        notes = ", ".join(f"{key} {value:.1f}" for key, value in run.items() if key in ("session_start_s", "merges"))
        print(f"{name:<14}{run['seconds']:>9.1f}{run['rows'] / run['seconds']:>12,.0f}{run['peak_mb']:>9,.0f}  {notes}")
    print(f"spark / duckdb {found['spark_to_duckdb']:.2f}")
    print(f"function / duckdb {found['function_to_duckdb']:.2f}")
    for name, ratio in found["memory_at_twice_the_input"].items():
        print(f"{name}: memory at twice the input {ratio:.2f}")


def main() -> None:
    """Runs it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--data", type=Path, default=DATA[0])
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        print(json.dumps(contend(arguments.contender, arguments.folder)))
        return
    found = bench(arguments.data, arguments.ledgers, arguments.rows)
    show(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
