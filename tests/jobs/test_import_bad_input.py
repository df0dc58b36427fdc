"""Each invalid file gets a plain error, and all other files are imported."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC
from tests.jobs.test_import import Bench, bench, due, json_lines, messages, small
from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing import checks, driver, staging, streams
from tidewheel.jobs.importing.child import apart, end_children
from tidewheel.jobs.importing.parts import shares_of
from tidewheel.jobs.importing.work import Limits, Part, Work
from tidewheel.jobs.tasks import InThreads

__all__ = ["bench", "small"]

CHILDREN = pytest.mark.usefixtures("children")
"""Reads files in child processes, which a file may end or fill. It takes half a second to start one."""


def table(path: Path, rows: int = 50, **columns: Any) -> Path:
    times = pa.array([START_MS + DAY + n for n in range(rows)])
    given = {"deliver_at": times, "body": [f"{path.stem} {n}" for n in range(rows)]} | columns
    pq.write_table(pa.table(given), path, row_group_size=20)
    return path


def problem(bench: Bench, path: Path, **options: str) -> str:
    """Returns a file's import error, after a check for a single line with the file's name."""
    said: list[str] = []
    try:
        report = bench.run(path, said, **options)
        assert report.imported == 0
        [(name, why)] = report.failed.items()
        text = f"{name}: {why}"
    except InvalidValue as error:
        text = str(error)
    [line] = text.splitlines()
    assert path.name in line and "Traceback" not in line
    assert bench.rows() == []
    return line


def test_a_column_of_a_wrong_type_is_named_with_its_type_and_what_is_accepted(bench: Bench) -> None:
    lists, flags = pa.array([[1]] * 50), pa.array([True] * 50)
    for options, column, advice in (
        ({"deliver_at": lists}, "column 'deliver_at' (--deliver-at) is a list", "times are timestamps, dates, text or"),
        ({"deliver_at": flags}, "column 'deliver_at' (--deliver-at) is a bool", "times are timestamps, dates, text or"),
        ({"body": pa.array([1.5] * 50)}, "column 'body' (--body) is a double", "give text, binary, a struct"),
        ({"key": lists}, "column 'key' (--key) is a list", "give a column of text"),
        ({"attributes": flags}, "column 'attributes' (--attributes) is a bool", "give a map or struct of texts"),
        ({"expires_at": lists}, "column 'expires_at' (--expires-at) is a list", "times are timestamps"),
    ):
        line = problem(bench, table(bench.folder / "in.parquet", **options))
        assert column in line and advice in line


@CHILDREN
def test_a_file_with_another_schema_is_named_and_the_others_are_imported(bench: Bench) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    for name in ("a", "b", "d"):
        table(folder / f"{name}.parquet")
    table(folder / "c.parquet", deliver_at=pa.array([{"at": 1}] * 50))
    pq.write_table(pa.table({"due": [1], "body": ["x"]}), folder / "e.parquet")
    said: list[str] = []
    report = bench.run(folder, said)
    assert report.imported == 150
    assert {Path(name).name: why for name, why in report.failed.items()} == {
        "c.parquet": "column 'deliver_at' (--deliver-at) is a struct<at: int64>; times are timestamps, dates, text or "
        "numbers",
        "e.parquet": "no column 'deliver_at' (--deliver-at); there are: due, body",
    }
    assert "2 FILES NOT IMPORTED" in said[-1]
    again = bench.run(folder)
    assert (again.imported, again.skipped, len(again.failed)) == (0, 150, 2)


def damaged_footers(good: bytes, count: int) -> Iterator[bytes]:
    random_ = random.Random(60)
    size = int.from_bytes(good[-8:-4], "little")
    for _ in range(count):
        data = bytearray(good)
        for _ in range(random_.randrange(1, 6)):
            data[len(good) - 8 - random_.randrange(1, size + 1)] = random_.randrange(256)
        yield bytes(data)


def flipped(good: bytes, count: int) -> Iterator[bytes]:
    random_ = random.Random(61)
    for _ in range(count):
        data = bytearray(good)
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        yield bytes(data)


@CHILDREN
@pytest.mark.parametrize("damage", [damaged_footers, flipped])
def test_damaged_parquet_ends_in_the_files_own_error_or_is_read_as_it_is(
    bench: Bench, damage: Callable[[bytes, int], Iterator[bytes]]
) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    times = pa.array([START_MS + DAY + n for n in range(50)])
    keys = pa.array([f"k{n % 3}" for n in range(50)]).dictionary_encode()
    whole = pa.table({"deliver_at": times, "body": ["x" * n for n in range(1, 51)], "key": keys, "n": range(50)})
    pq.write_table(whole, folder / "good.parquet", row_group_size=20, compression="zstd", write_page_checksum=True)
    good = (folder / "good.parquet").read_bytes()
    for number, data in enumerate(damage(good, 60)):
        (folder / f"bad-{number:02d}.parquet").write_bytes(data)
    report = bench.run(folder)
    assert len(report.failed) > 20
    assert not any("good" in name for name in report.failed)
    for why in report.failed.values():
        assert "\n" not in why and "Traceback" not in why and ("; " in why or ": " in why), why
    whole_rows = [row for row in bench.rows() if row["payload"].decode() == "x" * len(row["payload"])]
    assert len(whole_rows) == len(bench.rows()) >= 50


@pytest.mark.parametrize("cut", [0, 4, -1])
def test_a_truncated_parquet_file_is_named(bench: Bench, cut: int) -> None:
    path = table(bench.folder / "in.parquet")
    path.write_bytes(path.read_bytes()[:cut])
    if cut == 0:
        assert bench.run(path).read == 0
    else:
        assert "its footer cannot be read" in problem(bench, path)


@pytest.mark.parametrize("limits", [Limits(), Limits(rows=20), Limits(part_bytes=200)])
def test_nothing_of_a_file_with_a_damaged_row_group_is_imported_and_the_others_are(
    bench: Bench, limits: Limits
) -> None:
    (bench.folder / "in").mkdir()
    path = bench.folder / "in" / "b.parquet"
    times = pa.array([START_MS + DAY + n for n in range(60)])
    given = pa.table({"deliver_at": times, "body": ["", *(f"row {n}" for n in range(1, 60))]})
    pq.write_table(given, path, row_group_size=20, compression="zstd", write_page_checksum=True)
    at = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[at + 40] ^= 255
    path.write_bytes(data)
    for name in ("a", "c"):
        table(bench.folder / "in" / f"{name}.parquet")
    report = replace(bench, limits=limits).run(bench.folder / "in", rejects=str(bench.folder / "rejects"))
    [why] = report.failed.values()
    assert why.startswith("row group 1 cannot be read: ") and why.endswith("; make the file again")
    assert (report.read, report.imported) == (100, 100)
    assert sorted(bench.bodies()) == sorted(f"{name} {n}" for n in range(50) for name in "ac")
    assert {each.name for each in bench.objects.list("ledgers/")} == {
        bucket.object_name for bucket in bench.world.service.buckets.all(TOPIC)
    }
    assert bench.rejects(bench.folder / "rejects") == []


def test_many_small_files_become_few_ledgers(bench: Bench) -> None:
    (bench.folder / "in").mkdir()
    for number in range(150):
        json_lines(bench.folder / "in" / f"{number}.json", messages(20))
    report = bench.run(bench.folder / "in")
    assert report.imported == 3000 and report.ledgers <= 3


def test_one_bad_row_of_many_rejects_one_row_with_its_file_row_group_and_row(bench: Bench) -> None:
    path = bench.folder / "in.parquet"
    bodies: list[str | None] = [f"row {n}" for n in range(60)]
    bodies[47] = None
    times = pa.array([START_MS + DAY + n for n in range(60)])
    pq.write_table(pa.table({"deliver_at": times, "body": bodies}), path, row_group_size=20)
    report = bench.run(path, rejects=str(bench.folder / "rejects"))
    assert (report.imported, dict(report.rejected)) == (59, {"body is missing": 1})
    [line] = [each.read_text() for each in (bench.folder / "rejects").glob("*.json")]
    assert json.loads(line) == {
        "file": str(path),
        "row_group": 2,
        "row": 8,
        "deliver_at": START_MS + DAY + 47,
        "body": None,
        "reason": "body is missing",
    }


@pytest.mark.parametrize("format_", ["json", "csv", "json.gz"])
def test_rejects_name_the_line_or_the_row(bench: Bench, format_: str) -> None:
    path = bench.folder / f"in.{format_}"
    if format_ == "csv":
        lines = ["deliver_at,body", *(f"{due(HOUR * 2)},{n}" for n in range(9)), "x,y", "too,many,columns", "z,y"]
    else:
        lines = [*(json.dumps(row) for row in messages(9)), "{", "", '{"deliver_at": "x", "body": "y"}']
    data = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(data) if format_.endswith("gz") else data)
    assert bench.run(path, rejects=str(bench.folder / "rejects")).imported == 9
    found = [
        json.loads(line) for each in (bench.folder / "rejects").glob("*") if each.is_file() for line in each.open()
    ]
    if format_ == "csv":
        assert sorted(row["row"] for row in found) == [10, 11, 12]
    else:
        assert sorted(row["line"] for row in found) == [10, 12]


@pytest.mark.long
def test_parts_of_a_large_file_of_json_lines_have_each_line_once_and_name_bytes(bench: Bench) -> None:
    rows: list[Any] = [*messages(40), "{broken", *messages(40)]
    path = json_lines(bench.folder / "in.json", rows)
    for part_bytes in (7, 61, 68, 500):
        run = replace(bench, limits=Limits(part_bytes=part_bytes))
        rejects = bench.folder / f"rejects-{part_bytes}"
        report = run.run(path, token=f"parts-{part_bytes}", rejects=str(rejects))
        assert (report.imported, dict(report.rejected)) == (80, {"the line is malformed": 1}), part_bytes
        [line] = [each.read_text() for each in rejects.glob("*.json")]
        at = json.loads(line).get("byte")
        assert at is None or path.read_bytes()[at:].startswith(b"{broken")
    assert sorted(bench.bodies()) == sorted(row["body"] for row in [*messages(40)] * 8)


@CHILDREN
@pytest.mark.long
def test_an_archive_bomb_is_refused_by_name_and_the_next_import_goes_on(bench: Bench) -> None:
    for name, pack in (
        ("line.json.gz", gzip.compress),
        ("line.csv.gz", gzip.compress),
        ("line.json.bz2", bz2.compress),
    ):
        path = bench.folder / name
        path.write_bytes(pack(b"deliver_at,body\n" * ("csv" in name) + b"x" * 60_000_000))
        line = problem(bench, path)
        assert "longer than" in line or "times its" in line, line
        path.unlink()
    assert bench.run(json_lines(bench.folder / "in.json", messages(3))).imported == 3


def test_a_bomb_of_empty_lines_ends_at_the_bound_of_decompression(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_FREE_BYTES", 10_000_000)
    path = bench.folder / "empty.json.gz"
    path.write_bytes(gzip.compress(b"\n" * 12_000_000))
    assert "decompresses to more than 250 times" in problem(bench, path)


@pytest.mark.parametrize("nested", [False, True])
def test_a_small_parquet_file_whose_dictionary_repeats_a_body_without_end_is_refused_as_a_bomb(
    bench: Bench, nested: bool
) -> None:
    path = bench.folder / "in.parquet"
    body: Any = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), ["x" * 100_000])
    if nested:
        body = pa.StructArray.from_arrays([body], ["text"])
    pq.write_table(pa.table({"deliver_at": [START_MS + DAY] * 3000, "body": body}), path)
    assert path.stat().st_size < 20_000
    assert "decompresses to more than 250 times" in problem(bench, path)
    assert bench.bodies() == []


@CHILDREN
@pytest.mark.long
def test_a_dictionary_that_expands_beyond_memory_is_read_in_smaller_batches(bench: Bench) -> None:
    path = bench.folder / "in.parquet"
    body = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), ["x" * 1_000_000])
    noise = [os.urandom(5_000) for _ in range(3000)]  # otherwise it is a bomb
    pq.write_table(pa.table({"deliver_at": [START_MS + DAY] * 3000, "body": body, "noise": noise}), path)
    assert path.stat().st_size < 20_000_000
    report = bench.run(path)
    assert (report.imported, report.failed) == (3000, {})


def test_a_file_that_changes_before_it_is_read_is_not_imported_and_the_others_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    for name in ("a", "b", "c"):
        table(folder / f"{name}.parquet")

    def change(*args: Any) -> Any:
        table(folder / "a.parquet", 60)
        (folder / "b.parquet").unlink(missing_ok=True)
        return shares_of(*args)

    monkeypatch.setattr(driver, "shares_of", change)
    report = bench.run(folder)
    assert report.imported == 50
    assert {row["payload"][:1] for row in bench.rows()} == {b"c"}
    assert {Path(name).name: why.partition(" during")[0] for name, why in report.failed.items()} == {
        "a.parquet": "it changed",
        "b.parquet": "it vanished",
    }
    assert len(bench.ledger_names()) == 1


def test_nothing_of_a_file_is_imported_that_changes_while_it_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(bench.folder / "in.parquet")
    other = table(bench.folder / "other.parquet", 55)
    read = checks.read_checked

    def read_and_change(*args: Any) -> Iterator[Any]:
        yield from read(*args)
        if other.exists():
            other.replace(path)

    monkeypatch.setattr(checks, "read_checked", read_and_change)
    assert "changed during the import" in problem(replace(bench, limits=Limits(part_bytes=300)), path)
    assert bench.ledger_names() == set()


def test_an_import_that_reads_for_half_a_day_is_refused_since_the_orphan_sweep_may_have_taken_its_ledgers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(bench.folder / "in.parquet")

    def slow(*args: Any) -> Any:
        bench.world.clock.advance_ms(12 * HOUR + 1)
        return shares_of(*args)

    monkeypatch.setattr(driver, "shares_of", slow)
    with pytest.raises(InvalidValue, match="reading it took over twelve hours"):
        bench.run(path)
    assert bench.rows() == [] and bench.ledger_names() == set()


def waits(_: Any, parts: Sequence[int]) -> Iterator[str]:
    time.sleep(parts[0])
    yield "waited"


@CHILDREN
def test_children_of_a_run_that_is_stopped_early_end_in_the_midst_of_their_tasks() -> None:
    run = InThreads(2, end=end_children).run(lambda item: list(apart(waits, None, [item])), [0, 60, 60])
    began_s = time.monotonic()
    assert next(run) == (0, ["waited"])
    run.close()
    assert time.monotonic() - began_s < 30


@CHILDREN
def test_files_that_end_their_child_are_told_and_the_others_of_its_task_are_imported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c", "d"):
        table(bench.folder / f"{name}.parquet")
    # Found by the child too, since it is sent by its name.
    monkeypatch.setattr(driver, "stage_parts", dying)
    report = bench.run(bench.folder / "*.parquet")
    assert {Path(name).name: why for name, why in report.failed.items()} == {
        "b.parquet": "the process that read it died by SIGSEGV; make the file again",
        "c.parquet": "it needs too much memory; make smaller row groups, pages and values, or split the file",
    }
    assert (report.imported, report.ledgers) == (100, 1)


def dying(work: Work, parts: Sequence[Part]) -> Iterator[int | staging.Staged]:
    """Dies when it comes to b.parquet, and needs too much memory for c.parquet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "read_checked", partial(greedy, checks.read_checked))
        for told in staging.stage_parts(work, parts):
            yield told
            if isinstance(told, int) and parts[told].file.name.endswith("b.parquet"):
                os.kill(os.getpid(), signal.SIGSEGV)


