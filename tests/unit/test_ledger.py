"""Tests the ledger's format. Encoded rows decode unchanged, here and with other readers, and damage is always noticed.

The golden ledger is written anew by `TIDEWHEEL_UPDATE_GOLDEN=1 pytest tests/unit/test_ledger.py -k golden`.
"""

from __future__ import annotations

import io
import json
import os
import random
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidewheel.errors import CorruptLedger, InvalidValue
from tidewheel.ledger.ledger import SCHEMA, Ledger, LedgerWriter, decode_segment, encode_ledger, rows_table
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.checksum import sealed
from tidewheel.model.message import Encoding, id_floor
from tidewheel.model.plan import Segment

GOLDEN = Path(__file__).parent / "golden"
START_MS = 1_767_225_600_000
DAY_MS = 24 * 3600 * 1000
SLOT_MS = 300_000

Row = dict[str, Any]


# --- builders -------------------------------------------------------------------------------------------------


def a_row(deliver_at_ms: int = START_MS, number: int = 0, **changes: Any) -> Row:
    row = {
        "deliver_at_ms": deliver_at_ms,
        "message_id": number.to_bytes(16),
        "payload": b"hello",
        "encoding": Encoding.TEXT,
        "sent_at_ms": START_MS - 1000,
    }
    return dict.fromkeys(SCHEMA.names) | row | changes


def table_of(rows: list[Row]) -> pa.Table:
    return rows_table(**{name: [row[name] for row in rows] for name in SCHEMA.names})


