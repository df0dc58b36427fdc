"""Measures merges of many ledgers of real messages, by all engines, beside DuckDB and pyarrow.

    python -m benchmarks merge

A round runs each contender in turn, in a process of its own, on the same files. `duckdb` reads all files with two
threads, sorts by time and id, and writes one Parquet file with the same columns, codec and level. A pass over that file
takes a CRC-32, because ours has one of every byte. `pyarrow` does the same. `function` and `spark` run the whole flow,
choice and swaps included, over metadata in memory and objects in a folder. They write segments that can be read alone,
and drop copies. `threads` does the work of a job on one machine. The function has one core, all others have two. They
merge by the default settings, which rewrite each row of these ledgers once.

Time is from the first read to the last write, without imports and without the start of Spark's session, which is a
figure of its own. The first round, which compiles what it imports and reads files into the cache, does not count. A
ratio is ours divided by DuckDB's of the same round, and is reported as the median of five more rounds with its
quartiles. CPU time is that of the whole process tree in the same time. Memory is the tree's peak, the sum of resident
sets sampled every 50 ms.

A contender called `late` is the same where each GET takes 30 ms longer. Its ratio is to the same without.

One more run of the function gives its CPU time a row by step. Two more of ours each, on twice the input and on messages
that are due in one millisecond, show that memory stays where it was.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_ledger import DATA, SPAN_MS, START_MS
from benchmarks.process_memory import tree_cpu_s, watched
from benchmarks.rounds import spread_figures
from tests.folder_objects import FolderLocation, FolderObjects
from tidewheel.clock import ManualClock
from tidewheel.flows.maintenance.merge import Writer, in_process, merge
from tidewheel.flows.maintenance.merge_outputs import SideBySide
from tidewheel.jobs.tasks import InThreads
from tidewheel.ledger.bucket import Bucket, bucket_id, content_id
from tidewheel.ledger.ledger import encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.memory import MemoryService
from tidewheel.model.message import Encoding
from tidewheel.model.object_names import ledger_name
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.storage.read_ahead import THREADS

CORES = 2
LEDGERS, ROWS = 300, 14_000
ROUNDS = 5
SETTINGS = TopicSettings()


def make_ledgers(folder: Path, ledgers: int, rows: int, span_ms: int = SPAN_MS) -> None:
    """Writes ledgers of messages drawn at random, due at random within a time, and their buckets beside them."""
    random_ = random.Random(17)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        payloads = [json.dumps(json.loads(line)["payload"], ensure_ascii=False).encode()[:-1] for line in lines]
    objects = FolderLocation(root=str(folder)).objects()
    buckets: list[Bucket] = []
    for number in range(ledgers):
        times = sorted(START_MS + random_.randrange(span_ms) for _ in range(rows))
        # Each message has a number, because a dictionary would hold equal ones once.
        drawn = random_.choices(payloads, k=rows)
        table = rows_table(
            deliver_at_ms=times,
            message_id=[ms.to_bytes(6) + random_.randbytes(10) for ms in times],
            payload=[b'%b, "number": %d}' % (each, number * rows + i) for i, each in enumerate(drawn)],
            encoding=[Encoding.JSON] * rows,
            sent_at_ms=[START_MS - random_.randrange(300_000) for _ in range(rows)],
        )
        ledger = encode_ledger(sort_rows(table), topic="t", generation="g", slot_ms=SETTINGS.slot_ms)
        id = bucket_id(ledger.summary.slots.min(), content_id(ledger.data))
        name = ledger_name("t", id, SETTINGS.slot_ms, objects.new_attempt())
        objects.put(name, ledger.data)
        buckets.append(ledger.summary.bucket(id, name))
    (folder / "buckets.pickle").write_bytes(pickle.dumps(buckets))


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Adds seconds and CPU time a row to figures, in which the caller sets the rows."""
    figures: dict[str, float] = {}
    cpu_before_s, before = tree_cpu_s(os.getpid()), time.perf_counter()
    yield figures
    seconds = time.perf_counter() - before
    cpu_s = tree_cpu_s(os.getpid()) - cpu_before_s
    figures |= {"seconds": seconds, "cpu_us_a_row": cpu_s / figures["rows"] * 1e6}


LATENCY_S = 0.03
"""S3's time for the first byte of an answer, as a rule."""


