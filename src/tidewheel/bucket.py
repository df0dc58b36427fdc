"""A bucket: one ledger's metadata, all that a plan needs to know which of its segments to read.

Encoded, a bucket's index is two byte strings in one item:

    slots      the portable roaring bitmap of the occupied slots
    segments   a zlib stream of unsigned LEB128 numbers:
                 first segment's offset, then a segment each:
                 length   rows   raw_bytes   first_deliver_at_ms - last_deliver_at_ms of the one before   last - first

Segments follow one another without a gap, so lengths give the offsets.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

from pyroaring import BitMap

from tidewheel.errors import CorruptMetadata
from tidewheel.segment import Segment

BucketId = NewType("BucketId", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Metadata of one live ledger.

    Attributes:
        id: hash of the ledger's content: the same content committed twice is one bucket.
        object_name: the ledger's key in S3.
        size_bytes, rows: of the whole ledger.
        slots: occupied slots.
        segments: its segments, in order of time and of offset.
    """

    id: BucketId
    object_name: str
    size_bytes: int
    rows: int
    slots: BitMap
    segments: tuple[Segment, ...]

    @property
    def first_slot(self) -> int:
        """The first slot that holds a message."""
        return int(self.slots.min())

    @property
    def last_slot(self) -> int:
        """The last slot that holds a message."""
        return int(self.slots.max())


def content_id(data: bytes | memoryview) -> BucketId:
    """Returns the id of a bucket whose ledger has these bytes: 128 bits of BLAKE2b, in hex."""
    return BucketId(hashlib.blake2b(data, digest_size=16).hexdigest())


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
        numbers = _numbers(zlib.decompress(data))
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
    except (zlib.error, StopIteration, RuntimeError, IndexError) as error:
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
