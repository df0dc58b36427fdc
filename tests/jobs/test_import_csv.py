"""CSV files of other programs, with each row imported unchanged or rejected."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.world import DAY, HOUR
from tests.folder_objects import FolderLocation
from tests.jobs.test_import import Bench, bench, due, small
from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.csv_rows import _parsed, read_csv
from tidewheel.jobs.importing.csv_strict import StrictCsv
from tidewheel.jobs.importing.options import Columns, Dialect
from tidewheel.jobs.importing.work import InputFile

__all__ = ["bench", "small"]

AT = due(2 * HOUR)
BACKSLASH = Dialect(escape="\\")
BODIES = [
    "plain", " spaces ", "comma, comma", 'a "quoted" word', '"all quoted"', "it's", "two\nlines", "two\r\nlines",
    "line\n\n\nend\n", '{"id":0,"of":["a","b"]}', '{"path":"C:\\\\dir","said":"\\"yes\\""}', 'ends in quote"',
    '"begins with one', '"', '""', '",', f'x"\n{due(3 * HOUR)},forged\n"y',
    f'one " only\n{due(3 * HOUR)},forged\nmore', "grün 😀", "NULL", "a;b\tc|d",
]  # fmt: skip
ODD_BODIES = ["C:\\dir\\", 'back\\"slash', "\\", "\\N", "a\\nb", 'x\\",', '\\"']


def written(path: Path, bodies: list[str], **how: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, **how)
        rows.writerow(["deliver_at", "body"])
        rows.writerows([AT, body] for body in bodies)
    return path


def mysql(bodies: list[str]) -> bytes:
    """SELECT ... INTO OUTFILE ... FIELDS TERMINATED BY ',' ENCLOSED BY '"', which escapes by backslashes."""
    escaped = [b.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\\n").replace("\0", "\\0") for b in bodies]
    return "".join(f'"{AT}","{body}",\\N\n' for body in escaped).encode()


def postgres(bodies: list[str]) -> bytes:
    """COPY ... (FORMAT csv, ESCAPE '\\', FORCE_QUOTE *), with NULL '\\N'."""
    escaped = [body.replace("\\", "\\\\").replace('"', '\\"') for body in bodies]
    return "".join(f'"{AT}","{body}",\\N\n' for body in escaped).encode()


def read(path: Path, dialect: Dialect = BACKSLASH) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns the values of a file's rows, and the texts of rejected rows."""
    found = path.stat()
    changed = str(found.st_mtime_ns)
    file = InputFile(name=str(path), size_bytes=found.st_size, changed=changed, format="csv")
    columns = Columns(key=None, attributes=None, expires_at=None, group=None)
    good: list[tuple[str, ...]] = []
    bad: list[str] = []
    numbers: list[int] = []
    for rows in read_csv(FolderLocation(root=str(path.parent)), file, dialect, lambda _: columns):
        good += [tuple(json.loads(value) or "" for value in rows.given(n).values()) for n in range(len(rows))]
        bad += [text for _, _, text in rows.malformed]
        numbers += [rows.place(n)["row"] for n in range(len(rows))] + [place["row"] for place, _, _ in rows.malformed]
    assert sorted(numbers) == list(range(1, len(good) + len(bad) + 1))
    return good, bad


# --- dialects -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{}, {"quoting": csv.QUOTE_ALL}, {"lineterminator": "\n"}, {"lineterminator": "\r\r\n"}]
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_doubled_quotes_give_each_body_as_it_was_written(bench: Bench, how: dict[str, Any], mark: str) -> None:
    path = written(bench.folder / "in.csv", BODIES, **how)
    path.write_bytes(mark.encode() + path.read_bytes())
    report = bench.run(path)
    assert (report.imported, dict(report.rejected), report.failed) == (len(BODIES), {}, {})
    assert sorted(bench.bodies()) == sorted(BODIES)