class LateObjects(FolderObjects):
    """Objects in a folder, each range of which comes LATENCY_S late, as S3's do."""

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Waits, and reads."""
        time.sleep(LATENCY_S)
        return super().get_range(name, offset, length)


def run_flow(folder: Path, writer: Writer, buckets: list[Bucket]) -> dict[str, float]:
    """Merges by the flow, and as by `merge --all` if the settings would leave so few ledgers alone."""
    everything = len(buckets) <= SETTINGS.max_buckets
    clock = ManualClock(START_MS - 3_600_000)
    service = MemoryService.at(clock)
    object.__setattr__(service, "objects", FolderLocation(root=str(folder)).objects())
    state = new_topic_state("t", "g", SETTINGS, clock.now_ms())
    service.topic_states.create(state)
    for bucket in buckets:
        service.buckets.commit(state, bucket, None)
    with measured() as figures:
        merged = merge(service, "t", writer, lease_s=900, everything=everything)
        assert merged is not None
        figures["rows"] = merged.rows
    left = service.buckets.all("t")
    return figures | {"merges": merged.merges, "ledgers_left": len(left)}


def run_function(folder: Path, buckets: list[Bucket], objects: type[FolderObjects] = FolderObjects) -> dict[str, float]:
    """The function's engine."""
    return run_flow(folder, in_process(objects(folder), THREADS), buckets)


def run_spark(folder: Path, buckets: list[Bucket], objects: type[FolderObjects] = FolderObjects) -> dict[str, float]:
    """Spark's engine."""
    from tidewheel.spark.session import local_session
    from tidewheel.spark.tasks import OnSpark

    before = time.perf_counter()
    spark = local_session(CORES, memory_mb=1024)
    spark.sparkContext.parallelize(range(CORES), CORES).map(_import_engine).collect()
    start = time.perf_counter() - before
    try:
        engine = SideBySide(tasks=lambda _: OnSpark(lambda: spark), objects=partial(objects, folder))
        return run_flow(folder, engine, buckets) | {"session_start_s": start}
    finally:
        spark.stop()


def run_threads(folder: Path, buckets: list[Bucket], objects: type[FolderObjects] = FolderObjects) -> dict[str, float]:
    """The engine of a job on one machine."""
    engine = SideBySide(tasks=lambda _: InThreads(CORES), objects=partial(objects, folder))
    return run_flow(folder, engine, buckets)


def _import_engine(_: int) -> str:
    import tidewheel.flows.maintenance.merge_rows

    return tidewheel.flows.maintenance.merge_rows.__name__


