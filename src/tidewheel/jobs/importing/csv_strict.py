"""Divides CSV into rows strictly. Rejects rows outside the dialect, and never repairs them.

    row      value , value ... line end     as many values as the header has
    value    "..." with doubled quotes, or text without quotes, commas and line ends
             with an escape character: "..." with this character before each quote and escape character of the value,
             and perhaps before a comma or line end; none outside quotes, but in \\N, which is no value

If no escape is given, a row is rejected where a backslash stands before a value's first inner quote, its closing quote
or a line end. The value holds the backslash in one dialect, and what follows the backslash in another. Where the first
bytes of a file have quotes that only a backslash can mean, two backslashes in a quoted value are rejected too.

A malformed row ends at the first line end where a row ends in two lenient readings, one of doubled and one of escaped
quotes. Otherwise lines within a value could pass for rows. So a quote that is not closed takes the lines up to the next
quotes with it, or all lines of the file.

The patterns are possessive (`*+`): a match never goes back, so its time grows with the bytes and not with their square.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedIOBase

from tidewheel.jobs.importing.options import Dialect
from tidewheel.jobs.importing.streams import text_of
from tidewheel.jobs.importing.work import MALFORMED, FileProblem

_FIRST_BYTES = 1024 * 1024
_BLOCK_BYTES = 8 * 1024 * 1024
_LONGEST_ROW = 16 * 1024 * 1024
_OVER_LINES = ", and takes later lines with it, which may be parts of its values"
_HINT = "; if backslashes escape quotes in the file, give --csv-escape '\\', if quotes are doubled, --csv-escape '\"'"
_EMPTY_LINES = r"(?:\r*+\n)*+"


class RowTooLong(Exception):
    """A row is too long, or its quotes are not closed."""


Malformed = tuple[dict[str, int], str, str]
"""Lines that are no row: how many they are, if several, the kind of problem, and their text."""


Row = Callable[[str], str]
"""Returns the pattern of a row. Its argument is the quantifier of the values after the first."""


def _row(value: str, columns: str, end: str = r"\r*+\n") -> str:
    """Returns the pattern of a row, by that of a value with its quotes, and that of the end of the row."""
    return f"{value}(?:,{value}){columns}{end}"


def _doubled(q: str) -> Row:
    """Values of a dialect that doubles quotes: `""` ends one piece of the value, and begins the next."""
    return partial(_row, f"(?:(?:{q}[^{q}]*+{q})++|[^{q},\\r\\n]*+)")


def _escaped(q: str, e: str) -> Row:
    """Values of a dialect with an escape character."""
    return partial(
        _row, f"(?:{q}[^{q}{e}]*+(?:{e}[{q}{e},\\r\\n][^{q}{e}]*+)*+{q}|{e}N(?=[,\\r\\n])|[^{q}{e},\\r\\n]*+)"
    )


def _doubled_or_escaped(q: str, *, escapes: bool) -> Row:
    """Values that are the same in both dialects, for a file whose dialect nobody named.

    Args:
        escapes: the file has quotes that only a backslash can mean.
    """
    after_backslash = r"(?![\r\n\\])" if escapes else r"(?![\r\n])"
    piece = rf"{q}[^{q}\\]*+(?:\\{after_backslash}[^{q}\\]*+)*+{q}"
    no_backslash = rf"(?<!\\{q})"
    quoted = f"{piece}{no_backslash}(?:{piece})*+{no_backslash}"
    return partial(_row, f"(?:{quoted}|[^{q},\\r\\n]*+)", end=r"(?<!\\)\r*+\n")


def _lenient(q: str, e: str) -> list[str]:
    """Rows of any text, with doubled and with escaped quotes. They find where a malformed row ends."""
    doubled = f"(?:(?:{q}[^{q}]*+{q})++(?!{q})|(?!{q}))[^,\\n]*+"
    escaped = f"(?:{q}[^{q}{e}]*+(?:{e}.[^{q}{e}]*+)*+{q}|(?!{q}))[^,\\n{e}]*+(?:{e}.[^,\\n{e}]*+)*+"
    return [_row(value, "*+", r"\n") for value in ([doubled] if e == q else [doubled, escaped])]


def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.DOTALL)


class StrictCsv:
    """Reads the rows of a file as bytes."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._quote = re.escape(dialect.quote)
        self._escape = re.escape(dialect.escape or "\\")
        self._row = self._row_of(b"")
        self._lenient = [_compiled(reading) for reading in _lenient(self._quote, self._escape)]
        self._null = _compiled(rf"(?<![^,\n]){self._escape}N(?=[,\r\n])")

    def _row_of(self, first_bytes: bytes) -> Row:
        if self._dialect.escape is None:
            only_escaped = _compiled(rf"\\{self._quote}[^{self._quote},\r\n]")
            return _doubled_or_escaped(self._quote, escapes=only_escaped.search(first_bytes) is not None)
        return _doubled(self._quote) if self._dialect.doubled else _escaped(self._quote, self._escape)

    def header(self, stream: BufferedIOBase) -> tuple[bytes, bytes]:
        """Reads the first row. Returns it, and the bytes after it that were read. A file without rows has no header.

        Raises:
            FileProblem: the row is malformed, or not UTF-8.
        """
        data = more = text_of(stream.read(_FIRST_BYTES))
        self._row = self._row_of(data)
        first_row = _compiled(f"{_EMPTY_LINES}({self._row('*+')})")
        while more and first_row.match(data) is None and len(data) <= _LONGEST_ROW:
            more = stream.read(_BLOCK_BYTES)
            data += more or b"\n"
        if not data.strip():
            return b"", b""
        if (found := first_row.match(data)) is not None:
            return found[1], data[found.end() :]
        raise FileProblem(f"its first row is no header: a quote is wrong, or its lines end in CR alone{_HINT}")

    def blocks(self, stream: BufferedIOBase, data: bytes, columns: int) -> Iterator[tuple[bytes, list[Malformed]]]:
        """Yields whole rows. In the places of malformed rows stand rows with a column too many.

        Args:
            stream: the file.
            data: the bytes after the header that were read already.
            columns: of the header.

        Raises:
            FileProblem: the file cannot be read.
            RowTooLong: the row after those that were yielded is too long.
        """
        rows = _compiled(f"(?:{self._row(f'{{{columns - 1}}}+')}|\\r*+\\n)*+")
        more = data or b"\n"
        while more:
            more = stream.read(_BLOCK_BYTES)
            data += more or b"\n"
            found, malformed, start = [], [], 0
            while True:
                end = start + _length(rows.match(data, start))
                good = data[start:end]
                found.append(good if self._dialect.doubled else self._null.sub(b"", good))
                start = self._end_of_malformed(data, end) or (end if more else len(data))
                if start == end:
                    break
                found.append(b"," * columns + b"\n")
                malformed.append(self._malformed(data[end:start]))
            if any(found):
                yield b"".join(found), malformed
            data = data[start:]
            if len(data) > _LONGEST_ROW:
                raise RowTooLong(f"is longer than {_LONGEST_ROW:,} bytes, or its quotes are not closed{_HINT}")

    def _end_of_malformed(self, data: bytes, start: int) -> int | None:
        """Returns where a row ends in every reading. None if it does not in these bytes."""
        ends = [start + _length(reading.match(data, start)) for reading in self._lenient]
        while (first := min(ends)) < max(ends):
            late = ends.index(first)
            further = _length(self._lenient[late].match(data, first))
            if not further:
                return None
            ends[late] = first + further
        return first if first > start else None

    def _malformed(self, row: bytes) -> Malformed:
        text = row.decode(errors="replace").rstrip("\r\n")
        hint = _HINT if self._dialect.escape is None and "\\" in text else ""
        lines = text.count("\n") + 1
        several = lines > 1
        return {"lines": lines} if several else {}, f"{MALFORMED}{_OVER_LINES if several else ''}{hint}", text


def _length(found: re.Match[bytes] | None) -> int:
    return 0 if found is None else found.end() - found.start()