def test_quotes_that_spark_escapes_by_default_are_rejected_with_advice_and_read_as_the_advice_says(
    bench: Bench,
) -> None:
    text = "deliver_at,body\n" + "".join(f'{due(DAY)},"{{\\"id\\":{n}}}"\n' for n in range(4))
    path = bench.folder / "spark.csv"
    path.write_text(text)
    report = bench.run(path)
    [kind] = report.rejected
    assert report.imported == 0 and report.rejected.total() == 4
    assert kind.startswith("the line is malformed") and "give --csv-escape '\\'" in kind
    report = bench.run(path, csv_escape="\\")
    assert (report.imported, report.rejected.total()) == (4, 0)
    assert sorted(bench.bodies()) == [f'{{"id":{n}}}' for n in range(4)]


@pytest.mark.parametrize("write", [mysql, postgres])
def test_escaped_quotes_are_read_as_they_were_written_and_no_other_body_comes_without_the_option(
    bench: Bench, write: Any
) -> None:
    path = bench.folder / "in.csv"
    bodies = [*BODIES, *ODD_BODIES]
    path.write_bytes(b"deliver_at,body,key\n" + write(bodies))
    assert read(path) == ([(AT, body, "") for body in bodies], [])
    for body in bodies:
        path.write_bytes(b"deliver_at,body,key\n" + write([body]))
        good, bad = read(path, Dialect())
        doubled = [(AT, body.replace("\\", "\\\\"), "")]
        assert bad or good == doubled, "a backslash that escapes no quote and no line end is a plain character"
    path.write_bytes(b"deliver_at,body,key\n" + write(bodies))
    good, bad = read(path, Dialect())
    assert {row[1] for row in good} < set(bodies) and bad, "where other rows show what a backslash means"


def test_a_backslash_before_a_quote_is_rejected_unless_the_dialect_is_given(bench: Bench) -> None:
    path = written(bench.folder / "in.csv", ODD_BODIES, quoting=csv.QUOTE_ALL)
    good, bad = read(path, Dialect())
    assert {row[1] for row in good} <= set(ODD_BODIES) and bad
    assert read(path, Dialect(escape='"')) == ([(AT, body) for body in ODD_BODIES], [])


def test_another_quote_may_be_given(bench: Bench) -> None:
    path = written(bench.folder / "in.csv", BODIES, quotechar="'", quoting=csv.QUOTE_ALL)
    assert bench.run(path, csv_quote="'").imported == len(BODIES)
    assert sorted(bench.bodies()) == sorted(BODIES)


def test_a_dialect_gives_an_import_of_its_own(bench: Bench) -> None:
    path = bench.folder / "in.csv"
    path.write_text(f'deliver_at,body\n{AT},"\\"x\\""\n')
    assert bench.run(path).rejected.total() == 1
    assert bench.run(path, csv_escape="\\").imported == 1
    assert bench.run(path, csv_escape="\\").skipped == 1
    with pytest.raises(InvalidValue, match=r"--csv-escape was .* and is ''"):
        bench.run(path, token=bench.run(path, csv_escape="\\", token="own").token)


@pytest.mark.parametrize(
    ("option", "value"), [("csv_escape", "\\\\"), ("csv_escape", "n"), ("csv_quote", ","), ("csv_quote", "\\")]
)
def test_a_character_that_is_none_is_refused(bench: Bench, option: str, value: str) -> None:
    with pytest.raises(InvalidValue, match=f"--{option.replace('_', '-')}"):
        bench.run(written(bench.folder / "in.csv", ["x"]), **{option: value})


def test_rows_keep_their_places_around_malformed_ones_whatever_the_chunks(small: Bench) -> None:
    path = small.folder / "in.csv"
    lines = [f'{AT},"x"y' if n % 7 == 3 else f"{AT},body {n:02d}" for n in range(60)]
    path.write_text("deliver_at,body\n" + "\n".join(lines))
    report = small.run(path, rejects=str(small.folder / "rejects"))
    assert (report.imported, report.rejected.total(), report.ledgers) == (51, 9, 6)
    assert sorted(small.bodies()) == [f"body {n:02d}" for n in range(60) if n % 7 != 3]
    texts = [each.read_text() for each in (small.folder / "rejects").glob("*.json")]
    rows = [json.loads(line)["row"] for text in texts for line in text.splitlines()]
    assert sorted(rows) == [n + 1 for n in range(60) if n % 7 == 3]
    again = small.run(path)
    assert (again.imported, again.skipped) == (0, 60)


