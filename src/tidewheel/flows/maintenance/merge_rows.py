"""Merges the rows of many ledgers into one output, sorted and without repeats, in constant memory.

Segments are read in the order of their first delivery time. All rows before the next segment's first time are complete:

    source A   |--seg 1--|--seg 2--|--seg 3--|
    source B      |---seg 1---|---seg 2---|
    read         A1 B1 A2                      -> rows before B2's first time are sorted and written; the rest waits

Both engines use this: the function writes one output after the other, Spark one output per task. So the same merge
writes the same bytes, on any machine and in each repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from tidewheel.flows.delivery.due_rows import without_expired, without_ids, without_purged
from tidewheel.flows.maintenance.merge_planning import Merge
from tidewheel.flows.maintenance.retention import EXPIRED_FOR_MS
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.ledger.joined import StoredSegment, decode_together
from tidewheel.ledger.rows import SCHEMA, sort_rows, times_of, without_repeats
from tidewheel.ledger.writer import SEGMENT_BYTES, LedgerWriter
from tidewheel.model import object_names
from tidewheel.model.plan import Segment
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import Objects
from tidewheel.storage.read_ahead import read_ahead

_READ_BYTES = 48 * 1024 * 1024
"""Approximate encoded bytes of all sources held at once, without what is read ahead."""
_BATCH_RAW_BYTES = 16 * 1024 * 1024
_LONG_ENOUGH_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeWork:
    """A merge with all data that an engine needs.

    Attributes:
        state: read before the buckets. Rows below its `planned` are in plans already. Purged rows are left out.
        cancelled: ids of the cancelled messages in the merge's slots. Their rows are left out.
        now_ms: read after the buckets, and before the tombstones. Rows that expired EXPIRED_FOR_MS before are left out.
    """

    state: TopicState
    merge: Merge
    cancelled: frozenset[bytes] = frozenset()
    now_ms: int = 0


def store_rows(
    objects: Objects,
    rows: Iterator[pa.Table],
    *,
    topic: str,
    generation: str,
    settings: TopicSettings,
    content: str,
    sources: Sequence[str] = (),
) -> Bucket | None:
    """Writes sorted, non-empty batches as a ledger with a new name. Returns None without batches.

    Args:
        content: ends the bucket's id, the same for each try to write the ledger.
    """
    first = next(rows, None)
    if first is None:
        return None
    id = bucket_id(first.column("deliver_at_ms")[0].as_py() // settings.slot_ms, content)
    name = object_names.ledger_name(topic, id, settings.slot_ms, objects.new_attempt())
    with objects.create(name) as sink:
        writer = LedgerWriter(
            sink,
            topic=topic,
            generation=generation,
            slot_ms=settings.slot_ms,
            segment_rows=settings.segment_rows,
            segment_bytes=settings.segment_bytes or SEGMENT_BYTES,
            sources=sources,
        )
        for batch in chain([first], rows):
            writer.write(batch)
        summary = writer.close()
    return summary.bucket(id, name)


def merged_rows(objects: Objects, work: MergeWork, i: int, threads: int = 0) -> Iterator[pa.Table]:
    """Yields the rows of the i-th output in sorted, non-empty batches.

    The batches are also in order among each other.

    Args:
        threads: requests side by side, ahead of use.
    """
    slot_ms = work.state.slot_ms
    first_ms, end_ms = work.merge.cuts[i] * slot_ms, work.merge.cuts[i + 1] * slot_ms
    pending = SCHEMA.empty_table()
    for batch, complete_ms in _batches(objects, work.merge, first_ms, end_ms, threads):
        kept = without_dead(_within(decode_together(batch), first_ms, end_ms), work)
        rows = sort_rows(pa.concat_tables([pending, kept]).combine_chunks())
        ready = rows.num_rows if complete_ms is None else int(times_of(rows).searchsorted(complete_ms))
        if ready:
            yield without_repeats(rows.slice(0, ready))
        pending = rows.slice(ready)


def without_dead(rows: pa.Table, work: MergeWork) -> pa.Table:
    """Returns the rows that may still be delivered: not purged, not long expired and not cancelled."""
    live = without_expired(without_purged(rows, work.state), work.now_ms - EXPIRED_FOR_MS)
    return without_ids(live, work.cancelled)


def _within(rows: pa.Table, first_ms: int, end_ms: int) -> pa.Table:
    times = times_of(rows)
    inside = (times >= first_ms) & (times < end_ms)
    return rows if inside.all() else rows.filter(pa.array(inside))


def _batches(
    objects: Objects, merge: Merge, first_ms: int, end_ms: int, threads: int
) -> Iterator[tuple[list[StoredSegment], int | None]]:
    """Yields segments in the order of their first times, with the next segment's first time."""
    order = sorted(
        (
            (segment.first_deliver_at_ms, number, segment)
            for number, source in enumerate(merge.sources)
            for segment in source.segments
            if segment.last_deliver_at_ms >= first_ms and segment.first_deliver_at_ms < end_ms
        ),
        key=lambda each: each[:2],
    )
    names = [source.object_name for source in merge.sources]

    def read(wanted: _Range) -> memoryview:
        return memoryview(objects.get_range(names[wanted.number], wanted.offset, wanted.length))

    ranges = _ranges(order, max(_LONG_ENOUGH_BYTES, _READ_BYTES // len(names)))
    held: dict[int, tuple[_Range, memoryview]] = {}
    batch: list[StoredSegment] = []
    raw_bytes = waiting = 0
    with closing(read_ahead(read, ranges, size=lambda each: each.length, threads=threads)) as found:
        following_ranges = zip(ranges, found, strict=True)
        for position, (_, number, segment) in enumerate(order):
            if number not in held or segment.offset >= held[number][0].end:
                held[number] = next(following_ranges)
            start = segment.offset - held[number][0].offset
            batch.append(StoredSegment(names[number], segment, held[number][1][start : start + segment.length]))
            raw_bytes += segment.raw_bytes
            following = order[position + 1][0] if position + 1 < len(order) else None
            # Waiting rows are sorted again with each batch, so batches grow with their number.
            if following is None or raw_bytes >= max(_BATCH_RAW_BYTES, waiting):
                yield batch, following
                waiting = sum(
                    s.raw_bytes for _, _, s in order[: position + 1] if following and s.last_deliver_at_ms > following
                )
                batch, raw_bytes = [], 0


@dataclass(slots=True)
class _Range:
    """Neighbouring segments of the source with this number, read with one GET."""

    number: int
    offset: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.offset


def _ranges(order: Iterable[tuple[int, int, Segment]], most_bytes: int) -> list[_Range]:
    """Returns the ranges in the order in which the first segment of each is needed."""
    ranges: list[_Range] = []
    last: dict[int, _Range] = {}
    for _, number, segment in order:
        end = segment.last_byte + 1
        if number in last and end - last[number].offset <= most_bytes:
            last[number].end = end
        else:
            last[number] = _Range(number, segment.offset, end)
            ranges.append(last[number])
    return ranges
