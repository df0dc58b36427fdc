"""What a ledger costs: time to encode and to decode it, and its size, beside plain Parquet.

    python benchmarks/bench_ledger.py [--data commits.jsonl.gz] [--order replay|shuffled] [--json FILE]

Real messages, copied until there are 50,000, with fresh ids and times over 60 days. `replay` keeps their order and
moves each copy by a part of the 60 days; `shuffled` draws them at random, so that neighbours have nothing in common:
the worst case for compression. Runs alternate, figures are medians; time is this process's CPU time, which other
programs on the machine disturb least (everything measured runs on one thread).
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidewheel.ledger import SCHEMA, Ledger, decode_segment, encode_ledger, rows_table
from tidewheel.message import Encoding

ROOT = Path(__file__).resolve().parents[1]
DATA = (ROOT / "../shared/data/commits.jsonl.gz", ROOT / "examples/messages.jsonl.gz")
SPAN_MS = 60 * 24 * 3600 * 1000
START_MS = 1_767_225_600_000
GOALS = {"encode_ratio": 0.7, "decode_5000_rows_ms": 7.0, "bytes_a_message": 125.0}


def messages(path: Path, rows: int, order: str) -> pa.Table:
    """Returns real messages as sorted rows."""
    random_ = random.Random(17)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    timed: list[tuple[int, bytes]] = []
    for i in range(rows):
        copy, at = divmod(i, len(read))
        payload = json.dumps(read[at]["payload"], ensure_ascii=False, separators=(",", ":")).encode()
        offset_ms = read[at]["offset_s"] * 1000 + random_.randrange(1000) + copy * SPAN_MS * 5 // 18
        timed.append((START_MS + offset_ms % SPAN_MS, payload))
    if order == "shuffled":
        payloads = [payload for _, payload in timed]
        random_.shuffle(payloads)
        timed = [(START_MS + random_.randrange(SPAN_MS), payload) for payload in payloads]
    timed.sort()
    rows_ = sorted((ms, ms.to_bytes(6) + random_.randbytes(10), payload) for ms, payload in timed)
    return rows_table(
        deliver_at_ms=[ms for ms, _, _ in rows_],
        message_ids=[id_ for _, id_, _ in rows_],
        payloads=[payload for _, _, payload in rows_],
        encodings=[Encoding.JSON] * rows,
        sent_at_ms=[START_MS - random_.randrange(3_600_000) for _ in range(rows)],
    )


def plain_parquet(table: pa.Table, **options: Any) -> int:
    """Writes rows as Arrow does by itself, and returns the size."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=1, **options)
    return int(sink.tell())


def encode(table: pa.Table, segment_bytes: int | None = None) -> Ledger:
    """Encodes rows as ingest does."""
    return encode_ledger(table, topic="commits", generation="1", slot_ms=300_000, segment_bytes=segment_bytes)


def alternate(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Returns the median CPU milliseconds of each action, run in turns."""
    times: list[list[float]] = [[] for _ in actions]
    for run in range(runs + 2):
        for action, own in zip(actions, times, strict=True):
            before = time.process_time_ns()
            action()
            if run >= 2:
                own.append((time.process_time_ns() - before) / 1e6)
    return [statistics.median(own) for own in times]


def measure(table: pa.Table, runs: int) -> dict[str, float]:
    """Returns every figure."""
    rows = table.num_rows
    ledger = encode(table)
    lean = {"use_dictionary": False, "write_statistics": ["deliver_at_ms"], "store_schema": False}
    bare_ms, lean_ms, ours_ms = alternate(
        runs,
        lambda: plain_parquet(table),
        lambda: plain_parquet(table, **lean),
        lambda: encode(table),
    )
    large = encode(table.slice(0, 5_000), segment_bytes=1 << 30)
    (segment,) = large.summary.segments
    whole = large.data[segment.offset : segment.offset + segment.length]
    typical = ledger.summary.segments[len(ledger.summary.segments) // 2]
    part = ledger.data[typical.offset : typical.offset + typical.length]
    large_ms, typical_ms = alternate(
        5 * runs,
        lambda: decode_segment(whole, object_name="ledger", segment=segment),
        lambda: decode_segment(part, object_name="ledger", segment=typical),
    )
    return {
        "rows": rows,
        "segments": len(ledger.summary.segments),
        "encode_ms": ours_ms,
        "bare_write_ms": bare_ms,
        "encode_ratio": bare_ms / ours_ms,
        "lean_write_ms": lean_ms,
        "encode_ratio_to_lean_write": lean_ms / ours_ms,
        "decode_5000_rows_ms": large_ms,
        "decode_typical_segment_ms": typical_ms,
        "typical_segment_rows": typical.rows,
        "bytes_a_message": ledger.summary.size_bytes / rows,
        "bytes_a_message_at_5000_rows": large.summary.size_bytes / 5_000,
        "bytes_a_message_bare": plain_parquet(table) / rows,
        "footers_share": 1 - sum(pages_bytes(ledger.data)) / ledger.summary.size_bytes,
    }


def pages_bytes(data: bytes) -> list[int]:
    """Returns the bytes of each row group's pages; the rest of the ledger is footers."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    return [
        sum(metadata.row_group(i).column(j).total_compressed_size for j in range(metadata.num_columns))
        for i in range(metadata.num_row_groups)
    ]


def main() -> None:
    """Prints the figures, each with its goal."""
    parser = argparse.ArgumentParser(description="What a ledger costs, beside plain Parquet.")
    parser.add_argument("--data", type=Path, default=next((path for path in DATA if path.exists()), DATA[-1]))
    parser.add_argument("--order", choices=("replay", "shuffled"), default="replay")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    table = messages(arguments.data, arguments.rows, arguments.order)
    assert table.schema.equals(SCHEMA)
    figures = measure(table, arguments.runs)
    print(f"{arguments.order}; pyarrow {pa.__version__}, Python {platform.python_version()}")
    for name, value in figures.items():
        goal = GOALS.get(name)
        print(f"{name:32}{value:12.4g}" + (f"   goal {goal:g}" if goal else ""))
    if arguments.json:
        arguments.json.write_text(json.dumps({"order": arguments.order, **figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
