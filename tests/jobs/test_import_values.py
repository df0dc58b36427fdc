"""Values of every type. Corrected rejects give the same messages, and an invalid value affects only its row."""

from __future__ import annotations

import csv
import json
import random
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.world import DAY, HOUR, START_MS
from tests.jobs.test_import import Bench, bench, due, json_lines
from tests.sampling import some_of
from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing import parts
from tidewheel.model.message import Encoding

__all__ = ["bench"]

AT_MS = START_MS + 2 * HOUR
LATER_US = (START_MS + 9 * DAY) * 1000
Sent = list[tuple[Any, ...]]


# --- builders -------------------------------------------------------------------------------------------------


def sent(bench: Bench) -> Sent:
    """Returns all messages without ids."""
    names = ("payload", "encoding", "key", "attributes", "expires_at_ms", "deliver_at_ms")
    return sorted((tuple(row[name] for name in names) for row in bench.rows()), key=repr)


def rejected_lines(folder: Path) -> list[str]:
    return [
        line for part in sorted(folder.glob("*.json")) for line in part.read_text(encoding="utf-8").split("\n") if line
    ]


def corrected(line: str, column: str = "deliver_at", value: str = json.dumps(due(2 * HOUR))) -> str:
    """Returns a rejected line with a column's value replaced, and the rest byte for byte."""
    decoder, at = json.JSONDecoder(parse_int=str, parse_float=str), line.index(f'"{column}": ') + len(column) + 4
    _, end = decoder.raw_decode(line, at)
    return line[:at] + value + line[end:]


def imported_again(bench: Bench, rejects: Path, **options: str) -> Sent:
    """Imports the corrected rejects. Returns the sent messages."""
    path = bench.folder / "corrected.json"
    path.write_text("".join(corrected(line) + "\n" for line in rejected_lines(rejects)), encoding="utf-8")
    report = bench.run(path, **options)
    assert (dict(report.rejected), report.failed) == ({}, {})
    return sent(bench)


def text(random_: random.Random) -> str:
    characters = ['"', "\\", "\n", "\r\n", "\t", "\ufeff", "é", "😀", "{", "'", ",", " ", "a", "0", "\u2028", "\x7f"]
    return "x" + "".join(random_.choices(characters, k=random_.randrange(12)))


def number(random_: random.Random) -> Decimal:
    return Decimal(random_.randrange(10**22)).scaleb(-2)


VALUES: list[tuple[pa.DataType, Callable[[random.Random], Any]]] = [
    (pa.string(), text),
    (pa.large_string(), text),
    (pa.dictionary(pa.int32(), pa.string()), lambda r: r.choice(["a", "é", '"'])),
    (pa.int64(), lambda r: r.randrange(-(2**63), 2**63)),
    (pa.uint64(), lambda r: r.randrange(2**64)),
    (pa.int8(), lambda r: r.randrange(-128, 128)),
    (pa.float64(), lambda r: r.uniform(-1, 1) * 10 ** r.randrange(-20, 20)),
    (pa.float32(), lambda r: struct.unpack("f", struct.pack("f", r.uniform(-9, 9)))[0]),
    (pa.float16(), lambda r: r.randrange(9) / 2),
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.decimal128(38, 2), number),
    (pa.decimal256(60, 2), number),
    (pa.uuid(), lambda r: UUID(int=r.getrandbits(128)).bytes),
    (pa.json_(), lambda r: json.dumps({"a": text(r)})),
    (pa.bool8(), lambda r: r.randrange(2)),
]
"""Types of one value, which are keys and in nested bodies."""
NESTED: list[tuple[pa.DataType, Callable[[random.Random], Any]]] = [
    (pa.binary(), lambda r: r.randbytes(r.randrange(9))),
    (pa.large_binary(), lambda r: r.randbytes(3)),
    (pa.binary(4), lambda r: r.randbytes(4)),
    (pa.date32(), lambda r: date(2026, 1, 1) + timedelta(r.randrange(9999))),
    (pa.date64(), lambda r: date(2026, 1, 1) + timedelta(r.randrange(9999))),
    (pa.time32("ms"), lambda r: time(1, 2, r.randrange(60), 3000)),
    (pa.time64("us"), lambda r: time(1, 2, r.randrange(60), 3)),
    (pa.duration("us"), lambda r: timedelta(microseconds=r.randrange(10**12))),
    *(
        (pa.timestamp(unit, zone), lambda r: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=r.randrange(10**8)))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+05:45")
    ),
]


