"""A ledger's own footer says what its bucket does, and damage of it never goes unnoticed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.errors import CorruptLedger
from tidewheel.ledger import SCHEMA, Ledger, encode_ledger, rows_table
from tidewheel.ledger_reader import segments_of, tags_of
from tidewheel.segment import Segment

START_MS = 1_767_225_600_000
DAY_MS = 24 * 3600 * 1000


def a_ledger(rows: int = 100, *, span_ms: int = 60 * DAY_MS, **changes: Any) -> Ledger:
    times = [START_MS + i * span_ms // rows for i in range(rows)]
    table = rows_table(
        deliver_at_ms=times,
        message_ids=[ms.to_bytes(6) + i.to_bytes(10) for i, ms in enumerate(times)],
        payloads=[b"payload %d" % i for i in range(rows)],
        encodings=[0] * rows,
        sent_at_ms=[START_MS] * rows,
    )
    arguments: dict[str, Any] = {"topic": "orders", "generation": "g1", "slot_ms": 300_000, "segment_rows": 7}
    return encode_ledger(table, **(arguments | changes))


def reads(data: bytes, asked: list[tuple[int, int]] | None = None) -> Callable[[int, int], bytes]:
    def read(offset: int, length: int) -> bytes:
        if asked is not None:
            asked.append((offset, length))
        assert offset >= 0
        return data[offset : offset + length]

    return read


def segments(data: bytes) -> tuple[Segment, ...]:
    return segments_of(reads(data), len(data), "ledgers/orders/1.parquet")


def without_raw_bytes(found: tuple[Segment, ...]) -> list[Segment]:
    return [replace(segment, raw_bytes=0) for segment in found]


@pytest.mark.parametrize("span_ms", [1, 5 * 60_000, 60 * DAY_MS, 3650 * DAY_MS])
@pytest.mark.parametrize("rows", [1, 7, 8, 3000])
def test_the_footer_has_the_same_segments_as_the_bucket(rows: int, span_ms: int) -> None:
    ledger = a_ledger(rows, span_ms=span_ms)
    found = segments(ledger.data)
    assert without_raw_bytes(found) == without_raw_bytes(ledger.summary.segments)
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


def test_an_object_that_is_shorter_than_the_listing_said_is_corrupt() -> None:
    data = a_ledger().data
    with pytest.raises(CorruptLedger):
        segments_of(reads(data), len(data) + 10, "any")


def test_a_parquet_file_that_is_no_ledger_is_corrupt() -> None:
    for table, reason in (
        (pa.table({"a": [1]}), "schema version is none"),
        (pa.table({"a": [1]}).replace_schema_metadata({"tidewheel.schema_version": "1"}), "columns are"),
        (pa.table({"a": [1]}).replace_schema_metadata({"tidewheel.schema_version": "2"}), "schema version is 2"),
        (SCHEMA.empty_table().replace_schema_metadata({"tidewheel.schema_version": "1"}), "first segment"),
    ):
        sink = io.BytesIO()
        pq.write_table(table, sink)
        with pytest.raises(CorruptLedger, match=reason):
            segments(sink.getvalue())


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_damage_of_the_footer_ends_in_another_error(data: st.DataObject) -> None:
    ledger = bytearray(a_ledger(30).data)
    footer = int.from_bytes(ledger[-8:-4], "little") + 8
    for _ in range(data.draw(st.integers(1, 4))):
        ledger[-data.draw(st.integers(1, footer))] = data.draw(st.integers(0, 255))
    try:
        found = segments(bytes(ledger))
        tags_of(reads(bytes(ledger)), len(ledger), "any")
    except CorruptLedger:
        return
    assert all(isinstance(each, Segment) and each.length > 0 for each in found)
