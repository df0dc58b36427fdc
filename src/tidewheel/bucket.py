"""A bucket: one ledger's metadata, all that a plan needs to know which of its segments to read.

Encoded, a bucket's index is two byte strings in one item:

    slots      the portable roaring bitmap of the occupied slots
    segments   a zlib stream of unsigned LEB128 numbers:
                 first segment's offset, then a segment each:
                 length   rows   raw_bytes   first_deliver_at_ms - last_deliver_at_ms of the one before   last - first

Segments follow one another without a gap, so lengths give the offsets.

Where either is too large for an item that every dispatch reads, the ledger itself holds both in its *tail*, between its
last segment and its footer:

    tail       CRC-32 of the rest, 4 bytes LE | slots | segments

The item then has the tail's place, no segments, and a bitmap of coarser slots (number >> slot_shift) that is small
enough. `Bucket.with_tail` makes such a bucket complete.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import add, lt
from typing import NewType

from pyroaring import BitMap

from tidewheel.errors import CorruptLedger, CorruptMetadata
from tidewheel.foreign import decompressed
from tidewheel.segment import Segment

BucketId = NewType("BucketId", str)


INLINE_SEGMENTS_BYTES = 1024
"""A longer segment table is read from the tail, when it is needed."""
INLINE_SLOTS_BYTES = 16 * 1024
"""A larger bitmap is read from the tail; the item has a coarser one."""
_CHECKSUM_BYTES = 4
_SEGMENTS_BYTES = 64 * 1024 * 1024
"""Of a segment table before compression: that of five million segments. What is longer is no table."""
_NUMBER_BITS = 63
# Of the portable form of a bitmap.
_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
_ARRAY_NUMBERS = 4096
_BITSET_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Where a ledger holds its own index: the bitmap of slots, and behind it the segment table.

    Attributes:
        offset: of its first byte in the object.
        slots_bytes: length of the bitmap, which follows the checksum.
        segments_bytes: length of the segment table.
    """

    offset: int
    slots_bytes: int
    segments_bytes: int

    @classmethod
    def of_tag(cls, text: str) -> Tail:
        """Reads what `tag` returned.

        Raises:
            ValueError: it is not that.
        """
        offset, slots_bytes, segments_bytes = map(int, text.split(","))
        if min(offset, slots_bytes, segments_bytes) < 0:
            raise ValueError(f"{text!r} has a number below 0")
        return cls(offset=offset, slots_bytes=slots_bytes, segments_bytes=segments_bytes)

    @property
    def tag(self) -> str:
        """Its place, as the ledger's own footer holds it."""
        return f"{self.offset},{self.slots_bytes},{self.segments_bytes}"

    @property
    def length(self) -> int:
        """Its bytes altogether."""
        return _CHECKSUM_BYTES + self.slots_bytes + self.segments_bytes

    def checksum_matches(self, data: bytes) -> bool:
        """Whether bytes are those of a tail of this length, undamaged."""
        checksum, rest = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
        return len(data) == self.length and zlib.crc32(rest) == int.from_bytes(checksum, "little")

    @property
    def needed(self) -> bool:
        """Whether the index is too large for an item."""
        return self.slots_bytes > INLINE_SLOTS_BYTES or self.segments_bytes > INLINE_SEGMENTS_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Metadata of one live ledger.

    Attributes:
        id: hash of the ledger's content, or of what it was merged from: the same one committed twice is one bucket.
        object_name: the ledger's key in S3.
        size_bytes, rows: of the whole ledger.
        slots: occupied slots, each shifted right by `slot_shift` bits.
        segments: its segments, in order of time and of offset; none while they are in the tail only.
        tail: where the ledger holds its index, if not in the item.
        slot_shift: above 0 if `slots` is coarse.
    """

    id: BucketId
    object_name: str
    size_bytes: int
    rows: int
    slots: BitMap
    segments: tuple[Segment, ...]
    tail: Tail | None = None
    slot_shift: int = 0

    @property
    def first_slot(self) -> int:
        """The first slot that holds a message; a lower bound of it if `slots` is coarse."""
        return int(self.slots.min()) << self.slot_shift

    @property
    def last_slot(self) -> int:
        """The last slot that holds a message; an upper bound of it if `slots` is coarse."""
        return ((int(self.slots.max()) + 1) << self.slot_shift) - 1

    @property
    def complete(self) -> bool:
        """Whether nothing of the index is in the tail only."""
        return bool(self.segments) and not self.slot_shift

    def next_slot(self, at_or_after: int) -> int | None:
        """Returns the first occupied slot at or after one, or a lower bound of it if `slots` is coarse."""
        if self.last_slot < at_or_after:
            return None
        return max(at_or_after, int(self.slots.next_set_bit(at_or_after >> self.slot_shift)) << self.slot_shift)

    def occupies(self, a: int, b: int) -> bool:
        """Whether it holds messages of slots [a, b); if `slots` is coarse, whether it may."""
        slot = self.next_slot(a)
        return slot is not None and slot < b

    def share(self, a: int, b: int) -> float:
        """Returns which share of its occupied slots lies in [a, b), about."""
        inside = self.slots.range_cardinality(a >> self.slot_shift, (b - 1 >> self.slot_shift) + 1) if a < b else 0
        return float(inside) / len(self.slots)

    def with_tail(self, data: bytes) -> Bucket:
        """Returns the complete bucket, given the bytes of its tail.

        Raises:
            CorruptLedger: they are not that.
        """
        assert self.tail is not None
        if not self.tail.checksum_matches(data):
            last_byte = self.tail.offset + self.tail.length - 1
            raise CorruptLedger(self.object_name, self.tail.offset, last_byte, "the tail is damaged; rebuild the index")
        rest = data[_CHECKSUM_BYTES:]
        try:
            slots = decode_slots(rest[: self.tail.slots_bytes])
            segments = decode_segments(rest[self.tail.slots_bytes :])
        except CorruptMetadata as error:
            last_byte = self.tail.offset + self.tail.length - 1
            raise CorruptLedger(self.object_name, self.tail.offset, last_byte, str(error)) from None
        return replace(self, slots=slots, segments=segments, slot_shift=0)

    def without_tail(self) -> Bucket:
        """Returns what an item holds of it: what is too large is left to the tail, if there is one."""
        if self.tail is None:
            return self
        segments = self.segments if self.tail.segments_bytes <= INLINE_SEGMENTS_BYTES else ()
        slots, shift = self.slots, self.slot_shift
        while len(encode_slots(slots)) > INLINE_SLOTS_BYTES:
            slots, shift = BitMap(slot >> 1 for slot in slots), shift + 1
        return replace(self, slots=slots, slot_shift=shift, segments=segments if shift == 0 else ())


def content_id(data: bytes | memoryview) -> BucketId:
    """Returns the id of a bucket whose ledger has these bytes: 128 bits of BLAKE2b, in hex."""
    return BucketId(hashlib.blake2b(data, digest_size=16).hexdigest())


def encode_slots(slots: BitMap) -> bytes:
    """Returns the portable form of a bitmap, with runs where they are shorter."""
    compact = BitMap(slots)
    compact.run_optimize()
    return bytes(compact.serialize())


def decode_slots(data: bytes) -> BitMap:
    """Reads `encode_slots`' result.

    CRoaring believes what a bitmap says of its containers, so that one that lies makes it read and write beyond them,
    and find nothing in what is not in order. All that it believes is checked here.

    Raises:
        CorruptMetadata: it is no bitmap, or an empty one.
    """
    try:
        _check_containers(data)
        slots = BitMap.deserialize(data)
        if not slots:
            raise ValueError("there are no slots in it")
    except (ValueError, IndexError, OverflowError) as error:
        raise CorruptMetadata(f"bitmap of {len(data)} bytes is not readable ({error})") from None
    return slots


def _check_containers(data: bytes) -> None:
    """Raises ValueError unless each container has as many numbers as the bitmap says, of 16 bits each, in order.

    The layout is that of https://github.com/RoaringBitmap/RoaringFormatSpec.
    """
    cookie = int.from_bytes(data[:4], "little")
    with_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if not with_runs and cookie != _COOKIE:
        raise ValueError("no cookie of a bitmap")
    containers = (cookie >> 16) + 1 if with_runs else int.from_bytes(data[4:8], "little")
    flags = data[4 : 4 + (containers + 7) // 8] if with_runs else b""
    at = 4 + len(flags) if with_runs else 8
    heads = _shorts(data, at, 2 * containers)
    at += 4 * containers
    if not with_runs or containers >= _NO_OFFSETS_BELOW:
        at += 4 * containers
    if any(key >= following for key, following in pairwise(heads[::2])):
        raise ValueError("its containers are not in order")
    for number, less_one in enumerate(heads[1::2]):
        if with_runs and flags[number // 8] >> number % 8 & 1:
            [runs] = _shorts(data, at, 1)
            pairs = _shorts(data, at + 2, 2 * runs)
            starts, more = pairs[::2], pairs[1::2]
            ends = list(map(add, starts, more))
            held = sum(more) + runs
            if not all(map(lt, ends, starts[1:])) or ends[-1:] > [0xFFFF]:
                raise ValueError("a run ends behind the next, or outside of its container")
            at += 2 + 4 * runs
        elif less_one < _ARRAY_NUMBERS:
            numbers = _shorts(data, at, less_one + 1)
            if not all(map(lt, numbers, numbers[1:])):
                raise ValueError("its numbers are not in order")
            held = len(numbers)
            at += 2 * held
        else:
            held = int.from_bytes(data[at : at + _BITSET_BYTES], "little").bit_count()
            at += _BITSET_BYTES
        if held != less_one + 1:
            raise ValueError("a container holds more or fewer numbers than it says")
    if at != len(data):
        raise ValueError(f"its containers end at {at}")


def _shorts(data: bytes, at: int, count: int) -> array[int]:
    """Returns some numbers of 16 bits, little-endian; ValueError if the data ends before."""
    piece = data[at : at + 2 * count]
    if len(piece) != 2 * count:
        raise ValueError("it ends within a container")
    found = array("H", piece)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def encode_tail(slots: BitMap, segments: Sequence[Segment], *, offset: int) -> tuple[bytes, Tail]:
    """Returns a ledger's tail, and where it is if it begins at an offset."""
    bitmap, table = encode_slots(slots), encode_segments(segments)
    checksum = zlib.crc32(table, zlib.crc32(bitmap)).to_bytes(_CHECKSUM_BYTES, "little")
    return checksum + bitmap + table, Tail(offset=offset, slots_bytes=len(bitmap), segments_bytes=len(table))