def column(random_: random.Random, type_: pa.DataType, value: Callable[[random.Random], Any], rows: int) -> pa.Array:
    values = [None if random_.random() < 0.1 else value(random_) for _ in range(rows)]
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
    if pa.types.is_float16(type_):
        return pa.array(values, pa.float32()).cast(type_)
    return pa.array(values, type_)


def nested(random_: random.Random, rows: int, times: bool = True) -> pa.Array:
    """Returns a random struct with nested lists and maps."""
    chosen = random_.sample([each for each in VALUES + NESTED if times or not pa.types.is_temporal(each[0])], 5)
    inner = [column(random_, *each, rows) for each in chosen]
    ends = pa.array(range(rows + 1), pa.int32())
    keys = pa.array([f"k{n}" for n in range(rows)])
    inner += [pa.ListArray.from_arrays(ends, inner[0]), pa.MapArray.from_arrays(ends, keys, inner[1])]
    whole = pa.StructArray.from_arrays(inner, [f"f{n} é" for n in range(len(inner))])
    return random_.choice([whole, pa.ListArray.from_arrays(ends, whole), pa.MapArray.from_arrays(ends, keys, whole)])


BODIES: list[Callable[[random.Random, int], pa.Array]] = [
    nested,
    nested,
    nested,
    lambda r, rows: column(r, pa.string(), text, rows),
    lambda r, rows: column(r, pa.large_string(), text, rows),
    lambda r, rows: column(r, pa.dictionary(pa.int32(), pa.string()), text, rows),
    lambda r, rows: column(r, pa.json_(), lambda r: json.dumps([text(r)]), rows),
    lambda r, rows: column(r, pa.uuid(), lambda r: r.randbytes(16), rows),
    lambda r, rows: column(r, pa.binary(), lambda r: r.randbytes(9), rows),
    lambda r, rows: column(r, pa.large_binary(), lambda r: r.randbytes(9), rows),
    lambda r, rows: column(r, pa.binary(7), lambda r: r.randbytes(7), rows),
]


def attributes(random_: random.Random, rows: int) -> pa.Array:
    """A map or struct of some types, or text of JSON."""
    known = [each for each in VALUES + NESTED if not pa.types.is_temporal(each[0])]
    some = random_.choice([each for each in known if "json" not in str(each[0])])
    ends, keys = pa.array(range(rows + 1), pa.int32()), pa.array([f"k{n}" for n in range(rows)])
    return random_.choice(
        [
            pa.MapArray.from_arrays(ends, keys, column(random_, *some, rows)),
            pa.StructArray.from_arrays([column(random_, *some, rows), nested(random_, rows, times=False)], ["a", "b"]),
            pa.array(['{"a": 12345678901234567890.10, "b": [1.50, {"c": "\\u00e9"}], "d": null}', None] * rows).slice(
                0, rows
            ),
        ]
    )