# --- malformed rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        'T,"a"b', 'T,"a" ', 'T, "a"', '"T" ,a', 'T,5" pipe', 'T,a""b', 'T,"{"id":0}"', 'T,"\\"x\\""', "T,a\rb", "T",
        "T,a,b", ",,", " ", 'T,"a"\rb',
    ],
)  # fmt: skip
def test_a_malformed_row_is_rejected_by_its_number_and_the_others_go_on(bench: Bench, line: str) -> None:
    path = bench.folder / "in.csv"
    bad = line.replace("T", AT)
    path.write_text(f'deliver_at,body\n{AT},before\n{bad}\n{AT},"after"\n', newline="")
    report = bench.run(path, rejects=str(bench.folder / "rejects"))
    assert (report.imported, report.rejected.total(), report.failed) == (2, 1, {})
    assert sorted(bench.bodies()) == ["after", "before"]
    [text] = [each.read_text() for each in (bench.folder / "rejects").glob("*.json")]
    row = json.loads(text)
    assert (row["file"], row["row"]) == (str(path), 2) and "lines" not in row
    assert row["reason"].startswith("the line is malformed") and row["reason"].endswith(f": {bad}")


def test_a_malformed_line_is_shown_as_it_stands_and_a_long_one_is_marked_as_cut(bench: Bench) -> None:
    path, rejects = bench.folder / "in.csv", bench.folder / "rejects"
    lines = [f"{AT},x,{'y' * (998 - len(AT) - len(',x,') + more)}" for more in (2, 3)]
    path.write_text("deliver_at,body\n" + "\n".join(lines))
    assert bench.run(path, rejects=str(rejects)).rejected.total() == 2
    [text] = [each.read_text() for each in rejects.glob("*.json")]
    reasons = [json.loads(line)["reason"].removeprefix("the line is malformed: ") for line in text.splitlines()]
    assert reasons == [lines[0], f"{lines[1][:1000]}..."]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('"a""b\\",x', None),
        ('"a\\""b",x', None),
        ('"a\\",x', None),
        ('"a""b\\","', None),
        ('"a""b\\""c",x', 'a"b\\"c'),
        ('"{""a"":""\\""b\\""""}",x', '{"a":"\\"b\\""}'),
        ('"C:\\\\new ""x""",x', 'C:\\\\new "x"'),
    ],
)
def test_a_backslash_before_the_first_inner_quote_or_the_last_one_is_rejected_and_else_is_plain(
    line: str, value: str | None
) -> None:
    good, bad = rows_of(f"{line}\n", Dialect())
    assert (good, len(bad)) == (([], 1) if value is None else ([[value, "x"]], 0))


@pytest.mark.parametrize(
    ("text", "lines", "good"),
    [
        (f'{AT},"open\n{AT},"closed"\n{AT},good\n', 2, ["good"]),
        (f'{AT},good\n{AT},"open\n{AT},lost\n{AT},lost\n', 3, ["good"]),
        (f'{AT},good\n{AT},"open', 1, ["good"]),
        (f'{AT},good\n{AT},"', 1, ["good"]),
        (f'{AT},"text \\" text\n{AT},forged\ntext"\n{AT},good\n', 3, ["good"]),
        (f'{AT},"text\\\n{AT},forged\ntext"\n{AT},good\n', 3, ["good"]),
        (f"{AT},text\\\n{AT},forged\n{AT},good\n", 2, ["good"]),
        (f'{AT},"text\\"\n{AT},forged\n\\"text"\n{AT},good\n', 3, ["good"]),
    ],
)
def test_a_quote_that_is_not_closed_takes_lines_with_it_and_the_reject_says_how_many(
    bench: Bench, text: str, lines: int, good: list[str]
) -> None:
    path = bench.folder / "in.csv"
    path.write_text("deliver_at,body\n" + text)
    report = bench.run(path, rejects=str(bench.folder / "rejects"))
    assert (bench.bodies(), report.rejected.total()) == (good, 1)
    [row] = [json.loads(each.read_text()) for each in (bench.folder / "rejects").glob("*.json")]
    assert row.get("lines", 1) == lines
    assert ("takes later lines with it" in row["reason"]) == (lines > 1)


