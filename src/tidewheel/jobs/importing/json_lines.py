"""Reads JSON lines. Objects, lists, numbers and flags are kept as they stand in the line.

A file that is not compressed is divided at any bytes: a part has the lines that begin in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.rejects import columns_of
from tidewheel.jobs.importing.streams import Stream, stream_of, text_of
from tidewheel.jobs.importing.texts import from_base64
from tidewheel.jobs.importing.work import ENCODING, MALFORMED, FileProblem, Mask, Part, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding
from tidewheel.model.untrusted import json_of

_BLOCK_BYTES = 4 * 1024 * 1024
_FIRST_BYTES = 1024 * 1024
_LONGEST_LINE = 16 * 1024 * 1024
_WRONG_TYPE = re.compile(r"Expected `.*`, got `(\w+)`(?: - at `\$\.(.*)`)?\Z")
_NO_FIELD = re.compile(r'["\\\x00-\x1f]')
_TIME = int | float | str | None
_LINES = msgspec.json.Decoder(str)


def read_lines(location: Location, part: Part, needed: Mapping[str, str]) -> Iterator[Rows]:
    """Reads the lines of a part.

    Args:
        needed: columns that the first lines must have, by option. A misspelt name ends here.

    Raises:
        FileProblem: none of the first lines has a column, a line is too long, or the file cannot be read.
    """
    read = _Lines(part.columns)
    line = None if part.first else 1
    for offset, block in _blocks(stream_of(location, part.file), part):
        text = block
        if not offset:
            text = text_of(block)
            _check_names(text[:_FIRST_BYTES], needed)
        if text:
            yield read.block(text, line=line, offset=offset)
        line = None if line is None else line + text.count(b"\n")


def _blocks(stream: Stream, part: Part) -> Iterator[tuple[int, bytes]]:
    """Yields whole lines that begin in a part, with the place of the first."""
    # A line that begins exactly at the part's first byte is the part's: the byte before tells.
    offset, rest, more = max(0, part.first - 1), b"", b"\n"
    if offset:
        stream.seek(offset)
    in_part = not offset
    while more and (part.is_whole or offset < part.end):
        more = stream.read(_BLOCK_BYTES)
        data = rest + more
        end = data.rfind(b"\n") + 1 if more else len(data)
        if not part.is_whole and offset + end > part.end:
            # The last line of the part ends at the first line end from here on.
            end = data.find(b"\n", part.end - offset - 1) + 1 or end
        if len(data) - end > _LONGEST_LINE:
            where = f"the line at byte {offset + end}"
            raise FileProblem(f"{where} is longer than {_LONGEST_LINE:,} bytes; is it a file of JSON lines?")
        begin = 0 if in_part else data.find(b"\n") + 1
        in_part = in_part or begin > 0
        if in_part and end > begin:
            yield offset + begin, data[begin:end]
        offset, rest = offset + end, data[end:]


def _check_names(text: bytes, needed: Mapping[str, str]) -> None:
    names: dict[str, None] = {}
    lines = text.split(b"\n")
    for line in lines if len(lines) == 1 else lines[:-1]:
        with suppress(ValueError):
            given = json_of(line)
            names |= dict.fromkeys(given) if isinstance(given, dict) else {}
    for option, name in needed.items():
        if names and name not in names:
            shown = ", ".join(names)
            advice = "if it is rare, put a line that has it first"
            raise FileProblem(f"no column {name!r} ({option}) in its first lines; there are: {shown}; {advice}")


class _Lines:
    """Decodes blocks of lines."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        raw = msgspec.Raw
        fields: dict[str, tuple[str, Any, Any]] = {
            "due": (columns.deliver_at, _TIME, None),
            "body": (columns.body, raw, raw()),
        }
        for field, name, type_, default in (
            ("key", columns.key, Any, None),
            ("attributes", columns.attributes, raw, raw()),
            ("expires", columns.expires_at, _TIME, None),
            ("group", columns.group, Any, None),
            ("packed", ENCODING, Any, None),
        ):
            if name is not None:
                fields[field] = (name, type_, default)
        for name, _, _ in fields.values():
            if _NO_FIELD.search(name):
                raise FileProblem(f"a column named {name!r} cannot be read; name it without quotes and backslashes")
        self._fields = tuple(fields)
        row = msgspec.defstruct(
            "Line",
            [(field, type_, default) for field, (_, type_, default) in fields.items()],
            rename={field: name for field, (name, _, _) in fields.items()},
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(row, float_hook=str)  # a key is its number as it stands

    def block(self, block: bytes, *, line: int | None, offset: int) -> Rows:
        """Decodes the lines of a block. `line` is the first line's number, `offset` the block's place in the file."""
        numbers: list[int] | None = None
        malformed: list[tuple[int, str, str]] = []
        found: list[Any] | None
        try:
            found = self._decoder.decode_lines(block)
            if len(found) != block.count(b"\n") + (not block.endswith(b"\n")):
                found = None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found = None
        if found is None and not block.strip():
            found = []  # a bomb of empty lines would take long below
        if found is None:
            found, numbers, malformed = self._one_by_one(block)
        starts: list[int] = []
        lines: list[bytes] = []

        def line_of(number: int) -> bytes:
            if not lines:
                lines.extend(block.split(b"\n"))
                starts.extend(np.cumsum([0, *(len(each) + 1 for each in lines)]).tolist())
            return lines[number]

        def place(number: int) -> dict[str, Any]:
            line_of(number)
            return {"line": line + number} if line is not None else {"byte": offset + starts[number]}

        def number_of(row: int) -> int:
            return row if numbers is None else numbers[row]

        return self._rows(
            found,
            may_be_packed=ENCODING.encode() in block,
            place=lambda row: place(number_of(row)),
            given=lambda row: columns_of(line_of(number_of(row)).decode(errors="surrogateescape")),
            malformed=[(place(number), kind, text) for number, kind, text in malformed],
        )

    def _one_by_one(self, block: bytes) -> tuple[list[Any], list[int], list[tuple[int, str, str]]]:
        found, numbers, malformed = [], [], []
        for number, line in enumerate(block.split(b"\n")):
            if not line.strip():
                continue
            try:
                found.append(self._decoder.decode(line))
                numbers.append(number)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                malformed.append((number, _problem_of(error), line.decode(errors="surrogateescape").rstrip("\r")))
        return found, numbers, malformed

    def _rows(self, found: list[Any], *, may_be_packed: bool, **about: Any) -> Rows:
        payload, encoding = _bodies([bytes(row.body) for row in found])
        columns: dict[str, Any] = {}
        wrong: dict[str, Mask] = {}
        if may_be_packed:
            packed = np.fromiter((row.packed == "bytes" for row in found), bool, len(found))
            kind = f"{self._columns.body} is not base64, as its {ENCODING} says"
            payload, not_base64 = from_base64(payload, packed)
            wrong[kind] = not_base64 | (packed & (encoding == Encoding.JSON))
            encoding[packed] = Encoding.BYTES
        for field, name in (("key", self._columns.key), ("group", self._columns.group)):
            if field in self._fields:
                values = [getattr(row, field) for row in found]
                columns[field] = _texts(values)
                if columns[field].null_count < len(found):
                    kind = f"{name} is an object or a list; give text or a number"
                    wrong[kind] = np.fromiter((isinstance(value, (dict, list)) for value in values), bool, len(found))
        if "expires" in self._fields:
            columns["expires"] = _times([row.expires for row in found])
        if "attributes" in self._fields:
            raw = [bytes(row.attributes) or None for row in found]
            columns["attributes"] = pa.array([_unquoted(each) for each in raw], pa.binary())
        due = _times([row.due for row in found])
        return Rows(columns=self._columns, due=due, payload=payload, encoding=encoding, wrong=wrong, **columns, **about)


def _problem_of(error: Exception) -> str:
    """Returns the kind of a line's problem, which quotes no value."""
    wrong = _WRONG_TYPE.match(str(error))
    if wrong is None:
        return MALFORMED
    name, found = wrong[2] or "the line", wrong[1]
    return f"{name} is of JSON's type {found}; give {'text or a number' if wrong[2] else 'an object'}"


def _bodies(raw: list[bytes]) -> tuple[pa.BinaryArray, Any]:
    """Returns bodies and their encodings. All but text is JSON as it stands; null is no body."""
    first = np.fromiter((each[0] if each else 0 for each in raw), np.uint8, len(raw))
    quoted, none = first == ord('"'), (first == ord("n")) | (first == 0)
    encoding = np.where(quoted | none, Encoding.TEXT, Encoding.JSON).astype(np.int8)
    if quoted.any():
        texts = iter(_decoded([each for each, is_text in zip(raw, quoted, strict=True) if is_text]))
        raw = [next(texts) if is_text else each for each, is_text in zip(raw, quoted, strict=True)]
    return pa.array(raw, pa.binary(), mask=none), encoding


def _decoded(quoted: list[bytes]) -> list[bytes]:
    """Returns JSON strings as UTF-8. A string with half a surrogate pair becomes bytes that no check accepts."""
    try:
        return [each.encode() for each in _LINES.decode_lines(b"\n".join(quoted))]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return [_one_decoded(each) for each in quoted]


def _one_decoded(quoted: bytes) -> bytes:
    try:
        return _LINES.decode(quoted).encode()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return b"\xff" + quoted


def _unquoted(raw: bytes | None) -> bytes | None:
    return _one_decoded(raw) if raw is not None and raw[:1] == b'"' else None if raw == b"null" else raw


def _texts(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([v if isinstance(v, str | None) else json.dumps(v) for v in values], pa.string())


def _times(values: list[Any]) -> pa.Array:
    try:
        found = pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([v if isinstance(v, str | None) else repr(v) for v in values], pa.string())
    # Whole numbers beside others: Arrow makes all of them floats, which hold the milliseconds of ten thousand years.
    return found