def expiries(random_: random.Random, rows: int) -> pa.Array:
    unit, zone = random_.choice(["s", "ms", "us", "ns"]), random_.choice([None, "UTC", "America/New_York", "-03:30"])
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    at_s = LATER_US // 10**6
    return random_.choice(
        [
            pa.array([at_s * per_s + random_.randrange(10**4) for _ in range(rows)], pa.timestamp(unit, zone)),
            pa.array([at_s // 86400 + 1] * rows, pa.date32()),
            pa.array([at_s + random_.random() for _ in range(rows)]),
            pa.array([at_s] * rows, pa.uint64()),
            pa.array(
                [Decimal(at_s) + Decimal(random_.randrange(10**7)).scaleb(-7) for _ in range(rows)],
                pa.decimal128(38, 7),
            ),
            pa.array([None, f" {due(9 * DAY)}"] * rows).slice(0, rows),
            pa.nulls(rows),
        ]
    )


def keys(random_: random.Random, rows: int) -> pa.Array:
    return column(random_, *random_.choice([each for each in VALUES if each[1] is not text]), rows)


# --- rejects are what was rejected ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", some_of(range(60), 4))
def test_parquet_of_any_type_is_imported_from_its_rejects_as_it_would_have_been(bench: Bench, seed: int) -> None:
    random_, rows = random.Random(seed), 4
    body = BODIES[seed % len(BODIES)](random_, rows)
    body = body.fill_null("b") if pa.types.is_string(body.type) else body
    table = pa.table(
        {
            "deliver_at": pa.array([due(2 * HOUR)] * rows),
            "body": body,
            "key": keys(random_, rows),
            "attributes": attributes(random_, rows),
            "expires_at": expiries(random_, rows),
        }
    )
    table = table.filter(table.column("body").is_valid())
    pq.write_table(table, bench.folder / "good.parquet")
    bad = pa.nulls(table.num_rows, pa.string())
    pq.write_table(table.set_column(0, "deliver_at", bad), bench.folder / "bad.parquet")
    rejects = bench.folder / "rejects"
    said = bench.run(bench.folder / "bad.parquet", rejects=str(rejects), time_zone="Asia/Tokyo")
    assert (said.imported, said.rejected["deliver_at is missing"], said.failed) == (0, table.num_rows, {})
    again = imported_again(bench, rejects, time_zone="Asia/Tokyo")
    good = bench.run(bench.folder / "good.parquet", time_zone="Asia/Tokyo")
    assert (good.imported, dict(good.rejected), good.failed) == (table.num_rows, {}, {})
    assert sent(bench) == sorted([*again, *again], key=repr)


def test_json_lines_are_imported_from_their_rejects_byte_for_byte(bench: Bench) -> None:
    bodies = [
        '{"n": 12345678901234567890.10,  "m":1.50, "e":1E400 ,"i":' + "7" * 5000 + ', "u":"\\u00e9\\ud83d\\ude00"}',
        "[1, 1.0,-0.0 , 123456789012345678901234567890]",
        '"text \\u00e9\\n\\"\\\\ud800"',
        '"\ufeff\u2028 plain"',
        "{}",
    ]
    keys = ["12345678901234567890.10", "123456789012345678901234567890", "true", '"k \\u00e9"', "null"]
    about = [
        '{"a":12345678901234567890.10,"b":{"c":[1.50,' + "9" * 5000 + "]}}",
        '"{\\"a\\": 1.50}"',
        '{"a":"\\ud83d\\ude00"}',
        "null",
        '{"n":-0.0}',
    ]
    bad = ["null", '"tomorrow"', "true", "{}", "1" * 5000, "1e400", '"\\ud800"']
    for name, times in (("good", [json.dumps(due(2 * HOUR))] * 7), ("bad", bad)):
        lines = [
            f'{{"x":  {"1" * 5000}, "body":{bodies[n % 5]} , "key":{keys[n % 5]},"attributes": {about[n % 5]}, '
            f'"expires_at":{(LATER_US + n) / 10**6}, "deliver_at": {at}}}\n'
            for n, at in enumerate(times)
        ]
        (bench.folder / f"{name}.json").write_text("".join(lines), encoding="utf-8")
    rejects = bench.folder / "rejects"
    assert bench.run(bench.folder / "bad.json", rejects=str(rejects)).rejected.total() == 7
    again = imported_again(bench, rejects)
    assert bench.run(bench.folder / "good.json").imported == len(again) == 7
    assert sent(bench) == sorted([*again, *again], key=repr)
    assert {row[2] for row in again} == {keys[0], keys[1], keys[2], "k é", None}
    assert ("a", "12345678901234567890.10") in next(row[3] for row in again if row[2] == keys[0])


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_is_imported_from_its_rejects_byte_for_byte(bench: Bench, mark: str) -> None:
    random_ = random.Random(3)
    bodies = ["\ufeffx", 'a "quoted", text\r\nand\ta line\n', '{"a": 1.50}', *(text(random_) for _ in range(60))]
    for name, at in (("good", due(2 * HOUR)), ("bad", "infinity")):
        with (bench.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            file.write(mark)
            writer = csv.writer(file)
            writer.writerow(["body", "deliver_at", "key", "attributes", "expires_at", 'it, "x"'])
            writer.writerows(
                [each, at, f" k{n}", '{"a": 1.50}', LATER_US // 1000, each] for n, each in enumerate(bodies)
            )
    rejects = bench.folder / "rejects"
    assert bench.run(bench.folder / "bad.csv", rejects=str(rejects), csv_escape='"').rejected.total() == len(bodies)
    again = imported_again(bench, rejects)
    assert bench.run(bench.folder / "good.csv", csv_escape='"').imported == len(bodies)
    assert sent(bench) == sorted([*again, *again], key=repr)


def test_columns_that_are_named_like_a_place_keep_their_names_in_the_rejects(bench: Bench) -> None:
    names = {"deliver_at": "row", "body": "reason", "key": "file", "attributes": "line", "expires_at": "_reason"}
    table = pa.table(
        {"row": ["x"], "reason": ["b"], "file": ["k"], "line": ['{"a":"1"}'], "_reason": [LATER_US // 1000]}
    )
    pq.write_table(table, bench.folder / "in.parquet")
    rejects = bench.folder / "rejects"
    assert bench.run(bench.folder / "in.parquet", rejects=str(rejects), **names).rejected.total() == 1
    [line] = rejected_lines(rejects)
    row = json.loads(line)
    assert (row["_row"], row["__reason"]) == (1, "row is not a time: x") and row["_file"].endswith("in.parquet")
    path = bench.folder / "corrected.json"
    path.write_text(corrected(line, "row"))
    assert bench.run(path, rejects=str(rejects), **names).imported == 1
    assert sent(bench) == [(b"b", 0, "k", [("a", "1")], LATER_US // 1000, AT_MS)]


@pytest.mark.parametrize("body", ["no base64", 12345678, True, [1], {"a": 1}])
def test_a_body_that_is_said_to_be_base64_and_is_not_is_rejected(bench: Bench, body: Any) -> None:
    rows = [{"deliver_at": due(2 * HOUR), "body": each, "tidewheel.encoding": "bytes"} for each in (body, "AP8=", None)]
    report = bench.run(json_lines(bench.folder / "in.json", rows))
    kinds = {"body is not base64, as its tidewheel.encoding says": 1, "body is missing": 1}
    assert (report.imported, dict(report.rejected)) == (1, kinds)
    assert [row[:2] for row in sent(bench)] == [(b"\x00\xff", Encoding.BYTES)]


# --- values that nothing holds --------------------------------------------------------------------------------


def good_rows(count: int, **columns: pa.Array) -> pa.Table:
    """Rows of which the second's values are given, if a column is."""
    plain = {
        "deliver_at": pa.array([AT_MS * 1000] * count, pa.timestamp("us", "UTC")),
        "body": pa.array([f"row {n}" for n in range(count)]),
    }
    return pa.table(plain | columns)


FAR = [2**63 - 1, -(2**63) + 1, -(2**63), 2**62]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "odd",
    [
        *(pa.array(FAR, pa.timestamp(unit, zone)) for unit in ("ms", "us") for zone in (None, "UTC")),
        pa.array([-(2**63), -(2**63) + 1], pa.timestamp("ns")),
        pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
        pa.array([86_400_000 * 10**8], pa.date64()),
        pa.array([2**63 - 1, -(2**63)]),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([float("nan"), float("inf"), -1e308, 0.0]),
        pa.array([Decimal("9" * 60)], pa.decimal256(60)),
        pa.array(
            ["infinity", "0000-01-01T00:00Z", "2026-01-01T24:00Z", "2026-12-31T23:59:60Z", "9" * 5000, "+12026-01-01Z"]
        ),
        pa.array([b"\xff\x00"], pa.binary()).view(pa.string()),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else str(each),
)
def test_a_time_that_python_cannot_hold_is_one_rows_problem(bench: Bench, odd: pa.Array, given: bool) -> None:
    for option in ("deliver_at", "expires_at"):
        path = bench.folder / f"{option}.parquet"
        pq.write_table(good_rows(len(odd), odd=odd), path)
        rejects = bench.folder / f"rejects-{option}"
        more = {"rejects": str(rejects)} if given else {}
        report = bench.run(path, time_zone="Europe/Berlin", **{option: "odd"}, **more)
        assert (report.imported, report.rejected.total(), report.failed) == (0, len(odd), {}), option
        if given:
            rows = [json.loads(line) for line in rejected_lines(rejects)]
            assert [(row["row"], row["body"]) for row in rows] == [(n + 1, f"row {n}") for n in range(len(odd))]


def by_duckdb(bench: Bench, values: str) -> Path:
    """Writes a Parquet file with DuckDB, with a row for each parenthesis."""
    path = bench.folder / "in.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM (VALUES {values}) t(deliver_at, body, key)) TO '{path}' (FORMAT parquet)"
        )
    return path


def test_json_and_uuids_are_text(bench: Bench) -> None:
    key = "c0aa4506-7b08-4f00-af4a-e87950918bcf"
    report = bench.run(by_duckdb(bench, f"('{due(2 * HOUR)}', '{{\"a\":1}}'::json, '{key}'::uuid)"))
    assert (report.imported, report.failed) == (1, {})
    [row] = bench.rows()
    assert (row["payload"], row["encoding"], row["key"]) == (b'{"a":1}', Encoding.TEXT, key)


@pytest.mark.parametrize(
    ("option", "odd", "said"),
    [
        ("body", pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "geo", "x"), pa.array([b"a"])), "arrow.opaque"),
        ("body", pa.array([{"metadata": b"m", "value": b"v"}]), "struct<metadata: binary"),
        ("body", pa.array([[1, 2]], pa.list_(pa.int32(), 2)), "arrow.fixed_shape_tensor"),
        ("key", pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "geo", "x"), pa.array(["a"])), "arrow.opaque"),
    ],
)
def test_a_type_that_has_no_text_is_refused_with_its_column_and_what_to_do(
    bench: Bench, option: str, odd: pa.Array, said: str
) -> None:
    if "tensor" in said:
        odd = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), (2,)), odd)
    for column in (odd, pa.StructArray.from_arrays([odd], ["n"])):
        pq.write_table(good_rows(1, odd=column), bench.folder / "in.parquet")
        with pytest.raises(InvalidValue) as raised:
            bench.run(bench.folder / "in.parquet", **{option: "odd"})
        assert f"column 'odd' (--{option})" in str(raised.value) and said in str(raised.value)
        assert "; give" in str(raised.value)


