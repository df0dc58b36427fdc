"""Reads JSON lines. Objects, lists, numbers and flags are kept as they stand in the line.

A file that is not compressed is divided at any bytes: a part has the lines that begin in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from itertools import accumulate

import msgspec
import numpy as np
import pyarrow as pa

from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.rejects import columns_of
from tidewheel.jobs.importing.streams import check_expanded, stream_of, text_of
from tidewheel.jobs.importing.texts import from_base64
from tidewheel.jobs.importing.work import ENCODING, MALFORMED, FileProblem, Part, Present, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding

_BLOCK_BYTES = 4 * 1024 * 1024
_LONGEST_LINE = 16 * 1024 * 1024
_LINE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Line = dict[str, msgspec.Raw]
Where = tuple[str, Sequence[int]]
"""For people: what the places of lines are called, and the place of each line."""


def read_lines(location: Location, part: Part, columns: Columns, present: Present) -> Iterator[Rows]:
    """Reads the lines of a part.

    Raises:
        FileProblem: none of the first lines has a needed column, so that a misspelt name ends here, a line is too
            long, or the file cannot be read.
    """
    number = None if part.first else 1
    for offset, block in _blocks(stream_of(location, part.file), part):
        lines = (block if offset else text_of(block)).split(b"\n")
        if number is None:
            where: Where = ("byte", list(accumulate((len(each) + 1 for each in lines), initial=offset)))
        else:
            where = ("line", range(number, number + len(lines)))
            number += len(lines) - 1
        found, bad = _decoded(lines)
        if not offset and found:
            present(dict.fromkeys(name for line in found.values() for name in line))
        yield _rows(columns, lines, found, where, bad)


def _blocks(stream: BufferedIOBase, part: Part) -> Iterator[tuple[int, bytes]]:
    """Yields whole lines that begin in a part, with the place of the first."""
    offset = part.first
    if offset:  # a line that begins exactly there is the part's: the byte before tells
        stream.seek(offset - 1)
        offset += len(stream.readline(_LONGEST_LINE)) - 1
    while offset < part.end:
        block = stream.read(min(_BLOCK_BYTES, part.end - offset))
        if not block:
            return
        last = block.rfind(b"\n") + 1
        if last < len(block):
            block += stream.readline(_LONGEST_LINE)
        if len(block) - last > _LONGEST_LINE:
            where = f"the line at byte {offset + last}"
            raise FileProblem(f"{where} is longer than {_LONGEST_LINE:,} bytes; is it a file of JSON lines?")
        yield offset, block
        offset += len(block)
        check_expanded(part.file, offset)


def _decoded(lines: Sequence[bytes]) -> tuple[dict[int, Line], list[int]]:
    """Returns the objects of lines, by their places, and the places of lines that are no objects."""
    found: dict[int, Line] = {}
    bad: list[int] = []
    for place, line in enumerate(lines):
        if line.strip():
            try:
                found[place] = _LINE.decode(line)
            except _BAD:
                bad.append(place)
    return found, bad


def _rows(columns: Columns, lines: Sequence[bytes], objects: dict[int, Line], where: Where, bad: list[int]) -> Rows:
    """Maps lines."""
    places, found = list(objects), list(objects.values())
    name_of_place, at = where

    def text(place: int) -> str:
        return lines[place].decode(errors="surrogateescape").rstrip("\r")

    raw = {name: [bytes(line.get(name, b"")) for line in found] for name in {*columns.names, ENCODING}}
    values = {name: pa.array(map(_plain, each), pa.binary()) for name, each in raw.items()}
    bodies = raw[columns.body]
    is_json = np.fromiter((each[:1] not in (b"", b"n", b'"') for each in bodies), bool, len(found))
    encoding = np.where(is_json, Encoding.JSON, Encoding.TEXT).astype(np.int8)
    packed = np.fromiter((each == b'"bytes"' for each in raw[ENCODING]), bool, len(found))
    wrong = {}
    for name in (columns.key, columns.group):
        if name is not None:
            nested = (each[:1] in (b"{", b"[") for each in raw[name])
            wrong[f"{name} is an object or a list; give text or a number"] = np.fromiter(nested, bool, len(found))
    if packed.any():
        values[columns.body], not_base64 = from_base64(values[columns.body], packed)
        wrong[f"{columns.body} is not base64, as its {ENCODING} says"] = not_base64 | (packed & is_json)
        encoding[packed] = Encoding.BYTES
    return Rows.mapped(
        columns,
        values.__getitem__,
        encoding=encoding,
        wrong=wrong,
        place=lambda row: {name_of_place: at[places[row]]},
        given=lambda row: columns_of(text(places[row])),
        malformed=[({name_of_place: at[place]}, MALFORMED, text(place)) for place in bad],
    )


def _plain(raw: bytes) -> bytes | None:
    """Returns a JSON string as UTF-8, and other JSON as it stands. null is no value.

    A string with half a surrogate pair becomes bytes that no check accepts.
    """
    if raw[:1] != b'"':
        return None if raw in (b"", b"null") else raw
    try:
        text: str = _TEXT.decode(raw)
        return text.encode()
    except _BAD:
        return b"\xff" + raw
