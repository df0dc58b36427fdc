"""Values of every type: rejected rows are imported again as the same messages, and a value that nothing holds is one row's."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.world import DAY, HOUR, START_MS
from tests.jobs.test_import import Bench, bench, due, json_lines
from tidewheel.jobs.importing import child
from tidewheel.jobs.importing.work import FileProblem

__all__ = ["bench"]

AT_MS = START_MS + 2 * HOUR
LATER_US = (START_MS + 9 * DAY) * 1000
ODD_FILES = Path(__file__).parents[1] / "data" / "odd-files"
MAPPED = ("deliver_at", "body", "key", "attributes", "expires_at")
Sent = list[tuple[Any, ...]]


# --- builders -------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the tasks here, with a child's answers."""

    def call(apart: Any, item: Any) -> Any:
        kind, answer = child._answer(apart.task, item)
        if kind == "error":
            raise RuntimeError(answer)
        return FileProblem(answer) if kind == "problem" else answer

    monkeypatch.setattr(child.Apart, "__call__", call)


def sent(bench: Bench) -> Sent:
    """What all messages are, without their ids."""
    names = ("payload", "encoding", "key", "attributes", "expires_at_ms", "deliver_at_ms")
    return sorted((tuple(row[name] for name in names) for row in bench.rows()), key=repr)


def rejected_lines(folder: Path) -> list[str]:
    return [line for part in sorted(folder.glob("*.json")) for line in part.read_text(encoding="utf-8").split("\n") if line]


def corrected(line: str, column: str = "deliver_at", value: str = json.dumps(due(2 * HOUR))) -> str:
    """A rejected line with one good value instead of the bad one, and the rest byte for byte."""
    decoder, at = json.JSONDecoder(parse_int=str, parse_float=str), line.index(f'"{column}": ') + len(column) + 4
    _, end = decoder.raw_decode(line, at)
    return line[:at] + value + line[end:]


def imported_again(bench: Bench, rejects: Path, **options: str) -> Sent:
    """Imports the corrected rejects. Returns what is sent."""
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


def nested(random_: random.Random, rows: int) -> pa.Array:
    """A struct of some types, lists and maps of them."""
    chosen = random_.sample(VALUES + NESTED, 5)
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
    some = random_.choice([each for each in VALUES + NESTED if "json" not in str(each[0])])
    ends, keys = pa.array(range(rows + 1), pa.int32()), pa.array([f"k{n}" for n in range(rows)])
    return random_.choice(
        [
            pa.MapArray.from_arrays(ends, keys, column(random_, *some, rows)),
            pa.StructArray.from_arrays(
                [column(random_, *some, rows), nested(random_, rows), pa.array([float("nan")] * rows)], ["a", "b", "c"]
            ),
            pa.array(['{"a": 12345678901234567890.10, "b": [1.50, {"c": "\\u00e9"}], "d": null}', None] * rows).slice(0, rows),
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
            pa.array([Decimal(at_s) + Decimal(random_.randrange(10**7)).scaleb(-7) for _ in range(rows)], pa.decimal128(38, 7)),
            pa.array([None, f" {due(9 * DAY)}"] * rows).slice(0, rows),
            pa.nulls(rows),
        ]
    )


def keys(random_: random.Random, rows: int) -> pa.Array:
    return column(random_, *random_.choice([each for each in VALUES if each[1] is not text]), rows)


# --- rejects are what was rejected ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
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