def stored_as(path: Path, logical: int, converted: int) -> None:
    """Changes the type of a file's only text column in the Parquet footer."""
    data = path.read_bytes()
    at = data.rindex(TEXT_TYPE)
    path.write_bytes(data[:at] + bytes([0x25, 2 * converted, 0x4C, logical << 4 | 0xC, 0, 0]) + data[at + 6 :])


TEXT_TYPE = bytes([0x25, 0, 0x4C, 0x1C, 0, 0])
"""Thrift's form of the converted type UTF8 and the logical type STRING."""


def test_an_enum_is_text_and_bson_is_bytes(bench: Bench) -> None:
    for name, logical, converted, encoding in (("enum", 4, 4, Encoding.TEXT), ("bson", 13, 20, Encoding.BYTES)):
        path = bench.folder / f"{name}.parquet"
        pq.write_table(good_rows(1, body=pa.array(["OPEN"])), path, store_schema=False)
        stored_as(path, logical, converted)
        assert bench.run(path).imported == 1
        assert (b"OPEN", encoding) in [row[:2] for row in sent(bench)], name


def test_times_beyond_nanoseconds_are_right_or_rejected_and_never_others(bench: Bench) -> None:
    """INT96 of nanoseconds wraps after the year 2262, so that 2611 would become 2026."""
    times = [
        "2026-01-02T00:00:00.000001",
        "2026-01-02T00:00:00",
        "2611-03-04T05:06:07",
        "9999-12-31T23:59:59",
        "0001-01-01T00:00:00",
    ]
    column = pa.array([datetime.fromisoformat(each) for each in times], pa.timestamp("us"))
    for option in ("deliver_at", "expires_at"):
        path = bench.folder / f"{option}.parquet"
        pq.write_table(good_rows(5, odd=column), path, use_deprecated_int96_timestamps=True, row_group_size=3)
        rejects = bench.folder / f"rejects-{option}"
        report = bench.run(path, time_zone="UTC", rejects=str(rejects), **{option: "odd"})
        assert (report.imported, report.failed) == ({"deliver_at": 2, "expires_at": 4}[option], {})
        shown = [json.loads(line)["odd"] for line in rejected_lines(rejects)]
        assert shown == [f"{each.replace('T', ' ')}.000000" for each in times[report.imported :]]
    ms = START_MS + DAY
    assert sorted(row[5] for row in sent(bench) if row[5] > AT_MS) == [ms, ms + 1]
    expiries = [ms, ms + 1, int(datetime(2611, 3, 4, 5, 6, 7, tzinfo=UTC).timestamp()) * 1000, 253402300799000]
    assert sorted(row[4] for row in sent(bench) if row[4] is not None) == expiries


