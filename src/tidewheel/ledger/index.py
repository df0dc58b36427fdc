"""Encodes the index of a ledger: its occupied slots, its segments, and runs of slots with their bytes as weights.

The slots are a sealed (`tidewheel.model.checksum`) portable roaring bitmap, in the layout of
https://github.com/RoaringBitmap/RoaringFormatSpec. The checksum notices damage, and CRoaring checks the content of
containers (`roaring_bitmap_internal_validate`, which pyroaring calls since 1.0.1).

The segments are a table, sealed, a zlib stream of unsigned LEB128 numbers, decoded on first use:

    first segment's offset, then a segment each:
    length   rows   raw_bytes   first_deliver_at_ms - last_deliver_at_ms of the one before   last - first   first_tail

Segments follow one another without a gap, so lengths give the offsets. No segment begins before the end of the previous
segment.

A weight is a run of occupied slots:

    slots      |--0--|----1----|--------2--------|     of a ledger with a raw size of 1,000 bytes
    raw_bytes    700     250            50             most of its bytes are due soon

The segment table cannot say this: a small ledger is one segment, whose rows may be due over ten years. With weights, a
collection knows the dead bytes of every ledger without a read of S3. A run has at most a 16th of the ledger's bytes, or
is a single slot. Encoded: sealed unsigned LEB128 numbers, four a weight:

    first_slot - last_slot of the one before   last_slot - first_slot   raw_bytes   expires_s, 0 if a row never expires
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from pyroaring import BitMap

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
_WEIGHT_NUMBERS = 4


def encode_slots(slots: BitMap) -> bytes:
    """Returns the sealed portable form of a bitmap, with runs where runs are shorter."""
    compact = BitMap(slots)
    compact.run_optimize()
    return sealed(bytes(compact.serialize()))


def decode_slots(data: bytes) -> BitMap:
    """Reads the result of `encode_slots`.

    Raises:
        CorruptMetadata: the data is damaged, not a bitmap, or an empty bitmap.
    """
    try:
        slots = BitMap.deserialize(opened(data))
        if not slots:
            raise ValueError("there are no slots in it")
    except ValueError as error:
        raise CorruptMetadata(f"bitmap of {len(data)} bytes is not readable ({error})") from None
    return slots


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


class Weight(NamedTuple):
    """The rows of a run of slots.

    Attributes:
        first_slot, last_slot: the first and the last occupied slot.
        raw_bytes: as segments count them.
        expires_s: the second at which the last of the rows has expired. 0: a row never expires.
    """

    first_slot: int
    last_slot: int
    raw_bytes: int
    expires_s: int = 0


def encode_weights(weights: Iterable[Weight]) -> bytes:
    """Returns the weights of a bucket's item."""
    out = bytearray()
    before = 0
    for each in weights:
        for number in (each.first_slot - before, each.last_slot - each.first_slot, each.raw_bytes, each.expires_s):
            out += varint(number)
        before = each.last_slot
    return sealed(bytes(out))


def decode_weights(data: bytes) -> tuple[Weight, ...]:
    """Reads the result of `encode_weights`.

    Raises:
        CorruptMetadata: the data is damaged.
    """
    try:
        numbers = list(varints(opened(data)))
        if len(numbers) % _WEIGHT_NUMBERS or data[-1] >= 0x80:
            raise ValueError("it ends within a weight")
    except ValueError as error:
        raise CorruptMetadata(f"weights of {len(data)} bytes are not readable ({error})") from None
    found = []
    before = 0
    for gap, length, raw_bytes, expires_s in zip(*[iter(numbers)] * _WEIGHT_NUMBERS, strict=True):
        first_slot = before + gap
        before = first_slot + length
        found.append(Weight(first_slot, before, raw_bytes, expires_s))
    return tuple(found)


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
