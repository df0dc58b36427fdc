"""Reads the index of a ledger whose tail a dispatch could not read."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.ledger.bucket import Tail
from tidewheel.ledger.delayed_index import due_rows_of
from tidewheel.ledger.reader import segments_of
from tidewheel.ledger.segment_table import touching
from tidewheel.model.plan import PlannedSegment, Unindexed
from tidewheel.model.segment import Segment
from tidewheel.storage.objects import Objects


def index_again(
    objects: Objects, unindexed: Unindexed, first_slot: int, end_slot: int, slot_ms: int
) -> list[PlannedSegment]:
    """Returns the segments of a ledger that may hold rows of slots [first_slot, end_slot).

    Reads the tail, and if that is damaged, the ledger's footer, which names the same segments.

    Raises:
        ObjectMissing: the ledger is gone.
        CorruptLedger: both are damaged.
    """
    first_ms, end_ms = first_slot * slot_ms, end_slot * slot_ms
    found = touching(_segments(objects, unindexed), first_ms, end_ms)
    return [
        PlannedSegment(object_name=unindexed.object_name, segment=each, due_rows=due_rows_of(each, first_ms, end_ms))
        for each in found
    ]


def _segments(objects: Objects, unindexed: Unindexed) -> Sequence[Segment]:
    name = unindexed.object_name
    try:
        tail = Tail.of_tag(unindexed.tail)
        return tail.index(objects.get_range(name, tail.offset, tail.length), name)[1]
    except (CorruptLedger, ValueError):
        size_bytes = unindexed.size_bytes or sum(each.size_bytes for each in objects.list(name))
        if not size_bytes:
            raise ObjectMissing(name) from None
        return segments_of(lambda offset, length: objects.get_range(name, offset, length), size_bytes, name)