def test_a_variant_and_an_enum_inside_are_refused(bench: Bench) -> None:
    path = by_duckdb(bench, "('x', {'a': 1}::variant, 'k')")
    with pytest.raises(InvalidValue, match=r"column 'body' \(--body\) is a struct<metadata: binary.*; give text"):
        bench.run(path)
    pq.write_table(good_rows(1, body=pa.array([{"state": "OPEN"}])), path, store_schema=False)
    stored_as(path, 4, 4)
    with pytest.raises(
        InvalidValue, match=r"column 'body' \(--body\) is a struct.*, with the ENUM body\.state; give text"
    ):
        bench.run(path)


NOT_UTF_8 = pa.array([b"\xff\x00"]).view(pa.string())
FAR_TIMES = [pa.array([2**62], pa.timestamp(unit, zone)) for unit in ("ms", "us") for zone in (None, "Nowhere/Land")]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "odd", [*FAR_TIMES, NOT_UTF_8], ids=lambda each: str(each) if isinstance(each, bool) else str(each.type)
)
@pytest.mark.parametrize("option", ["body", "attributes"])
def test_a_nested_value_that_python_cannot_hold_is_one_rows_problem(
    bench: Bench, option: str, odd: pa.Array, given: bool
) -> None:
    rows, bad = 1000, {17, 400, 401}
    inner = pa.concat_arrays([odd if n in bad else pa.nulls(1, odd.type) for n in range(rows)])
    pq.write_table(good_rows(rows, odd=pa.StructArray.from_arrays([inner], ["at"])), bench.folder / "in.parquet")
    rejects = bench.folder / "rejects"
    more = {"rejects": str(rejects)} if given else {}
    if option == "attributes" and pa.types.is_temporal(odd.type):
        with pytest.raises(InvalidValue, match=r"--attributes\) is a struct<at: timestamp.*; give a map or struct of"):
            bench.run(bench.folder / "in.parquet", **{option: "odd"}, **more)
        return
    report = bench.run(bench.folder / "in.parquet", **{option: "odd"}, **more)
    assert (report.imported, dict(report.rejected), report.failed) == (997, {"a value cannot be read": 3}, {})
    found = [json.loads(line) for line in rejected_lines(rejects)]
    assert [row["row"] for row in found] == ([n + 1 for n in sorted(bad)] if given else [])
    assert all(row["reason"].startswith("a value cannot be read: odd cannot be read: ") for row in found)


