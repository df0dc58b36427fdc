"""Finds a topic's due segments in a slot range, and the next slot.

A dispatch reads bitmaps and segment tables only. Its memory grows with the due messages, not with the waiting messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.segment_table import touching
from tidewheel.model.plan import PlannedSegment
from tidewheel.model.segment import Segment


def due_segments(buckets: Iterable[Bucket], first_slot: int, end_slot: int, slot_ms: int) -> tuple[PlannedSegment, ...]:
    """Returns the segments that may hold rows of slots [first_slot, end_slot), by time.

    Buckets that occupy a slot of the range must be complete. The segments of other buckets are not read. A segment is
    returned only if its span touches an occupied slot of the range.
    """
    found = [
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
    found.sort(key=lambda p: (p.segment.first_deliver_at_ms, p.object_name, p.segment.offset))
    return tuple(found)


def due_rows_of(segment: Segment, from_ms: int, until_ms: int) -> int:
    """Estimates the rows of a segment that are due in [from_ms, until_ms).

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
    found: int | None = None
    for bucket in buckets:
        if found is not None and bucket.id_slot >= found:
            break
        slot = bucket.next_slot(at_or_after)
        if slot is not None and (found is None or slot < found):
            found = slot
    return found


def waiting_rows(buckets: Iterable[Bucket], at_or_after: int) -> int:
    """Estimates the rows of slots at or after a slot."""
    return sum(bucket.rows_from(at_or_after) for bucket in buckets)
