"""Encodes a ledger's segments as a table of bytes, decoded on first use.

    sealed (`tidewheel.model.checksum`), a zlib stream of unsigned LEB128 numbers:
      first segment's offset, then a segment each:
      length   rows   raw_bytes   first_deliver_at_ms - last_deliver_at_ms of the one before   last - first   first_tail

Segments follow one another without a gap, so lengths give the offsets. No segment begins before the end of the previous
segment.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.footer import varint
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.plan import Segment
from tidewheel.model.untrusted import decompressed

_TABLE_BYTES = 64 * 1024 * 1024
"""Largest segment table before compression, for 2.5 million segments or more. Longer data is refused."""
_SEGMENT_NUMBERS = 6
# A number has at most eleven continuation bytes (77 bits) before its last byte, as the end of an id has.
_NO_END = bytes(12)
_ENDS = bytes(byte < 0x80 for byte in range(256))
_LAST_DELIVER_AT_MS = attrgetter("last_deliver_at_ms")


class SegmentTable(Sequence[Segment]):
    """The segments of a ledger, sorted by time and offset, and decoded on first use.

    Most plans need the segments of few buckets, and few segments of each. The constructor checks at once that the bytes
    are a table: complete numbers, six per segment. Such a table can always be decoded, so no error appears later.

    Args:
        raw: the table's bytes before compression.

    Raises:
        ValueError: the bytes are not a table.
    """

    __slots__ = ("_all", "_count", "_raw")

    def __init__(self, raw: bytes) -> None:
        ends = raw.translate(_ENDS)
        if _NO_END in ends:
            raise ValueError("a number has no end")
        self._raw = raw
        self._count, rest = divmod(ends.count(1), _SEGMENT_NUMBERS)
        if not self._count or rest != 1 or not ends.endswith(b"\1"):
            raise ValueError("it has no segments, or ends within one")
        self._all: tuple[Segment, ...] | None = None

    def touching(self, from_ms: int, until_ms: int) -> tuple[Segment, ...]:
        """Returns the segments whose span touches [from_ms, until_ms). Decodes no later segments."""
        found = []
        for record in self._records():
            if record[4] >= until_ms:
                break
            if record[5] >= from_ms:
                found.append(Segment(*record))
        return tuple(found)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SegmentTable):
            return self._raw == other._raw or self._read() == other._read()
        return self._read() == other if isinstance(other, tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._read())

    def _read(self) -> tuple[Segment, ...]:
        if self._all is None:
            self._all = tuple(Segment(*record) for record in self._records())
        return self._all

    def _records(self) -> Iterator[tuple[int, int, int, int, int, int, int]]:
        """Yields the numbers of each segment, in the order of its fields."""
        numbers = varints(self._raw)
        offset, last_ms = next(numbers), 0
        for length, rows, raw_bytes, gap_ms, span_ms, first_tail in zip(*[numbers] * _SEGMENT_NUMBERS, strict=True):
            first_ms = last_ms + gap_ms
            last_ms = first_ms + span_ms
            yield offset, length, rows, raw_bytes, first_ms, last_ms, first_tail
            offset += length


def touching(segments: Sequence[Segment], from_ms: int, until_ms: int) -> tuple[Segment, ...]:
    """Returns the segments whose span touches [from_ms, until_ms).

    The argument holds all of a ledger's segments, or a run of them.
    """
    if isinstance(segments, SegmentTable):
        return segments.touching(from_ms, until_ms)
    first = bisect_left(segments, from_ms, key=_LAST_DELIVER_AT_MS)
    end = first
    while end < len(segments) and segments[end].first_deliver_at_ms < until_ms:
        end += 1
    return tuple(segments[first:end])


def encode_segments(segments: Sequence[Segment]) -> bytes:
    """Returns the segment table.

    A segment usually takes at most 14 bytes before compression, and 25 if it begins within a millisecond.
    """
    out = bytearray(varint(segments[0].offset))
    before = 0
    for segment in segments:
        out += varint(segment.length) + varint(segment.rows) + varint(segment.raw_bytes)
        out += varint(segment.first_deliver_at_ms - before)
        out += varint(segment.last_deliver_at_ms - segment.first_deliver_at_ms) + varint(segment.first_tail)
        before = segment.last_deliver_at_ms
    return sealed(zlib.compress(bytes(out), 9))


def decode_segments(data: bytes) -> SegmentTable:
    """Reads the result of `encode_segments`. Checks the table, but does not decode segments.

    Raises:
        CorruptMetadata: the data is not a segment table.
    """
    try:
        return SegmentTable(decompressed(opened(data), _TABLE_BYTES))
    except ValueError as error:
        raise CorruptMetadata(f"segment table of {len(data)} bytes is not readable ({error!r})") from None


def varints(data: bytes) -> Iterator[int]:
    """Yields the numbers of which `varint` has made the data. A last number that is cut is left out.

    Raises:
        ValueError: a number has more than twelve bytes.
    """
    found = shift = 0
    for byte in data:
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield found
            found = shift = 0
        elif shift > 77:
            raise ValueError("a number has no end")