def test_an_error_that_nobody_foresaw_is_its_files_problem(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.folder / "in").mkdir()
    for name in ("a", "b"):
        pq.write_table(
            good_rows(3, body=pa.array([f"{name} {n}" for n in range(3)])), bench.folder / "in" / f"{name}.parquet"
        )

    def fails(location: Any, part: Any, *more: Any, usual: Any) -> Iterator[Any]:
        if part.file.name.endswith("a.parquet"):
            raise AttributeError("nobody foresaw this")
        yield from usual(location, part, *more)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "read_parquet", partial(fails, usual=parts.read_parquet))
        report = bench.run(bench.folder / "in")
    assert report.imported == 3
    [(file, why)] = report.failed.items()
    assert file.endswith("a.parquet") and why == "it cannot be read: nobody foresaw this; make the file again"


def test_attributes_of_numbers_are_as_they_stand(bench: Bench) -> None:
    given = '{"a": 12345678901234567890.10, "b": {"c": [1.50, null, true]}, "d": null, "e": 1E5}'
    pq.write_table(good_rows(1, attributes=pa.array([given])), bench.folder / "in.parquet")
    assert bench.run(bench.folder / "in.parquet").imported == 1
    assert sent(bench)[0][3] == [("a", "12345678901234567890.10"), ("b", '{"c":[1.50,null,true]}'), ("e", "1E5")]


@pytest.mark.parametrize("odd", ["NaN", "-Infinity"])
def test_an_attribute_that_json_has_not_is_rejected_by_name_and_corrected_gives_its_message(
    bench: Bench, odd: str
) -> None:
    inside = pa.StructArray.from_arrays([pa.array(["x", "x"]), pa.array([2.0, float(odd)])], ["a", "price"])
    tables = {
        "struct": inside,
        "deep": pa.StructArray.from_arrays([inside], ["price"]),
        "text": pa.array(['{"a": "x", "price": 2.0}', f'{{"a": "x", "price": {odd}}}']),
    }
    for name, attributes_ in tables.items():
        path, rejects = bench.folder / f"{name}.parquet", bench.folder / name
        pq.write_table(good_rows(2, attributes=attributes_), path)
        kind = "attributes has a number that JSON has not; write it as text, of"
        report = bench.run(path, rejects=str(rejects))
        assert (report.imported, dict(report.rejected)) == (1, {kind: 1})
        [line] = rejected_lines(rejects)
        assert json.loads(line)["reason"] == f"{kind}: price"
        if name != "text":
            path = bench.folder / f"{name}.json"
            path.write_text(line)
            assert bench.run(path).rejected == {"the line is malformed": 1}
            path.write_text(line.replace(odd, "2.0", 1))
            assert bench.run(path).imported == 1
    found = [attributes_ for _, _, _, attributes_, *_ in sent(bench)]
    assert sorted(map(repr, found)) == sorted(
        map(repr, 3 * [[("a", "x"), ("price", "2.0")]] + 2 * [[("price", '{"a":"x","price":2.0}')]])
    )


