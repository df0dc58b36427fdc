"""Names and encodings of an import's files. Each file is read or refused by name, and the others continue."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.world import DAY, HOUR, START_MS, TOPIC
from tests.jobs.test_import import Bench, bench, due, json_lines, messages
from tests.jobs.test_import_bad_input import problem
from tidewheel.errors import InvalidValue
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Encoding
from tidewheel.model.untrusted import json_text
from tidewheel.model.validation import _encode_body

__all__ = ["bench"]

NAMES = [
    "a[1].json", "a b.json", "100%25.json", "x*y.json", "why?.json", "day=1.json", "grün😀.json", "n#1.json",
    "[!a].json",
]  # fmt: skip


def packed(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def csv_of(rows: int) -> bytes:
    return ("deliver_at,body\n" + "".join(f"{due(2 * HOUR)},body {n}\n" for n in range(rows))).encode()


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_characters_of_globs_and_urls_is_found(bench: Bench, name: str) -> None:
    (bench.folder / "in").mkdir()
    path = json_lines(bench.folder / "in" / name, messages(1))
    json_lines(bench.folder / "in" / "other.json", messages(2))
    assert bench.run(path).imported == 1


def test_a_name_that_as_a_glob_matches_other_files_is_refused_with_how_to_write_it(bench: Bench) -> None:
    json_lines(bench.folder / "a[1].json", messages(1))
    json_lines(bench.folder / "a1.json", messages(2))
    with pytest.raises(InvalidValue, match=r"it is a name, and as a glob matches .*a1\.json too; write \[\[\]"):
        bench.run(bench.folder / "a[1].json")
    assert bench.run(bench.folder / "a[[]1].json").imported == 1


def test_a_file_that_is_matched_twice_is_imported_once(bench: Bench) -> None:
    (bench.folder / "in" / "deep").mkdir(parents=True)
    path = json_lines(bench.folder / "in" / "deep" / "a.json", messages(2))
    (bench.folder / "in" / "link.json").symlink_to(path)
    assert bench.run(bench.folder / "in" / "**").imported == 2


def test_objects_with_such_keys_are_found_and_read() -> None:
    with LocalTidewheel() as stack:
        stack.client().create_topic(TOPIC)
        s3 = stack.session.client("s3")
        s3.create_bucket(Bucket="lake")
        at_ms = stack.clock.now_ms() + 5 * HOUR
        for number, name in enumerate(NAMES):
            s3.put_object(Bucket="lake", Key=f"in/{name}", Body=f'{{"deliver_at":{at_ms},"body":"{number}"}}'.encode())
        for name in NAMES:
            report = stack.run_job("import_messages", topic=TOPIC, input=f"s3://lake/in/{name}")
            assert (report.imported, report.failed) == (1, {}), name
        report = stack.run_job("import_messages", topic=TOPIC, input="s3://lake/**/day=*.json", token="deep")
        assert (report.imported, report.failed) == (1, {})
        s3.put_object(Bucket="lake", Key="in/a1.json", Body=b"{}")
        with pytest.raises(InvalidValue, match=r"as a glob matches s3://lake/in/a1\.json too"):
            stack.run_job("import_messages", topic=TOPIC, input="s3://lake/in/a[1].json")


@pytest.mark.parametrize(
    ("source", "rejects"),
    [
        ("", "rejects"), ("*.json", "."), ("*.json", "deep/.."), ("*", "rejects"), ("d*", "deep"),
        ("d?ep/*/*.json", "deep/rejects"), ("**/*.json", "rejects/of/today"), ("**", "rejects"), ("[!a]*.json", "."),
        ("july*.json", "."),
    ],
)  # fmt: skip
def test_a_glob_that_would_match_its_rejects_is_refused(bench: Bench, source: str, rejects: str) -> None:
    folder = bench.folder / "in"
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("july 1.json", "deep/july 2.json", "deep/er/july 3.json"):
        json_lines(folder / name, messages(1))
    before = sorted(folder.rglob("*"))
    with pytest.raises(InvalidValue, match="it is in the input: the next run would import it"):
        bench.run(folder / source, rejects=f"{folder}/{rejects}", token="july")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("source", "rejects"), [("a.json", "."), ("*.json", "rejects"), ("**/a.json", "."), ("a*.json", ".")]
)
def test_rejects_that_the_input_does_not_match_may_stand_beside_it(bench: Bench, source: str, rejects: str) -> None:
    json_lines(bench.folder / "a.json", [*messages(1), {"body": "no time"}])
    report = bench.run(bench.folder / source, rejects=f"{bench.folder}/{rejects}", token="july")
    assert (report.imported, len(bench.rejects(bench.folder / rejects) if rejects != "." else [0])) == (1, 1)
    assert bench.run(bench.folder / source, token="july").skipped == 2


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_folders_named_like_a_column_give_its_value_where_the_file_has_none(bench: Bench, format_: str) -> None:
    folder = bench.folder / "in" / "deliver_at=2026-01-03T00%3A00Z" / "key=a b" / "group=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    rows = [{"body": "one", "kind": "x"}, {"body": "", "kind": "y"}]
    if format_ == "json":
        json_lines(folder / "in.json", [*rows, {"body": "own", "key": "k"}])
    elif format_ == "csv":
        (folder / "in.csv").write_text("body,kind\none,x\n,y\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), folder / "in.parquet")
    report = bench.run(bench.folder / "in", rejects=str(bench.folder / "rejects"))
    assert (report.failed, dict(report.rejected)) == ({}, {"body is missing": 1})
    found = [(row["payload"], row["key"], row["message_group"], row["deliver_at_ms"]) for row in bench.rows()]
    at = START_MS + 2 * DAY
    assert sorted(found) == [(b"one", "a b", None, at), *([(b"own", "k", None, at)] if format_ == "json" else [])]
    [reject] = bench.rejects(bench.folder / "rejects")
    assert (reject["key"], reject["deliver_at"]) == ("a b", "2026-01-03T00:00Z")


# --- encodings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_file_in_a_wide_encoding_is_refused_and_the_others_are_imported(
    bench: Bench, encoding: str, ending: str
) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    text = csv_of(2).decode() if ending == "csv" else json_lines(bench.folder / "a", messages(2)).read_text()
    (folder / f"a.{ending}").write_text(text, encoding=encoding)
    (folder / f"b.{ending}").write_text(text)
    report = bench.run(folder)
    [(name, why)] = report.failed.items()
    assert name.endswith(f"a.{ending}") and why == "it is UTF-16 or UTF-32; write it as UTF-8, and import it"
    assert report.imported == 2


def test_a_header_that_is_not_utf_8_is_refused(bench: Bench) -> None:
    path = bench.folder / "in.csv"
    path.write_bytes("deliver_at,body,größe\n".encode("latin-1") + f"{due(2 * HOUR)},x,1\n".encode())
    assert "its header is not UTF-8; write the file as UTF-8" in problem(bench, path)


@pytest.mark.parametrize("text", ['deliver_at,"body\n1,2\n', 'deliver_at,bo"dy\n', "deliver_at,body\r1,2\r"])
def test_a_malformed_header_is_refused(bench: Bench, text: str) -> None:
    path = bench.folder / "in.csv"
    path.write_text(text, newline="")
    assert "its first row is no header: a quote is wrong, or its lines end in CR alone" in problem(bench, path)


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz", "in.json", "in.json.gz"])
@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf"])
def test_a_file_without_rows_is_imported_as_none(bench: Bench, name: str, data: bytes) -> None:
    path = bench.folder / name
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    report = bench.run(path)
    assert (report.read, report.failed) == (0, {})


# --- archives -------------------------------------------------------------------------------------------------

PACKS: dict[str, Any] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: packed("zstd", data),
    "lz4": lambda data: packed("lz4", data),
}


@pytest.mark.parametrize("ending", PACKS)
def test_archives_that_are_cut_or_end_in_other_bytes_are_refused_and_the_others_are_imported(
    bench: Bench, ending: str
) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    for kind, data in (("csv", csv_of(40)), ("json", json_lines(bench.folder / "a", messages(40)).read_bytes())):
        good = PACKS[ending](data)
        for number, bad in enumerate([*(good[: len(good) * n // 9] for n in range(1, 9)), good[:-1], good + b"other"]):
            (folder / f"{number}.{kind}.{ending}").write_bytes(bad)
        (folder / f"good.{kind}.{ending}").write_bytes(good)
        (folder / f"two.{kind}.{ending}").write_bytes(good + PACKS[ending](b"" if kind == "csv" else data))
    for kind, rows in (("csv", 80), ("json", 120)):
        report = bench.run(folder / f"*.{kind}.{ending}")
        assert report.imported == rows
        assert len(report.failed) == 10
        for name, why in report.failed.items():
            assert Path(name).name[0].isdigit() and "it cannot be read: " in why, why
            assert "make the file again" in why and "-2" not in why


# --- bodies of JSON lines -------------------------------------------------------------------------------------


def test_numbers_and_flags_are_imported_as_the_sdk_sends_them(bench: Bench) -> None:
    values: list[Any] = [17, -1, 1.5, 0.1, True, False, 10**40, [], {}, [None], {"a": {"b": 1.5}}, "17", "true", "null"]
    path = bench.folder / "in.json"
    path.write_text("".join(f'{{"deliver_at":"{due(2 * HOUR)}","body":{json_text(each)}}}\n' for each in values))
    assert bench.run(path).imported == len(values)
    found = {(row["payload"].decode(), row["encoding"]) for row in bench.rows()}
    assert found == {_encode_body(each) for each in values}


@pytest.mark.parametrize(
    "text", ["1e400", "1.50", "1" * 5000, '{"a":1,"a":2}', "[1E+2, -0.0]", '{"n":12345678901234567890.10}']
)
def test_json_that_python_cannot_hold_is_sent_as_it_stands(bench: Bench, text: str) -> None:
    path = bench.folder / "in.json"
    path.write_text(f'{{"deliver_at":"{due(2 * HOUR)}","body":{text}}}\n')
    assert bench.run(path).imported == 1
    assert bench.bodies() == [text]
    assert bench.rows()[0]["encoding"] == Encoding.JSON


@pytest.mark.parametrize(
    "text", ["null", "NaN", "Infinity", "01", "1.", "tru", '"\\ud800"', '{"a":NaN}', "[1,]", "", "'x'"]
)
def test_what_is_no_json_or_no_body_is_rejected_and_the_others_go_on(bench: Bench, text: str) -> None:
    path = bench.folder / "in.json"
    at = due(2 * HOUR)
    path.write_text(f'{{"deliver_at":"{at}","body":{text}}}\n{{"deliver_at":"{at}","body":17}}\n')
    report = bench.run(path)
    assert (report.imported, report.rejected.total(), bench.bodies()) == (1, 1, ["17"])
