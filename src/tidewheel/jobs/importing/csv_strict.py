"""Divides CSV into rows strictly. Rejects rows outside the dialect, and never repairs them.

    row      field , field ... line end     as many fields as the header has
    field    "..." with doubled quotes, or text without quotes, commas and line ends
             with an escape character: "..." with this character before each quote and escape character of the value,
             and perhaps before a comma or line end; none outside quotes, but in \\N, which is no value

If no escape is given, a row is rejected where a backslash stands before a value's first inner quote, its closing quote
or a line end. The value holds the backslash in one dialect, and what follows the backslash in another. Where the first
bytes of a file have quotes that only a backslash can mean, two backslashes in a quoted value are rejected too.

A malformed row ends at the first line end where a row ends in two lenient readings, one of doubled and one of escaped
quotes. Otherwise lines within a value could pass for rows. So a quote that is not closed takes the lines up to the next
quotes with it, or all lines of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidewheel.jobs.importing.options import Dialect
from tidewheel.jobs.importing.streams import Stream, text_of
from tidewheel.jobs.importing.work import MALFORMED, FileProblem

_FIRST_BYTES = 1024 * 1024
_BLOCK_BYTES = 8 * 1024 * 1024
_LONGEST_ROW = 16 * 1024 * 1024
_OVER_LINES = ", and takes later lines with it, which may be parts of its values"
_HINT = "; if backslashes escape quotes in the file, give --csv-escape '\\', if quotes are doubled, --csv-escape '\"'"
_ESCAPED_END = re.compile(rb"\\[\r\n]")
_TEXT = "[^Q]*+"
_TEXT_OF_LINES = r"[^Q\\]*+(?:\\(?![\r\n])[^Q\\]*+)*+"
"""Has no backslash before a line end. Takes longer."""
_TEXT_OF_ESCAPES = r"[^Q\\]*+(?:\\(?![\r\n\\])[^Q\\]*+)*+"
"""Has no backslash before another either."""


class RowTooLong(Exception):
    """A row is too long, or its quotes are not closed."""


Malformed = tuple[dict[str, int], str, str]
"""Lines that are no row: how many they are, if several, the kind of problem, and their text."""


class StrictCsv:
    """Reads the rows of a file as bytes."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._escapes = False
        plain, end = r"[^Q,\r\n]*+", r"\r*+\n"
        if dialect.escape is None:
            quoted, end = r"QTQ(?<!\\Q)(?:QTQ)*+(?<!\\Q)", r"(?<!\\)\r*+\n"
        elif dialect.doubled:
            quoted = r"(?:Q[^Q]*+Q)++"
        else:
            quoted, plain = r"Q[^QE]*+(?:E[QE,\r\n][^QE]*+)*+Q", r"(?:EN(?=[,\r\n])|[^QE,\r\n]*+)"
        self._field, self._end = f"(?:{quoted}|{plain})", end
        lenient = [r"(?:(?:Q[^Q]*+Q)++(?!Q)|(?!Q))[^,\n]*+"]
        if dialect.escape != dialect.quote:
            lenient.append(r"(?:Q[^QE]*+(?:E.[^QE]*+)*+Q|(?!Q))[^,\nE]*+(?:E.[^,\nE]*+)*+")
        self._lenient = [self._pattern(rf"{field}(?:,{field})*+\n") for field in lenient]
        self._null = self._pattern(r"(?<![^,\n])EN(?=[,\r\n])")

    def _pattern(self, text: str, quoted_text: str = _TEXT) -> re.Pattern[bytes]:
        """Compiles a pattern in which Q and E stand for the quote and the escape character, and T for quoted text."""
        text = text.replace("T", quoted_text).replace("Q", re.escape(self._dialect.quote))
        text = text.replace("E", re.escape(self._dialect.escape or "\\"))
        return re.compile(text.encode(), re.DOTALL)

    def header(self, stream: Stream) -> tuple[bytes, bytes]:
        """Reads the first row. Returns it, and the bytes after it that were read. A file without rows has no header.

        Raises:
            FileProblem: the row is malformed, or not UTF-8.
        """
        pattern = self._pattern(rf"(?:\r*+\n)*+({self._field}(?:,{self._field})*+{self._end})")
        data = more = text_of(stream.read(_FIRST_BYTES))
        self._escapes = self._dialect.escape is None and self._pattern(r"\\Q[^Q,\r\n]").search(data) is not None
        while more and pattern.match(data) is None and len(data) <= _LONGEST_ROW:
            more = stream.read(_BLOCK_BYTES)
            data += more or b"\n"
        if not data.strip():
            return b"", b""
        if (found := pattern.match(data)) is not None:
            return found[1], data[found.end() :]
        raise FileProblem(f"its first row is no header: a quote is wrong, or its lines end in CR alone{_HINT}")

    def blocks(self, stream: Stream, data: bytes, columns: int) -> Iterator[tuple[bytes, list[Malformed]]]:
        """Yields whole rows. In the places of malformed rows stand rows with a column too many.

        Args:
            stream: the file.
            data: the bytes after the header that were read already.
            columns: of the header.

        Raises:
            FileProblem: the file cannot be read.
            RowTooLong: the row after those that were yielded is too long.
        """
        text = rf"(?:{self._field}(?:,{self._field}){{{columns - 1}}}+{self._end}|\r*+\n)*+"
        fast, careful = self._pattern(text), self._pattern(text, _TEXT_OF_ESCAPES if self._escapes else _TEXT_OF_LINES)
        more = data or b"\n"
        while more:
            more = stream.read(_BLOCK_BYTES)
            data += more or b"\n"
            rows = careful if self._escapes or _ESCAPED_END.search(data) else fast
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