def encode_segments(segments: Sequence[Segment]) -> bytes:
    """Returns the segment table; at most 13 bytes a segment before compression, as a rule."""
    out = bytearray()
    _put(out, segments[0].offset)
    before = 0
    for segment in segments:
        _put(out, segment.length)
        _put(out, segment.rows)
        _put(out, segment.raw_bytes)
        _put(out, segment.first_deliver_at_ms - before)
        _put(out, segment.last_deliver_at_ms - segment.first_deliver_at_ms)
        before = segment.last_deliver_at_ms
    return zlib.compress(bytes(out), 9)


def decode_segments(data: bytes) -> tuple[Segment, ...]:
    """Reads a segment table.

    Raises:
        CorruptMetadata: it is not one.
    """
    try:
        numbers = _numbers(decompressed(data, _SEGMENTS_BYTES))
        offset = next(numbers)
        found: list[Segment] = []
        before = 0
        for length in numbers:
            rows, raw_bytes, gap, span = next(numbers), next(numbers), next(numbers), next(numbers)
            first = before + gap
            before = first + span
            found.append(
                Segment(
                    offset=offset,
                    length=length,
                    rows=rows,
                    raw_bytes=raw_bytes,
                    first_deliver_at_ms=first,
                    last_deliver_at_ms=before,
                )
            )
            offset += length
        if not found:
            raise ValueError("no segments")
    except (ValueError, StopIteration) as error:
        raise CorruptMetadata(f"segment table of {len(data)} bytes is not readable ({error!r})") from None
    return tuple(found)


def slots_of(numbers: Iterable[int]) -> BitMap:
    """Returns the bitmap of some slots."""
    return BitMap(numbers)


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
        elif shift > _NUMBER_BITS:
            raise ValueError("a number has no end")
    if shift:
        raise ValueError("it ends within a number")
