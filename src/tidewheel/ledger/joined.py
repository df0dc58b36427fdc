r"""Decodes many segments with a single call of Parquet's reader.

A segment has some 500 rows, and opening each as a file takes as long as decoding its rows. So segments, which may be of
different ledgers, are joined into one Parquet file in memory:

    joined   | "PAR1" | segment | segment | ... | footer | footer length, 4 bytes LE | "PAR1" |

The footer has the row group of each segment. Its entries are copied from the segments' own footers, and only the pages'
offsets differ. A segment's footer must be as `ledger/footer.py` writes it. Otherwise, and if anything is wrong, each
segment goes through `decode_segment`, which reads any footer and names the damage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidewheel.ledger.footer import (
    CHUNK_HEADS,
    LEAVES,
    MAGIC,
    STOP,
    STRUCT,
    Codec,
    footer_of,
    integer,
    list_head,
    number,
)
from tidewheel.ledger.ledger import UNREADABLE, decode_segment, unknown_values
from tidewheel.ledger.rows import times_of
from tidewheel.ledger.writer import SEGMENT_TAGS
from tidewheel.model import checksum
from tidewheel.model.plan import Segment

_LENGTH_BYTES = 4
_FRAME_BYTES = _LENGTH_BYTES + len(MAGIC)
_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_ROW_GROUPS = b"\x19" + list_head(1, STRUCT)
_COLUMNS = b"\x19" + list_head(len(LEAVES), STRUCT)
_END_OF_CHUNK = STOP + STOP


class StoredSegment(NamedTuple):
    """A segment and the segment's bytes.

    Attributes:
        object_name: the ledger's object, for the error.
        segment: the segment as its bucket describes it.
        data: the result of a range GET of the segment.
    """

    object_name: str
    segment: Segment
    data: bytes | memoryview


def decode_together(stored: Sequence[StoredSegment], columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the rows of segments in order, with all checks of `decode_segment`.

    Args:
        stored: the segments, at least one.
        columns: names of the columns wanted, in this order. None: all columns.

    Raises:
        CorruptLedger: a segment's bytes are not the segment. The first such segment is named.
    """
    try:
        joined = _join(stored)
        table = None if joined is None else _read(joined, [each.segment for each in stored], columns)
    except UNREADABLE:
        table = None
    if table is not None:
        return table if columns is None else table.select(list(columns))
    return pa.concat_tables(
        decode_segment(bytes(each.data), object_name=each.object_name, segment=each.segment, columns=columns)
        for each in stored
    )


def _join(stored: Sequence[StoredSegment]) -> bytes | None:
    """Returns the joined file, or None if a segment is damaged or has an unknown footer."""
    entries = []
    offset = len(MAGIC)
    for each in stored:
        if len(each.data) != each.segment.length:
            return None
        checksum.check(each.data)
        entry = _row_group(each.data, each.segment.rows, offset)
        if entry is None:
            return None
        entries.append(entry)
        offset += len(each.data)
    rows = sum(each.segment.rows for each in stored)
    return b"".join((MAGIC, *(each.data for each in stored), footer_of(rows, entries, {}, b"")))


def _row_group(data: bytes | memoryview, rows: int, offset: int) -> bytes | None:
    """Returns the entry of a segment's row group in the joined file, where the segment begins at an offset.

    Returns None if the footer is not as expected, has another number of rows, or names pages that are not contiguous.
    """
    end = len(data) - _FRAME_BYTES
    start = end - int.from_bytes(data[end : end + _LENGTH_BYTES], "little")
    framed = start > checksum.CHECKSUM_BYTES and data[-len(MAGIC) :] == MAGIC
    found = _FOOTER.fullmatch(data, start, end) if framed else None
    if found is None or {found["rows"], found["group_rows"]} != {integer(rows)}:
        return None
    pieces = found.groups()
    parts = [_COLUMNS]
    page, moved = checksum.CHECKSUM_BYTES + len(MAGIC), offset - len(MAGIC)
    for i in range(len(LEAVES)):
        head, encoded_bytes, at = pieces[3 * i + 1 : 3 * i + 4]
        if at != integer(page):
            return None
        parts += (head, b"\x26", integer(page + moved), _END_OF_CHUNK)
        page += number(encoded_bytes)
    if page != start + len(MAGIC):
        return None
    parts += (found["tail"], STOP)
    return b"".join(parts)


def _around() -> tuple[bytes, bytes]:
    """Returns the bytes before and behind the row group in a segment's footer."""
    before, after = footer_of(0, (_MARK,), SEGMENT_TAGS, b"")[:-_FRAME_BYTES].split(_MARK)
    return before.removesuffix(integer(0) + _ROW_GROUPS), after


def _footer_pattern() -> re.Pattern[bytes]:
    """Returns the pattern of a segment's footer, without length and magic."""
    before, after = _around()
    chunks = (
        rb"((?:%b)\x16%b\x16%b\x16(%b))\x26(%b)%b"
        % (b"|".join(re.escape(CHUNK_HEADS[i, codec]) for codec in Codec), *[_NUMBER] * 4, _END_OF_CHUNK)
        for i in range(len(LEAVES))
    )
    return re.compile(
        b"".join(
            (
                re.escape(before) + b"(?P<rows>%b)" % _NUMBER,
                re.escape(_ROW_GROUPS + _COLUMNS),
                *chunks,
                rb"(?P<tail>\x16%b\x16(?P<group_rows>%b))" % (_NUMBER, _NUMBER) + STOP,
                re.escape(after),
            )
        ),
        re.DOTALL,
    )


_MARK = b"\xff row group \xff"
_FOOTER = _footer_pattern()


def _read(joined: bytes, segments: Sequence[Segment], columns: Sequence[str] | None) -> pa.Table | None:
    """Returns the rows of the joined file, or None if they do not match the segments."""
    file = pq.ParquetFile(pa.BufferReader(joined), pre_buffer=False)
    wanted = None if columns is None else list({"deliver_at_ms", *columns})
    table = file.read(columns=wanted, use_threads=False)
    starts = [0, *accumulate(segment.rows for segment in segments)]
    if table.num_rows != starts.pop():
        return None
    # Parquet's readers do not check that texts are UTF-8, but messages must be.
    table.validate(full=True)
    times = times_of(table)
    first = [segment.first_deliver_at_ms for segment in segments]
    last = [segment.last_deliver_at_ms for segment in segments]
    as_said = (
        np.array_equal(np.minimum.reduceat(times, starts), first)
        and np.array_equal(np.maximum.reduceat(times, starts), last)
        and unknown_values(table) is None
    )
    return table if as_said else None