def greedy(read: Any, work: Work, part: Part) -> Iterator[Any]:
    if part.file.name.endswith("c.parquet"):
        yield len(b"x" * 3_000_000_000)
    yield from read(work, part)


# --- the same files in another import -------------------------------------------------------------------------


def test_a_repaired_file_is_imported_alone_and_the_files_that_are_in_are_refused_by_name(bench: Bench) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    json_lines(folder / "a.jsonl", messages(3))
    (folder / "b.jsonl.gz").write_bytes(b"no gzip")
    assert bench.run(folder).imported == 3
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(messages(4)[3]).encode()))
    with pytest.raises(
        InvalidValue, match=r"a\.jsonl': import \w{32} of this topic has this file\. Leave the file out"
    ):
        bench.run(folder)
    assert bench.run(folder / "b.jsonl.gz").imported == 1
    assert bench.bodies() == [f"message {i:03d}" for i in range(4)]


def test_an_import_of_which_nothing_came_in_does_not_keep_its_files(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.jsonl", messages(3))
    with pytest.raises(InvalidValue, match="no column 'who'"):
        bench.run(path, body="who")
    assert bench.run(path).imported == 3


def test_another_lead_is_no_repetition_that_settles_rejected_rows_silently(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.jsonl", messages(3, first_ms=30 * MINUTE, step_ms=1))
    assert bench.run(path).rejected.total() == 3
    with pytest.raises(InvalidValue, match="in this import --min-lead was '3600 s' and is '1200 s'"):
        bench.run(path, min_lead="20m")
    assert bench.run(path, min_lead="20m", token="soon").imported == 3


def test_files_of_several_formats_are_named(bench: Bench) -> None:
    (bench.folder / "in").mkdir()
    json_lines(bench.folder / "in" / "a.jsonl", messages(1))
    table(bench.folder / "in" / "b.parquet")
    with pytest.raises(InvalidValue, match="the files are json, parquet; import each by a glob"):
        bench.run(bench.folder / "in")


def test_the_text_of_a_malformed_row_is_in_no_log(bench: Bench) -> None:
    path = bench.folder / "in.csv"
    good = f"{due(HOUR * 2)},good\n".encode()
    path.write_bytes(b"deliver_at,body\n2027-01-01T00:00:00Z,SECRET caf\xe9,extra\n" + good)
    said: list[str] = []
    report = bench.run(path, said)
    assert (report.imported, dict(report.rejected)) == (1, {"the line is malformed": 1})
    assert not any("SECRET" in line for line in said)