def test_times_inside_a_body_have_one_form(bench: Bench) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=123_000)
    for zone, shown in ((None, "2026-01-01T00:00:00.123000"), ("Europe/Berlin", "2026-01-01T00:00:00.123000Z")):
        times = [pa.array([at], pa.timestamp(unit, zone)) for unit in ("ms", "us", "ns")]
        ends = pa.array([0, 1], pa.int32())
        times += [pa.MapArray.from_arrays(ends, times[1].cast(pa.timestamp("us", zone)), times[2])]
        body = pa.StructArray.from_arrays(times, ["ms", "us", "ns", "map"])
        pq.write_table(good_rows(1, body=body), bench.folder / f"{zone}.parquet".replace("/", "-"))
        assert bench.run(bench.folder / f"{zone}.parquet".replace("/", "-")).imported == 1
        expected = {"ms": shown, "us": shown, "ns": shown, "map": {shown: shown}}
        assert json.dumps(expected, separators=(",", ":")).encode() in [payload for payload, *_ in sent(bench)]


def test_an_expiry_after_the_year_9999_is_rejected_for_no_reader_of_messages_takes_it(bench: Bench) -> None:
    times = pa.array([253_402_300_799_999, 253_402_300_800_000])
    pq.write_table(good_rows(2, expires_at=times), bench.folder / "in.parquet")
    report = bench.run(bench.folder / "in.parquet")
    assert (report.imported, dict(report.rejected)) == (1, {"expires_at is after the year 9999": 1})


def test_a_struct_with_the_names_of_a_variant_is_a_body(bench: Bench) -> None:
    pq.write_table(good_rows(1, body=pa.array([{"metadata": "m", "value": 1}])), bench.folder / "in.parquet")
    assert bench.run(bench.folder / "in.parquet").imported == 1
    assert sent(bench)[0][0] == b'{"metadata":"m","value":1}'


def test_attributes_of_bytes_are_base64_as_in_bodies(bench: Bench) -> None:
    odd = pa.array([[("a", b"\xff")]], pa.map_(pa.string(), pa.binary()))
    pq.write_table(good_rows(1, attributes=odd), bench.folder / "in.parquet")
    assert bench.run(bench.folder / "in.parquet").imported == 1
    assert sent(bench)[0][3] == [("a", "/w==")]