def test_a_quote_that_stays_open_for_longer_than_a_row_may_be_ends_the_file_and_not_the_others(bench: Bench) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(f'deliver_at,body\n{AT},"open\n' + f"{AT},x\n" * 600_000)
    (folder / "b.csv").write_text(f"deliver_at,body\n{AT},good\n")
    report = bench.run(folder)
    [(name, why)] = report.failed.items()
    assert name.endswith("a.csv") and "row 1 is longer than 16,777,216 bytes, or its quotes are not closed" in why
    assert bench.bodies() == ["good"]


def test_a_value_of_no_value_is_none_in_each_dialect(bench: Bench) -> None:
    path = bench.folder / "in.csv"
    path.write_text(f'deliver_at,body,key\n{AT},x,\\N\n{AT},\\N,k\n{AT},"a,\\N,",\n')
    report = bench.run(path)
    assert (report.imported, dict(report.rejected)) == (2, {"body is missing": 1})
    assert {(row["payload"], row["key"]) for row in bench.rows()} == {(b"x", None), (b"a,\\N,", None)}


# --- against Python's reader ----------------------------------------------------------------------------------


class Pieces:
    """A file read in pieces of a given size."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = io.BytesIO(data), size

    def read(self, _: int) -> bytes:
        return self._data.read(self._size)


def rows_of(text: str, dialect: Dialect, size: int = 1 << 20) -> tuple[list[list[str]], list[str]]:
    """Rows of two columns, and the texts of malformed ones."""
    good, bad = [], []
    stream: Any = Pieces(text.encode(), size)
    for data, malformed in StrictCsv(dialect).blocks(stream, b"", 2):
        wrong: list[int] = []
        for row in _parsed(data, dialect, ("a", "b"), wrong).to_pylist():
            good.append([(value or b"").decode() for value in row.values()])
        assert len(wrong) == len(malformed)
        bad += [text for _, _, text in malformed]
    return good, bad


def texts() -> Iterator[str]:
    """Yields all short texts of CSV's special characters, and some longer texts."""
    for length in range(4):
        yield from map("".join, itertools.product('",\n\r\\a', repeat=length))
    random_ = random.Random(26)
    for _ in range(1500):
        yield "".join(random_.choices('"",,\n\\aN', k=random_.randrange(5, 30)))


@pytest.mark.parametrize(
    "dialect", [Dialect(), *(pytest.param(each, marks=pytest.mark.long) for each in (Dialect(escape='"'), BACKSLASH))]
)
def test_what_is_read_without_a_reject_is_what_pythons_strict_reader_reads(dialect: Dialect) -> None:
    agreed = 0
    for text in texts():
        found = rows_of(text, dialect)
        for size in (1, 3):
            assert rows_of(text, dialect, size) == found, (text, size)
        good, bad = found
        if not bad:
            escape = None if dialect.doubled else dialect.escape
            theirs = csv.reader(io.StringIO(text, newline=""), strict=True, escapechar=escape)
            expected = [["" if value == "N" and escape else value for value in row] for row in theirs if row]
            plain = [["" if value == "\\N" or (value == "N" and escape) else value for value in row] for row in good]
            assert plain == [["" if value == "\\N" else value for value in row] for row in expected], text
            agreed += bool(good)
    assert agreed > 30


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_what_pythons_writer_writes_is_read_and_nothing_else_comes_of_it(quoting: Any) -> None:
    random_ = random.Random(27)
    for _ in range(100):
        rows = [
            ["".join(random_.choices('"",\n\r\\ab ', k=random_.randrange(1, 9))) for _ in range(2)] for _ in range(9)
        ]
        file = io.StringIO(newline="")
        csv.writer(file, quoting=quoting).writerows(rows)
        assert rows_of(file.getvalue(), Dialect(escape='"')) == (rows, [])
        good, _ = rows_of(file.getvalue(), Dialect())
        assert all(row in rows for row in good)
