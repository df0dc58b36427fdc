"""A bucket: one ledger's metadata, all that a plan needs to know which of its segments to read.

Encoded, a bucket's index is two byte strings in one item, each with its checksum in front (`tidewheel.model.checksum`):

    slots      the bitmap of the occupied slots (`tidewheel.ledger.slots`)
    segments   the segment table (`tidewheel.ledger.segment_table`)

Where either is too large for an item that every dispatch reads, the ledger itself holds both in its *tail*, between its
last segment and its footer:

    tail       slots | segments

The item then has the tail's place, no segments, and a bitmap of coarser slots (number >> slot_shift) that is small
enough. `Bucket.with_tail` makes such a bucket complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NewType

from pyroaring import BitMap

from tidewheel.errors import CorruptLedger, CorruptMetadata
from tidewheel.ledger.segment_table import SegmentTable, decode_segments, encode_segments
from tidewheel.ledger.slots import decode_slots, encode_slots
from tidewheel.model.segment import Segment

BucketId = NewType("BucketId", str)

INLINE_SEGMENTS_BYTES = 1024
"""A longer segment table is read from the tail, when it is needed."""
INLINE_SLOTS_BYTES = 16 * 1024
"""A larger bitmap is read from the tail; the item has a coarser one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Where a ledger holds its own index: the bitmap of slots, and behind it the segment table.

    Attributes:
        offset: of its first byte in the object.
        slots_bytes: length of the bitmap.
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
        return self.slots_bytes + self.segments_bytes

    def index(self, data: bytes, object_name: str) -> tuple[BitMap, SegmentTable]:
        """Reads the bytes of the tail.

        Raises:
            CorruptLedger: they are damaged.
        """
        try:
            return decode_slots(data[: self.slots_bytes]), decode_segments(data[self.slots_bytes :])
        except CorruptMetadata as error:
            last_byte = self.offset + self.length - 1
            raise CorruptLedger(object_name, self.offset, last_byte, f"the tail is damaged ({error})") from None

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
    segments: Sequence[Segment]
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

    def occupies(self, first_slot: int, end_slot: int) -> bool:
        """Whether it holds messages of slots [first_slot, end_slot); if `slots` is coarse, whether it may."""
        slot = self.next_slot(first_slot)
        return slot is not None and slot < end_slot

    def share(self, first_slot: int, end_slot: int) -> float:
        """Returns which share of its occupied slots lies in [first_slot, end_slot), about."""
        inside = (
            self.slots.range_cardinality(first_slot >> self.slot_shift, (end_slot - 1 >> self.slot_shift) + 1)
            if first_slot < end_slot
            else 0
        )
        return float(inside) / len(self.slots)

    def with_tail(self, data: bytes) -> Bucket:
        """Returns the complete bucket, given the bytes of its tail.

        Raises:
            CorruptLedger: they are not that.
        """
        assert self.tail is not None
        slots, segments = self.tail.index(data, self.object_name)
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


def encode_tail(slots: BitMap, segments: Sequence[Segment], *, offset: int) -> tuple[bytes, Tail]:
    """Returns a ledger's tail, and where it is if it begins at an offset."""
    bitmap, table = encode_slots(slots), encode_segments(segments)
    return bitmap + table, Tail(offset=offset, slots_bytes=len(bitmap), segments_bytes=len(table))
