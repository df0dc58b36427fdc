"""A ledger's own footer agrees with its bucket, and damage of the footer is always noticed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidewheel.errors import CorruptLedger
from tidewheel.ledger.ledger import Ledger, encode_ledger, rows_table
from tidewheel.ledger.reader import segments_of, tags_of
from tidewheel.ledger.rows import SCHEMA, sort_rows
from tidewheel.model.checksum import sealed
from tidewheel.model.plan import Segment

START_MS = 1_767_225_600_000
DAY_MS = 24 * 3600 * 1000


def a_ledger(rows: int = 100, *, span_ms: int = 60 * DAY_MS, **changes: Any) -> Ledger:
    times = [START_MS + i * span_ms // rows for i in range(rows)]
    table = rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + i.to_bytes(10) for i, ms in enumerate(times)],
        payload=[b"payload %d" % i for i in range(rows)],
        encoding=[0] * rows,
        sent_at_ms=[START_MS] * rows,
    )
    arguments: dict[str, Any] = {"topic": "orders", "generation": "g1", "slot_ms": 300_000, "segment_rows": 7}
    return encode_ledger(sort_rows(table), **(arguments | changes))


def reads(data: bytes, asked: list[tuple[int, int]] | None = None) -> Callable[[int, int], bytes]:
    def read(offset: int, length: int) -> bytes:
        if asked is not None:
            asked.append((offset, length))
        assert offset >= 0
        return data[offset : offset + length]

    return read


def segments(data: bytes) -> tuple[Segment, ...]:
    return segments_of(reads(data), len(data), "ledgers/orders/1.parquet")


def ending_of(data: bytes) -> int:
    """Returns where the checksum of the footer stands."""
    return len(data) - 12 - int.from_bytes(data[-8:-4], "little")


def with_a_right_checksum(parquet: bytes) -> bytes:
    """Returns a Parquet file with its footer sealed as in a ledger."""
    footer = ending_of(parquet) + 4
    return parquet[:footer] + sealed(parquet[footer:])


def in_the_footer(found: tuple[Segment, ...]) -> list[Segment]:
    return [replace(segment, raw_bytes=0, first_tail=0) for segment in found]


@pytest.mark.parametrize("span_ms", [1, 5 * 60_000, 60 * DAY_MS, 3650 * DAY_MS])
@pytest.mark.parametrize("rows", [1, 7, 8, 3000])
def test_the_footer_has_the_same_segments_as_the_bucket(rows: int, span_ms: int) -> None:
    ledger = a_ledger(rows, span_ms=span_ms)
    found = segments(ledger.data)
    assert in_the_footer(found) == in_the_footer(ledger.summary.segments)
    assert all(mine.raw_bytes > 0 for mine in found)


def test_a_small_footer_takes_one_read_and_a_large_one_two() -> None:
    for rows, most in ((100, 1), (5000, 2)):
        ledger, asked = a_ledger(rows), []
        found = segments_of(reads(ledger.data, asked), len(ledger.data), "any")
        assert len(found) == len(ledger.summary.segments)
        assert len(asked) == most, len(ledger.summary.segments)


def test_the_tags_are_those_it_was_written_with() -> None:
    ledger = a_ledger(sources=["ledgers/orders/a", "ledgers/orders/b"])
    tags = tags_of(reads(ledger.data), len(ledger.data), "any")
    assert tags["tidewheel.topic"] == "orders"
    assert tags["tidewheel.generation"] == "g1"
    assert tags["tidewheel.sources"] == '["ledgers/orders/a", "ledgers/orders/b"]'
    assert tags["tidewheel.schema_version"] == "1"


@pytest.mark.parametrize("size", [0, 1, 7, 8, 12, 100, -1, -8, -100])
def test_a_ledger_cut_short_is_corrupt(size: int) -> None:
    data = a_ledger().data[:size]
    with pytest.raises(CorruptLedger, match=r"ledgers/orders/1\.parquet"):
        segments(data)


def test_a_parquet_file_that_is_no_ledger_is_corrupt() -> None:
    for table, reason in (
        (pa.table({"a": [1]}), "schema version is none"),
        (pa.table({"a": [1]}).replace_schema_metadata({"tidewheel.schema_version": "1"}), "columns are"),
        (pa.table({"a": [1]}).replace_schema_metadata({"tidewheel.schema_version": "2"}), "schema version is 2"),
        (SCHEMA.empty_table().replace_schema_metadata({"tidewheel.schema_version": "1"}), "first segment"),
    ):
        sink = io.BytesIO()
        pq.write_table(table, sink)
        with pytest.raises(CorruptLedger, match="the checksum does not match"):
            segments(sink.getvalue())
        with pytest.raises(CorruptLedger, match=reason):
            segments(with_a_right_checksum(sink.getvalue()))


def test_a_footer_longer_than_any_is_not_read() -> None:
    asked: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return bytes(length - 8) + (2**31).to_bytes(4, "little") + b"PAR1"

    with pytest.raises(CorruptLedger, match="does not fit"):
        segments_of(read, 2**40, "any")
    assert sum(length for _, length in asked) <= 64 * 1024