def run_pyarrow(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """Reads all, sorts, writes a file, and reads the file for a CRC-32."""
    pa.set_cpu_count(CORES)
    with measured() as figures:
        tables = [pq.read_table(folder / bucket.object_name, partitioning=None) for bucket in buckets]
        table = pa.concat_tables(tables).sort_by([("deliver_at_ms", "ascending")])
        pq.write_table(table, folder / "pyarrow.parquet", compression="zstd", compression_level=1)
        crc_of(folder / "pyarrow.parquet")
        figures["rows"] = table.num_rows
    return figures


def run_duckdb(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """Sorts all into a file, and reads the file for a CRC-32."""
    import duckdb

    duckdb.execute(f"SET threads = {CORES}")
    files = [str(folder / bucket.object_name) for bucket in buckets]
    with measured() as figures:
        duckdb.execute(
            f"COPY (SELECT * FROM read_parquet(?) ORDER BY deliver_at_ms, message_id) TO '{folder}/duckdb.parquet' "
            "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)",
            [files],
        )
        crc_of(folder / "duckdb.parquet")
        figures["rows"] = sum(bucket.rows for bucket in buckets)
    return figures


def crc_of(path: Path) -> int:
    """Returns a file's CRC-32."""
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return crc


STEPS = {
    "read": ("tests.folder_objects.FolderObjects.get_range",),
    "checksums": ("tidewheel.model.checksum.check", "tidewheel.ledger.writer.seal_of"),
    "decode": ("tidewheel.flows.maintenance.merge_rows.decode_segment",),
    "sort": (
        "tidewheel.flows.maintenance.merge_rows.sorted_order",
        "tidewheel.flows.maintenance.merge_rows.taken",
    ),
    "cut": ("tidewheel.ledger.writer.LedgerWriter.write",),
    "encode": ("tidewheel.ledger.writer._RowGroups.add",),
    "footers": ("tidewheel.ledger.writer.LedgerWriter._flush", "tidewheel.ledger.writer.LedgerWriter.close"),
    "write": ("tidewheel.ledger.writer.LedgerWriter._put",),
}
"""The functions of each step of a merge. A step within another counts for itself only."""


def run_steps(folder: Path, buckets: list[Bucket]) -> dict[str, float]:
    """The function's engine, with the CPU time a row of each step."""
    spent: dict[str, float] = defaultdict(float)
    running = ["other"]
    last = time.process_time()

    def change() -> None:
        nonlocal last
        now = time.process_time()
        spent[running[-1]] += now - last
        last = now

    def timed(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            change()
            running.append(step)
            try:
                return function(*args, **kwargs)
            finally:
                change()
                running.pop()

        return call

    with ExitStack() as patches:
        for step, names in STEPS.items():
            for name in names:
                patcher = patch(name, autospec=False)
                patcher.new = timed(step, patcher.get_original()[0])
                patches.enter_context(patcher)
        last = time.process_time()
        rows = run_function(folder, buckets)["rows"]
        change()
    return {step: seconds / rows * 1e6 for step, seconds in spent.items()}


CONTENDERS = {
    "duckdb": run_duckdb,
    "function": run_function,
    "threads": run_threads,
    "spark": run_spark,
    "pyarrow": run_pyarrow,
    "steps": run_steps,
    "function late": partial(run_function, objects=LateObjects),
    "threads late": partial(run_threads, objects=LateObjects),
    "spark late": partial(run_spark, objects=LateObjects),
}
OURS = ("function", "threads", "spark")
LATE = tuple(f"{name} late" for name in OURS)


def contend(name: str, folder: Path) -> None:
    """Runs a contender here and prints the figures."""
    buckets = pickle.loads((folder / "buckets.pickle").read_bytes())
    print(json.dumps(CONTENDERS[name](folder, buckets)))


def measure(name: str, folder: Path) -> dict[str, float]:
    """Runs a contender in a process of its own, and deletes the written files."""
    before = set(folder.rglob("*.parquet"))
    command = [sys.executable, "-m", "benchmarks.bench_merge", name, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, watched(process.pid) as peak:
        output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} failed")
    for written in set(folder.rglob("*.parquet")) - before:
        written.unlink()
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found | {"peak_mb": peak.megabytes}


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Runs the rounds, a run for the steps, and each of our engines at twice the input."""
    ledgers, rows, rounds = (20, 1_000, 2) if quick else (LEDGERS, ROWS, ROUNDS)
    names = ("duckdb", *OURS, *LATE, "pyarrow")
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        make_ledgers(Path(folder), ledgers, rows)
        _, *runs = [{name: measure(name, Path(folder)) for name in names} for _ in range(1 + rounds)]
        steps = measure("steps", Path(folder))
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        make_ledgers(Path(folder), 2 * ledgers, rows)
        twice = {name: measure(name, Path(folder)) for name in OURS}
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        make_ledgers(Path(folder), ledgers, rows, span_ms=1)
        tied = {name: measure(name, Path(folder)) for name in OURS}
    contenders = {
        name: {figure: median(each[name][figure] for each in runs) for figure in runs[0][name]} for name in names
    }
    ratios: dict[str, object] = {}
    for name in (*OURS, "pyarrow"):
        ratios |= spread_figures(
            f"{name}_to_duckdb", [each[name]["seconds"] / each["duckdb"]["seconds"] for each in runs]
        )
    for name in OURS:
        ratios |= spread_figures(
            f"{name}_late_to_{name}", [each[f"{name} late"]["seconds"] / each[name]["seconds"] for each in runs]
        )
    return {
        "ledgers": ledgers,
        "rows_each": rows,
        "rounds": rounds,
        **ratios,
        **{f"{name}_memory_at_twice_the_input": twice[name]["peak_mb"] / contenders[name]["peak_mb"] for name in OURS},
        **{f"{name}_memory_in_one_millisecond": tied[name]["peak_mb"] / contenders[name]["peak_mb"] for name in OURS},
        "contenders": contenders
        | {f"{name} x2": figures for name, figures in twice.items()}
        | {f"{name} tied": figures for name, figures in tied.items()},
        "function_cpu_us_a_row_by_step": {step: us for step, us in steps.items() if step != "peak_mb"},
    }


if __name__ == "__main__":
    contend(sys.argv[1], Path(sys.argv[2]))