def test_a_map_with_a_name_twice_is_no_body(bench: Bench) -> None:
    odd = pa.array([[("a", 1), ("a", 2)], [("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(good_rows(2, body=odd), bench.folder / "in.parquet")
    assert dict(bench.run(bench.folder / "in.parquet").rejected) == {"a value cannot be read": 1}
    assert sent(bench)[0][0] == b'{"a":1,"b":2}'


def test_what_is_no_text_is_refused_until_it_is_corrected(bench: Bench) -> None:
    """Otherwise bodies would contain replacement characters, or the text of an unsupported value."""
    good = due(2 * HOUR).encode()
    (bench.folder / "a.csv").write_bytes(b"deliver_at,body,key\n" + good + b",caf\xe9,k\n" + good + b",ok,\xe9\n")
    lines = [b'"caf\xe9","key":"k"', b'{"a":"\xe9"}', b'"ok","key":"\xe9"', b'"\\ud800 \\ud83d\\ude00 \\\\ud800"']
    (bench.folder / "b.json").write_bytes(b"".join(b'{"deliver_at":"%s","body":%s}\n' % (good, each) for each in lines))
    far = pa.StructArray.from_arrays([pa.array([2**62], pa.timestamp("us"))], ["at"])
    pq.write_table(good_rows(1, body=far), bench.folder / "c.parquet")
    pq.write_table(good_rows(1, body=NOT_UTF_8), bench.folder / "d.parquet")
    pq.write_table(good_rows(1, key=NOT_UTF_8), bench.folder / "e.parquet")
    for number, name in enumerate(("a.csv", "b.json", "c.parquet", "d.parquet", "e.parquet")):
        rejects = bench.folder / f"rejects-{name}"
        report = bench.run(bench.folder / name, rejects=str(rejects))
        count = [2, 4, 1, 1, 1][number]
        assert (report.imported, report.rejected.total(), report.failed) == (0, count, {}), name
        path = bench.folder / f"again-{number}.json"
        path.write_text("".join(f"{line}\n" for line in rejected_lines(rejects)))
        rejects = bench.folder / f"again-{name}"
        again = bench.run(path, rejects=str(rejects))
        assert (again.imported, again.rejected.total()) == (0, count), name
        assert len(rejected_lines(rejects)) == count
        assert all('"deliver_at": ' in line and '"body": ' in line for line in rejected_lines(rejects))
    [last] = [line for line in rejected_lines(bench.folder / "rejects-b.json") if '"line": 4,' in line]
    assert r'"body": "\ud800 \ud83d\ude00 \\ud800"' in last, "as it stood"
    path = bench.folder / "corrected.json"
    path.write_text(corrected(last, "body", '"x"'))
    assert bench.run(path).imported == 1


def test_a_time_of_which_arrow_writes_another_year_is_not_imported_from_the_rejects(bench: Bench) -> None:
    """Arrow writes the year 67562 as 2026."""
    far_s = AT_MS // 1000 + 65536 * 31_556_952
    for zone in (None, "UTC"):
        odd = pa.array([far_s * 1000], pa.timestamp("ms", zone))
        path = bench.folder / f"{zone}.parquet"
        pq.write_table(good_rows(1, odd=odd), path)
        rejects = bench.folder / f"rejects-{zone}"
        assert bench.run(path, deliver_at="odd", time_zone="UTC", rejects=str(rejects)).rejected.total() == 1
        [line] = rejected_lines(rejects)
        path = bench.folder / f"{zone}.json"
        path.write_text(line)
        assert bench.run(path, deliver_at="odd", time_zone="UTC").rejected.total() == 1
        path.write_text(corrected(line, "odd"))
        assert bench.run(path, deliver_at="odd", time_zone="UTC").imported == 1


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("of", [pa.float16(), pa.float32(), pa.float64(), pa.dictionary(pa.int32(), pa.float64())])
def test_a_nested_body_with_a_number_that_json_has_not_is_rejected(bench: Bench, odd: float, of: pa.DataType) -> None:
    values = pa.array([1.5, odd, None], pa.float64())
    inner = values.dictionary_encode() if pa.types.is_dictionary(of) else values.cast(of)
    ends, names = pa.array(range(4), pa.int32()), pa.array(["a", "b", "c"])
    in_list = pa.ListArray.from_arrays(ends, inner)
    shapes = {
        "struct": pa.StructArray.from_arrays([names, inner], ["s", "f"]),
        "list": in_list,
        "map": pa.MapArray.from_arrays(ends, names, inner),
        "deep": pa.MapArray.from_arrays(ends, names, pa.StructArray.from_arrays([in_list], ["l"])),
    }
    for name, body in shapes.items():
        path, rejects = bench.folder / f"{name}.parquet", bench.folder / name
        pq.write_table(good_rows(3, body=body), path)
        report = bench.run(path, rejects=str(rejects))
        assert (report.imported, dict(report.rejected)) == (2, {"a value cannot be read": 1}), name
        [row] = [json.loads(line) for line in rejected_lines(rejects)]
        assert row["row"] == 2 and "NaN" in row["reason"] and row["body"].startswith("\udfff")


def test_a_number_that_json_has_not_below_no_value_is_none_of_the_body(bench: Bench) -> None:
    body = pa.StructArray.from_arrays([pa.array([float("nan")])], ["f"], mask=pa.array([True]))
    outer = pa.StructArray.from_arrays([body, pa.array([float("nan")], mask=[True])], ["in", "n"])
    pq.write_table(good_rows(1, body=outer), bench.folder / "in.parquet")
    assert bench.run(bench.folder / "in.parquet").imported == 1
    assert sent(bench)[0][0] == b'{"in":null,"n":null}'
