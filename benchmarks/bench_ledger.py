"""Measures the time to encode and decode a ledger, and the size, beside plain Parquet.

    python -m benchmarks ledger

Real messages, copied until there are 50,000, with fresh ids and times over 60 days. `replay` keeps their order and
moves each copy by a part of the 60 days; `shuffled` draws them at random, so that neighbours have nothing in common:
the worst case for compression. Rounds are interleaved, figures are medians; time is this process's CPU time, which
other programs on the machine disturb least (everything measured runs on one thread).

An encode has three floors, all Arrow's own writer at zstd's level 1. `alike` is like for like: the same columns,
encodings, codecs and row groups, and a CRC-32 of the result. What ours does beyond it: it checks the order, finds the
ends of segments, and writes two footers. `bare` is Arrow's defaults, dictionaries included, in one row group. `lean` is
`bare` without dictionaries. The floor of a decode is Arrow's own read of a plain Parquet file with the same rows.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rounds import cpu_ms, interleaved
from tidewheel.ledger.footer import LEAVES
from tidewheel.ledger.ledger import Ledger, decode_segment, encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.message import Encoding

DATA = Path(__file__).resolve().parents[1] / "examples/messages.jsonl.gz"
SPAN_MS = 60 * 24 * 3600 * 1000
START_MS = 1_767_225_600_000
_LEAF_NAMES = [".".join(leaf.path) for leaf in LEAVES]
ROWS, RUNS = 50_000, 15


def messages(rows: int, order: str) -> pa.Table:
    """Returns real messages as sorted rows."""
    random_ = random.Random(17)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
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
        message_id=[id_ for _, id_, _ in rows_],
        payload=[payload for _, _, payload in rows_],
        encoding=[Encoding.JSON] * rows,
        sent_at_ms=[START_MS - random_.randrange(3_600_000) for _ in range(rows)],
    )


def plain_parquet(table: pa.Table, **options: Any) -> pa.Buffer:
    """Returns rows as Arrow writes them by itself."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=1, **options)
    return sink.getvalue()


def alike(table: pa.Table, row_groups: list[int]) -> int:
    """Writes the columns as a ledger stores them, in row groups of so many rows. Returns the CRC-32."""
    sink = pa.BufferOutputStream()
    # The messages have no keys and no attributes. A ledger does not compress columns without values.
    compressed = ["payload"]
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression={name: "ZSTD" if name in compressed else "NONE" for name in _LEAF_NAMES},
        compression_level=dict.fromkeys(compressed, 1),
        column_encoding={name: leaf.storage.encoding.name for name, leaf in zip(_LEAF_NAMES, LEAVES, strict=True)},
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        start = 0
        for rows in row_groups:
            writer.write_table(table.slice(start, rows), row_group_size=rows)
            start += rows
    return zlib.crc32(sink.getvalue())


def encode(table: pa.Table, segment_bytes: int | None = None) -> Ledger:
    """Encodes rows as ingest does."""
    return encode_ledger(
        sort_rows(table), topic="commits", generation="1", slot_ms=300_000, segment_bytes=segment_bytes
    )


def measure(table: pa.Table, runs: int) -> dict[str, object]:
    """Returns every figure."""
    rows = table.num_rows
    ledger = encode(table)
    row_groups = [segment.rows for segment in ledger.summary.segments]
    lean = {"use_dictionary": False, "write_statistics": ["deliver_at_ms"], "store_schema": False}
    encodes = interleaved(
        runs,
        cpu_ms,
        {
            "bare": lambda: plain_parquet(table),
            "lean": lambda: plain_parquet(table, **lean),
            "alike": lambda: alike(table, row_groups),
            "ours": lambda: encode(table),
        },
    )
    return {
        "rows": rows,
        "segments": len(ledger.summary.segments),
        "encode_ms": encodes.median_ms("ours"),
        "alike_write_ms": encodes.median_ms("alike"),
        **encodes.ratio("encode_ratio_like_for_like", "alike", "ours"),
        "bare_write_ms": encodes.median_ms("bare"),
        **encodes.ratio("encode_ratio", "bare", "ours"),
        "lean_write_ms": encodes.median_ms("lean"),
        **encodes.ratio("encode_ratio_to_lean_write", "lean", "ours"),
        **decoding(table, ledger, runs),
        "bytes_a_message": ledger.summary.size_bytes / rows,
        "bytes_a_message_bare": plain_parquet(table).size / rows,
        "footers_share": 1 - sum(pages_bytes(ledger.data)) / ledger.summary.size_bytes,
    }


def decoding(table: pa.Table, ledger: Ledger, runs: int) -> dict[str, object]:
    """Returns the times to decode 5,000 rows, and a segment as ingest makes them."""
    large = encode(table.slice(0, 5_000), segment_bytes=1 << 30)
    data = memoryview(large.data)
    whole = [(each, data[each.offset : each.last_byte + 1]) for each in large.summary.segments]
    plain = plain_parquet(table.slice(0, 5_000))
    typical = ledger.summary.segments[len(ledger.summary.segments) // 2]
    part = ledger.data[typical.offset : typical.offset + typical.length]
    decodes = interleaved(
        5 * runs,
        cpu_ms,
        {
            "bare": lambda: pq.read_table(pa.BufferReader(plain), use_threads=False),
            "ours": lambda: [decode_segment(part, object_name="ledger", segment=each) for each, part in whole],
            "typical": lambda: decode_segment(part, object_name="ledger", segment=typical),
        },
        warmups=5,
    )
    return {
        "decode_5000_rows_ms": decodes.median_ms("ours"),
        "bare_read_5000_rows_ms": decodes.median_ms("bare"),
        **decodes.ratio("decode_ratio", "bare", "ours"),
        "decode_typical_segment_ms": decodes.median_ms("typical"),
        "typical_segment_rows": typical.rows,
        "bytes_a_message_at_5000_rows": large.summary.size_bytes / 5_000,
    }


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures in the stream's own order, and the size in the worst order, too."""
    rows, runs = (5_000, 3) if quick else (ROWS, RUNS)
    shuffled = encode(messages(rows, "shuffled"))
    found = measure(messages(rows, "replay"), runs)
    return found | {"bytes_a_message_shuffled": shuffled.summary.size_bytes / rows}


def pages_bytes(data: bytes) -> list[int]:
    """Returns the bytes of each row group's pages. The rest of the ledger is footers."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    return [
        sum(metadata.row_group(i).column(j).total_compressed_size for j in range(metadata.num_columns))
        for i in range(metadata.num_row_groups)
    ]