def many_rows(count: int, *, span_ms: int = 60 * DAY_MS, payload_bytes: int = 300, seed: int = 1) -> pa.Table:
    random_ = random.Random(seed)
    times = sorted(START_MS + random_.randrange(span_ms) for _ in range(count))
    return rows_table(
        deliver_at_ms=times,
        message_id=[ms.to_bytes(6) + i.to_bytes(10) for i, ms in enumerate(times)],
        key=[f"order-{i}" if i % 3 else None for i in range(count)],
        attributes=[{"kind": f"k{i % 7}"} if i % 5 else None for i in range(count)],
        payload=[random_.randbytes(payload_bytes // 2).hex().encode() for _ in range(count)],
        encoding=[i % 3 for i in range(count)],
        sent_at_ms=[START_MS - i for i in range(count)],
        expires_at_ms=[ms + DAY_MS if i % 2 else None for i, ms in enumerate(times)],
        message_group=[None if i % 7 else "tenant-1" for i in range(count)],
    )


def encode(table: pa.Table, **changes: Any) -> Ledger:
    arguments: dict[str, Any] = {"topic": "orders", "generation": "g1", "slot_ms": SLOT_MS}
    return encode_ledger(sort_rows(table), **(arguments | changes))


def part(data: bytes, segment: Segment) -> bytes:
    return data[segment.offset : segment.offset + segment.length]


def decode(data: bytes, segment: Segment, **changes: Any) -> pa.Table:
    return decode_segment(part(data, segment), object_name="ledgers/orders/1.parquet", segment=segment, **changes)


def as_rows(table: pa.Table) -> list[Row]:
    # to_pylist() on fixed_size_binary is slow and on maps gives pairs.
    index = SCHEMA.get_field_index("message_id")
    table = table.set_column(index, "message_id", table.column("message_id").cast(pa.binary()))
    rows: list[Row] = table.to_pylist()
    return [row | {"attributes": None if row["attributes"] is None else dict(row["attributes"])} for row in rows]


def by_time(row: Row) -> tuple[int, bytes]:
    return row["deliver_at_ms"], row["message_id"]


def a_segment(pages_and_footer: bytes, **changes: Any) -> tuple[bytes, Segment]:
    """A range with a correct checksum, and a possible segment for the range."""
    data = sealed(pages_and_footer)
    segment = Segment(
        offset=4, length=len(data), rows=1, raw_bytes=1, first_deliver_at_ms=START_MS, last_deliver_at_ms=START_MS
    )
    return data, replace(segment, **changes)


# --- what is encoded is decoded -------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
payloads = st.one_of(
    st.binary(max_size=200),
    texts.map(str.encode),
    st.sampled_from([b"", b"\x00" * 1_048_576, b"PAR1", "\U0001f30a".encode() * 50_000]),
)
row_lists = st.lists(
    st.builds(
        a_row,
        st.integers(0, 30).map(lambda i: START_MS + 500 * i) | st.integers(0, START_MS + 3650 * DAY_MS),
        number=st.integers(0, 3) | st.integers(0, 2**128 - 1),
        key=st.none() | texts,
        attributes=st.none() | st.dictionaries(texts, texts, max_size=4),
        payload=payloads,
        encoding=st.sampled_from(Encoding),
        sent_at_ms=st.integers(0, 2**62),
        expires_at_ms=st.none() | st.integers(0, 2**62),
        message_group=st.none() | st.sampled_from(["tenant-1", "tenant-2"]),
    ),
    min_size=1,
    max_size=30,
)
cuts = st.fixed_dictionaries(
    {
        "slot_ms": st.sampled_from([1000, 60_000, SLOT_MS]),
        "segment_rows": st.integers(1, 40),
        "segment_bytes": st.sampled_from([None, 1, 200, 100_000]),
    }
)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@thorough
@given(row_lists, cuts)
def test_segments_read_alone_the_whole_file_and_the_summary_tell_the_sorted_rows(rows: list[Row], cut: Row) -> None:
    ledger = encode(table_of(rows), **cut)
    expected = sorted(rows, key=by_time)
    end = 4
    for segment in ledger.summary.segments:
        assert segment.offset == end
        end = segment.offset + segment.length
        run, expected = expected[: segment.rows], expected[segment.rows :]
        assert as_rows(decode(ledger.data, segment)) == run
        assert (segment.first_deliver_at_ms, segment.last_deliver_at_ms) == (
            run[0]["deliver_at_ms"],
            run[-1]["deliver_at_ms"],
        )
    assert expected == []
    whole = pq.read_table(pa.BufferReader(ledger.data))
    whole.validate(full=True)
    assert whole.schema.equals(SCHEMA)
    assert as_rows(whole) == sorted(rows, key=by_time)
    assert (ledger.summary.rows, ledger.summary.size_bytes) == (len(rows), len(ledger.data))
    assert list(ledger.summary.slots) == sorted({row["deliver_at_ms"] // cut["slot_ms"] for row in rows})


@thorough
@given(row_lists, cuts, st.lists(st.integers(1, 9), min_size=1))
def test_a_writer_gives_the_same_bytes_however_the_rows_are_batched(
    rows: list[Row], cut: Row, batches: list[int]
) -> None:
    arguments = {"topic": "orders", "generation": "g1", **cut, "segment_bytes": cut["segment_bytes"] or 500}
    table = table_of(sorted(rows, key=by_time))
    sink = io.BytesIO()
    writer = LedgerWriter(sink, **arguments)
    start = 0
    while start < table.num_rows:
        size = batches[start % len(batches)]
        writer.write(table.slice(start, size))
        start += size
    summary = writer.close()
    at_once = encode_ledger(sort_rows(table), **arguments)
    assert sink.getvalue() == at_once.data
    assert summary == at_once.summary


@pytest.mark.parametrize("count", [1, 2_000])
def test_duckdb_reads_the_whole_file_as_the_sorted_rows(tmp_path: Path, count: int) -> None:
    table = many_rows(count)
    path = tmp_path / "ledger.parquet"
    path.write_bytes(encode(table, segment_rows=300).data)
    connection = duckdb.connect()
    names = [name for name in SCHEMA.names if name != "attributes"]
    columns = ", ".join(names)
    read = connection.execute(
        f"select {columns}, map_keys(attributes), map_values(attributes) from read_parquet(?)", [str(path)]
    ).fetchall()
    expected = [
        (
            *(row[name] for name in names),
            None if row["attributes"] is None else list(row["attributes"].keys()),
            None if row["attributes"] is None else list(row["attributes"].values()),
        )
        for row in as_rows(table)
    ]
    assert read == expected


def test_a_segment_is_a_parquet_file_with_the_magic_in_front() -> None:
    table = many_rows(900)
    ledger = encode(table, segment_rows=300)
    second = ledger.summary.segments[1]
    read = pq.read_table(pa.BufferReader(b"PAR1" + part(ledger.data, second)))
    assert read.equals(table.slice(300, 300))


def test_only_the_columns_asked_for_are_returned() -> None:
    table = many_rows(10)
    ledger = encode(table)
    read = decode(ledger.data, ledger.summary.segments[0], columns=["payload", "message_id"])
    assert read.equals(table.select(["payload", "message_id"]))


def test_the_footer_names_schema_topic_generation_and_sources() -> None:
    ledger = encode(table_of([a_row()]), sources=["ledgers/a.parquet", "ledgers/é.parquet"])
    metadata = pq.ParquetFile(pa.BufferReader(ledger.data)).metadata
    assert metadata.created_by == "tidewheel version 1 (build 0)"
    assert metadata.metadata[b"tidewheel.schema_version"] == b"1"
    assert metadata.metadata[b"tidewheel.topic"] == b"orders"
    assert metadata.metadata[b"tidewheel.generation"] == b"g1"
    assert json.loads(metadata.metadata[b"tidewheel.sources"]) == ["ledgers/a.parquet", "ledgers/é.parquet"]


def test_the_footers_agree_with_those_that_pyarrow_writes() -> None:
    table = many_rows(500)
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    theirs = pq.ParquetFile(sink)
    ours = pq.ParquetFile(pa.BufferReader(encode(table).data))
    assert ours.schema.equals(theirs.schema)
    assert str(ours.schema).split("\n", 1)[1] == str(theirs.schema).split("\n", 1)[1]
    for i, name in enumerate(theirs.schema.names):
        assert ours.metadata.row_group(0).column(i).path_in_schema.endswith(name)
    assert [c.column_index for c in ours.metadata.row_group(0).sorting_columns] == [0, 1]


# --- where segments end ---------------------------------------------------------------------------------------


def test_a_segment_has_at_most_segment_rows_even_inside_one_slot() -> None:
    table = table_of([a_row(START_MS, i) for i in range(25)])
    ledger = encode(table, segment_rows=10, segment_bytes=1)
    assert [segment.rows for segment in ledger.summary.segments] == [10, 10, 5]


def test_a_segment_over_its_bytes_ends_only_with_its_slot() -> None:
    rows = [a_row(START_MS + (i // 7) * SLOT_MS, i) for i in range(28)]
    ledger = encode(table_of(rows), segment_bytes=1)
    assert [segment.rows for segment in ledger.summary.segments] == [7, 7, 7, 7]


def test_segments_have_about_the_bytes_asked_for() -> None:
    ledger = encode(many_rows(5_000, span_ms=10 * DAY_MS))
    lengths = [segment.length for segment in ledger.summary.segments[1:-1]]
    assert lengths
    assert all(50_000 < length < 90_000 for length in lengths)


@pytest.mark.parametrize("kind", ["key", "attributes"])
def test_keys_and_attributes_count_towards_a_segments_bytes(kind: str) -> None:
    random_ = random.Random(5)

    def noise() -> str:
        return random_.randbytes(400).hex()

    # The share learned on messages without them fits those with them only if they are weighed.
    plain = [a_row(START_MS + i * SLOT_MS, i, payload=noise().encode()) for i in range(100)]
    rich = [
        a_row(START_MS + i * SLOT_MS, i, payload=b"", **{kind: noise() if kind == "key" else {"a": noise()}})
        for i in range(100, 200)
    ]
    lengths = [segment.length for segment in encode(table_of(plain + rich), segment_bytes=8_192).summary.segments]
    assert all(length > 6_000 for length in lengths[1:-1])
    assert all(length < 14_000 for length in lengths)


def test_a_ledger_of_under_two_days_has_segments_of_16_kib() -> None:
    ledger = encode(many_rows(2_000, span_ms=DAY_MS))
    lengths = [segment.length for segment in ledger.summary.segments[1:-1]]
    assert lengths
    assert all(12_000 < length < 24_000 for length in lengths)


@pytest.mark.parametrize(("size", "rows"), [(1_048_576, [1, 1, 1, 1, 1]), (100_000, [2, 2, 1])])
def test_a_slot_of_large_messages_is_cut_so_that_a_segment_of_each_ledger_fits_in_memory(
    size: int, rows: list[int]
) -> None:
    ledger = encode(table_of([a_row(START_MS, i, payload=bytes(size)) for i in range(5)]))
    assert [segment.rows for segment in ledger.summary.segments] == rows


@thorough
@given(row_lists, cuts)
def test_a_segment_knows_its_first_id_if_it_begins_in_the_millisecond_in_which_the_one_before_ends(
    rows: list[Row], cut: Row
) -> None:
    ordered = [{**row, "message_id": row["deliver_at_ms"].to_bytes(6) + row["message_id"][6:]} for row in rows]
    ordered.sort(key=by_time)
    segments = encode(table_of(ordered), **cut).summary.segments
    first_ids = [ordered[start]["message_id"] for start in accumulate((s.rows for s in segments[:-1]), initial=0)]
    ended_ms = None
    for segment, first_id in zip(segments, first_ids, strict=True):
        tied = segment.first_deliver_at_ms == ended_ms
        assert segment.least_id == (first_id if tied else id_floor(segment.first_deliver_at_ms))
        ended_ms = segment.last_deliver_at_ms


# --- the same rows, the same bytes ----------------------------------------------------------------------------


def test_large_messages_written_one_at_a_time_give_the_same_bytes() -> None:
    # pyarrow checks the size of a page at the end of every chunk that it is given.
    arguments = {"topic": "t", "generation": "g", "slot_ms": SLOT_MS, "segment_rows": 2, "segment_bytes": 1 << 20}
    table = table_of([a_row(START_MS, i, payload=b"" if i % 2 else bytes(1_048_576)) for i in range(6)])
    sink = io.BytesIO()
    writer = LedgerWriter(sink, **arguments)
    for i in range(table.num_rows):
        writer.write(table.slice(i, 1))
    writer.close()
    assert sink.getvalue() == encode_ledger(sort_rows(table), **arguments).data


# --- refused input --------------------------------------------------------------------------------------------


def test_a_ledger_without_rows_is_refused() -> None:
    with pytest.raises(InvalidValue, match="at least one message"):
        encode(SCHEMA.empty_table())
    with pytest.raises(InvalidValue, match="at least one message"):
        LedgerWriter(io.BytesIO(), topic="t", generation="g", slot_ms=1).close()


def test_a_writer_refuses_rows_out_of_order() -> None:
    early, late = table_of([a_row(1)]), table_of([a_row(2)])
    writer = LedgerWriter(io.BytesIO(), topic="t", generation="g", slot_ms=1)
    writer.write(late)
    with pytest.raises(InvalidValue, match="sort them"):
        writer.write(early)
    with pytest.raises(InvalidValue, match="sort them"):
        writer.write(pa.concat_tables([table_of([a_row(2, 9)]), late]))


@pytest.mark.parametrize(
    "changes", [{"message_id": b"short"}, {"payload": "text"}, {"deliver_at_ms": None}, {"key": 7}, {"encoding": 999}]
)
def test_values_of_the_wrong_kind_are_refused_when_the_table_is_made(changes: Row) -> None:
    row = a_row() | changes
    if row["payload"] == "text":
        row["payload"] = 3.5
    with pytest.raises(InvalidValue):
        table_of([row])


def test_a_table_with_other_columns_is_refused() -> None:
    with pytest.raises(InvalidValue, match="not rows of a ledger"):
        encode_ledger(pa.table({"deliver_at_ms": [1]}), topic="orders", generation="g1", slot_ms=SLOT_MS)


# --- damage ---------------------------------------------------------------------------------------------------


unlike_its_bucket = pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rows": 4}, "3 rows instead of 4"),
        ({"first_deliver_at_ms": START_MS + 1}, "delivery times"),
        ({"last_deliver_at_ms": START_MS + 1}, "delivery times"),
        ({"length": 1}, "bytes instead of 1"),
    ],
)


@unlike_its_bucket
@pytest.mark.parametrize("columns", [None, ["payload"]])
def test_rows_that_are_not_what_the_bucket_says_are_noticed(
    changes: dict[str, int], reason: str, columns: list[str] | None
) -> None:
    ledger = encode(table_of([a_row(START_MS + i, i) for i in (0, 5, 9)]))
    (segment,) = ledger.summary.segments
    with pytest.raises(CorruptLedger, match=reason):
        decode_segment(
            part(ledger.data, segment), object_name="o", segment=replace(segment, **changes), columns=columns
        )


def test_a_parquet_file_with_other_columns_is_noticed() -> None:
    sink = io.BytesIO()
    version = {"tidewheel.schema_version": "1"}
    pq.write_table(pa.table({"deliver_at_ms": [START_MS]}).replace_schema_metadata(version), sink)
    data, segment = a_segment(sink.getvalue()[4:])
    with pytest.raises(CorruptLedger, match="columns are"):
        decode_segment(data, object_name="o", segment=segment)


def test_a_segment_of_another_schema_version_is_refused_by_name() -> None:
    ledger = encode(table_of([a_row()]))
    (segment,) = ledger.summary.segments
    tag = b"tidewheel.schema_version\x18\x01"
    data, _ = a_segment(part(ledger.data, segment)[4:].replace(tag + b"1", tag + b"2"))
    with pytest.raises(CorruptLedger, match="schema version is 2, this release reads 1"):
        decode_segment(data, object_name="o", segment=segment)


def test_the_error_names_the_object_and_the_range() -> None:
    ledger = encode(many_rows(20), segment_rows=10)
    segment = ledger.summary.segments[1]
    with pytest.raises(CorruptLedger) as caught:
        decode_segment(b"", object_name="ledgers/orders/1.parquet", segment=segment)
    error = caught.value
    assert error.object_name == "ledgers/orders/1.parquet"
    assert (error.first_byte, error.last_byte) == (segment.offset, segment.offset + segment.length - 1)
    assert f"bytes {segment.offset}-{segment.last_byte}" in str(error)


# --- the golden ledger ----------------------------------------------------------------------------------------


def golden_rows() -> list[Row]:
    return [
        a_row(START_MS, 1, payload=b"", encoding=Encoding.BYTES),
        a_row(START_MS, 2, payload='{"tide":"Flut \U0001f30a"}'.encode(), encoding=Encoding.JSON),
        a_row(START_MS + 1, 3, key="order-17", attributes={"kind": "reminder", "": "é"}),
        a_row(START_MS + DAY_MS, 4, attributes={}, expires_at_ms=START_MS + 2 * DAY_MS, message_group="tenant-1"),
        a_row(START_MS + DAY_MS, 2**128 - 1, key="", payload=b"ab" * 500),
        a_row(START_MS + 3650 * DAY_MS, 6, sent_at_ms=0, payload=bytes(range(256)), encoding=Encoding.BYTES),
    ]


def golden_ledger() -> Ledger:
    sources = ["ledgers/orders/a.parquet"]
    return encode(table_of(golden_rows()), segment_rows=2, sources=sources)


def test_the_golden_ledger_holds_the_known_rows() -> None:
    if os.environ.get("TIDEWHEEL_UPDATE_GOLDEN"):
        ledger = golden_ledger()
        (GOLDEN / "ledger_v1.parquet").write_bytes(ledger.data)
        record = {"pyarrow": pa.__version__, "segments": [asdict(s) for s in ledger.summary.segments]}
        (GOLDEN / "ledger_v1.json").write_text(json.dumps(record, indent=2) + "\n")
    data = (GOLDEN / "ledger_v1.parquet").read_bytes()
    record = json.loads((GOLDEN / "ledger_v1.json").read_text())
    read = [row for s in record["segments"] for row in as_rows(decode(data, Segment(**s)))]
    assert read == golden_rows()
    assert as_rows(pq.read_table(pa.BufferReader(data))) == golden_rows()


def test_the_golden_ledger_is_written_byte_for_byte_by_the_pyarrow_that_wrote_it() -> None:
    written_by = json.loads((GOLDEN / "ledger_v1.json").read_text())["pyarrow"]
    if written_by.split(".")[0] != pa.__version__.split(".")[0]:
        pytest.skip(f"written by pyarrow {written_by}, this is {pa.__version__}")
    assert golden_ledger().data == (GOLDEN / "ledger_v1.parquet").read_bytes()
