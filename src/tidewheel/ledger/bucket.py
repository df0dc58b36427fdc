"""Defines buckets, each the metadata by which plans choose segments of a ledger.

A dispatch finds what is due by bitmaps and segment tables only (`due_segments`, `next_slot`). Its memory grows with the
due messages, not with the waiting messages.

Encoded (`tidewheel.ledger.index`), a bucket's index is two byte strings in one item, each with its checksum in front:

    slots      the bitmap of the occupied slots
    segments   the segment table

Every dispatch reads the item. If either string is too large for the item, the ledger itself holds both in its *tail*,
between its last segment and its footer:

    tail       slots | segments

The item then has the tail's place, no segments, and a small bitmap of coarser slots (number >> slot_shift).
`Bucket.with_tail` makes such a bucket complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NewType

from pyroaring import BitMap

from tidewheel.errors import CorruptLedger, CorruptMetadata
from tidewheel.ledger.index import (
    SegmentTable,
    Weight,
    decode_segments,
    decode_slots,
    encode_segments,
    encode_slots,
    touching,
)
from tidewheel.model.plan import PlannedSegment, Segment

BucketId = NewType("BucketId", str)
"""`<slot, 12 digits>-<hash of the content>`. The ledger has no message of an earlier slot, so ids sort by time."""

SLOT_DIGITS = 12

INLINE_SEGMENTS_BYTES = 1024
"""A longer segment table is read from the tail, when needed."""
INLINE_SLOTS_BYTES = 16 * 1024
"""A larger bitmap is read from the tail, and the item has a coarser bitmap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The place of a ledger's own index in the object.

    The index is the bitmap of slots, followed by the segment table.

    Attributes:
        offset: of the first byte in the object.
        slots_bytes: length of the bitmap.
        segments_bytes: length of the segment table.
    """

    offset: int
    slots_bytes: int
    segments_bytes: int

    @classmethod
    def of_tag(cls, text: str) -> Tail:
        """Reads the result of `tag`.

        Raises:
            ValueError: the text is not a tag.
        """
        offset, slots_bytes, segments_bytes = map(int, text.split(","))
        if min(offset, slots_bytes, segments_bytes) < 0:
            raise ValueError(f"{text!r} has a number below 0")
        return cls(offset=offset, slots_bytes=slots_bytes, segments_bytes=segments_bytes)

    @property
    def tag(self) -> str:
        """The tail's place, as text for the ledger's footer."""
        return f"{self.offset},{self.slots_bytes},{self.segments_bytes}"

    @property
    def length(self) -> int:
        """Length of the tail in bytes."""
        return self.slots_bytes + self.segments_bytes

    def index(self, data: bytes, object_name: str) -> tuple[BitMap, SegmentTable]:
        """Reads the bytes of the tail.

        Raises:
            CorruptLedger: the bytes are damaged.
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
class LedgerSummary:
    """The content of a ledger.

    Attributes:
        size_bytes, rows: of the whole ledger.
        slots: occupied slots, each shifted right by `slot_shift` bits.
        segments: the ledger's segments, in order of time and of offset. Empty while only the tail has the segments.
        tail: where the ledger holds its index, if not in the item.
        slot_shift: above 0 if `slots` is coarse.
        weights: where the bytes lie in time. Empty: unknown, as after a rebuild.
        checked_ms: no row was cancelled or purged before this time. A merge leaves such rows out; in a new ledger no
            row was sent before.
    """

    size_bytes: int
    rows: int
    slots: BitMap
    segments: Sequence[Segment]
    tail: Tail | None = None
    slot_shift: int = 0
    weights: tuple[Weight, ...] = ()
    checked_ms: int = 0

    def bucket(self, bucket_id: BucketId, object_name: str) -> Bucket:
        """Returns the bucket of this ledger."""
        known = {each.name: getattr(self, each.name) for each in fields(LedgerSummary)}
        return Bucket(id=bucket_id, object_name=object_name, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(LedgerSummary):
    """Metadata of a live ledger.

    Attributes:
        id: the first slot, and a hash of the ledger's content or of the ledgers merged into it. Two commits of the same
            ledger make one bucket.
        object_name: the ledger's key in S3.
    """

    id: BucketId
    object_name: str

    @property
    def id_slot(self) -> int:
        """The slot in the id. The ledger has no message of an earlier slot."""
        return slot_of(self.id)

    @property
    def first_slot(self) -> int:
        """The first slot with a message, or a lower bound if `slots` is coarse."""
        return int(self.slots.min()) << self.slot_shift

    @property
    def last_slot(self) -> int:
        """The last slot with a message, or an upper bound if `slots` is coarse."""
        return ((int(self.slots.max()) + 1) << self.slot_shift) - 1

    @property
    def complete(self) -> bool:
        """Whether the bucket has the whole index, without the tail."""
        return bool(self.segments) and not self.slot_shift

    def next_slot(self, at_or_after: int) -> int | None:
        """Returns the first occupied slot at or after a slot.

        Returns a lower bound if `slots` is coarse.
        """
        if self.last_slot < at_or_after:
            return None
        return max(at_or_after, int(self.slots.next_set_bit(at_or_after >> self.slot_shift)) << self.slot_shift)

    def occupies(self, first_slot: int, end_slot: int) -> bool:
        """Returns whether the bucket has messages of slots [first_slot, end_slot).

        If `slots` is coarse, returns whether the bucket may have such messages.
        """
        slot = self.next_slot(first_slot)
        return slot is not None and slot < end_slot

    def read_until(self, slot: int) -> int:
        """Returns the end of the last slot below `slot` of which the ledger may have messages. 0: there is none."""
        before = self.slots.rank((slot - 1) >> self.slot_shift) if slot > 0 else 0
        return min(slot, (int(self.slots[before - 1]) + 1) << self.slot_shift) if before else 0

    def share(self, first_slot: int, end_slot: int) -> float:
        """Returns the approximate share of occupied slots in [first_slot, end_slot)."""
        inside = (
            self.slots.range_cardinality(first_slot >> self.slot_shift, (end_slot - 1 >> self.slot_shift) + 1)
            if first_slot < end_slot
            else 0
        )
        return float(inside) / len(self.slots)

    def rows_from(self, slot: int) -> int:
        """Estimates the rows of slots at or after a slot.

        The estimate spreads the rows evenly over the occupied slots. The differences between ascending slots add up to
        all rows.
        """
        if slot > self.last_slot:
            return 0
        before = self.slots.range_cardinality(0, slot >> self.slot_shift)
        return self.rows - round(self.rows * before / len(self.slots))

    def with_tail(self, data: bytes) -> Bucket:
        """Returns the complete bucket, given the bytes of the tail.

        Raises:
            CorruptLedger: the bytes are not the tail.
        """
        assert self.tail is not None
        slots, segments = self.tail.index(data, self.object_name)
        return replace(self, slots=slots, segments=segments, slot_shift=0)

    def without_tail(self) -> Bucket:
        """Returns the stored form of the bucket.

        If the ledger has a tail, the parts that are too large for the item are left out.
        """
        if self.tail is None:
            return self
        segments = self.segments if self.tail.segments_bytes <= INLINE_SEGMENTS_BYTES else ()
        slots, shift = self.slots, self.slot_shift
        while len(encode_slots(slots)) > INLINE_SLOTS_BYTES:
            slots, shift = BitMap(slot >> 1 for slot in slots), shift + 1
        return replace(self, slots=slots, slot_shift=shift, segments=segments if shift == 0 else ())


def due_segments(buckets: Iterable[Bucket], first_slot: int, end_slot: int, slot_ms: int) -> tuple[PlannedSegment, ...]:
    """Returns the segments that may hold rows of slots [first_slot, end_slot), by time.

    Buckets that occupy a slot of the range must be complete. The segments of other buckets are not read. A segment is
    returned only if its span touches an occupied slot of the range.
    """
    due = [
        PlannedSegment(
            object_name=bucket.object_name,
            segment=segment,
            due_rows=due_rows_of(segment, first_slot * slot_ms, end_slot * slot_ms),
        )
        for bucket in buckets
        if bucket.occupies(first_slot, end_slot)
        for segment in touching(bucket.segments, first_slot * slot_ms, end_slot * slot_ms)
        if bucket.occupies(
            max(first_slot, segment.first_deliver_at_ms // slot_ms),
            min(end_slot, segment.last_deliver_at_ms // slot_ms + 1),
        )
    ]
    due.sort(key=lambda p: (p.segment.first_deliver_at_ms, p.object_name, p.segment.offset))
    return tuple(due)


def due_rows_of(segment: Segment, from_ms: int, until_ms: int) -> int:
    """Estimates the rows of a segment due in [from_ms, until_ms).

    The estimate spreads the rows evenly over the segment's span.
    """
    first, last = segment.first_deliver_at_ms, segment.last_deliver_at_ms
    overlap = min(last + 1, until_ms) - max(first, from_ms)
    return max(1, -(-segment.rows * overlap // (last - first + 1)))


def next_slot(buckets: Iterable[Bucket], at_or_after: int) -> int | None:
    """Returns the first occupied slot at or after a slot, or None.

    The result is a lower bound where a bucket's slots are coarse.

    Args:
        buckets: in the order of their ids. No more are taken than the result depends on.
    """
    earliest: int | None = None
    for bucket in buckets:
        if earliest is not None and bucket.id_slot >= earliest:
            break
        slot = bucket.next_slot(at_or_after)
        if slot is not None and (earliest is None or slot < earliest):
            earliest = slot
    return earliest


def waiting_rows(buckets: Iterable[Bucket], at_or_after: int) -> int:
    """Estimates the rows of slots at or after a slot."""
    return sum(bucket.rows_from(at_or_after) for bucket in buckets)


def bucket_id(first_slot: int, content: str) -> BucketId:
    """Returns the id of a bucket.

    Args:
        first_slot: the ledger has no message of an earlier slot.
        content: tells the ledger from others of that slot, such as a `content_id`.
    """
    return BucketId(f"{first_slot:0{SLOT_DIGITS}d}-{content}")


def slot_of(id: BucketId) -> int:
    """Returns the slot in a bucket's id.

    Raises:
        ValueError: this is no bucket's id.
    """
    return int(id[:SLOT_DIGITS])


def content_id(data: bytes | memoryview) -> str:
    """Returns 128 bits of BLAKE2b of some bytes, in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def encode_tail(slots: BitMap, segments: Sequence[Segment], *, offset: int) -> tuple[bytes, Tail]:
    """Returns a ledger's tail and the tail's place, given the offset."""
    bitmap, table = encode_slots(slots), encode_segments(segments)
    return bitmap + table, Tail(offset=offset, slots_bytes=len(bitmap), segments_bytes=len(table))
