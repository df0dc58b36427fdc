"""Merges the rows of many ledgers into one output, sorted and without repeats, in constant memory.

Segments are read in the order of their first ids, which begin with the delivery time. All rows before the next
segment's first id are complete:

    source A   |--seg 1--|--seg 2--|--seg 3--|
    source B      |---seg 1---|---seg 2---|
    read         A1 B1 A2                      -> rows before B2's first id are sorted and written; the rest waits

At most a segment of each source waits, also if all rows are due in one millisecond.

Both engines use this: the function writes one output after the other, Spark one output per task. So the same merge
writes the same bytes, on any machine and in each repetition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, chain, zip_longest

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.flows.delivery.due_rows import without_expired, without_purged
from tidewheel.flows.maintenance.merge_planning import Merge, Window
from tidewheel.flows.maintenance.retention import EXPIRED_FOR_MS
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.ledger.index import touching
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.rows import Ids, ids_of, sorted_order, taken
from tidewheel.ledger.writer import SEGMENT_BYTES, LedgerWriter
from tidewheel.model import object_names
from tidewheel.model.groups import grouped
from tidewheel.model.message import id_deliver_at_ms, id_floor
from tidewheel.model.plan import Segment
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import Objects
from tidewheel.storage.read_ahead import read_ahead

_READ_BYTES = 48 * 1024 * 1024
"""Approximate encoded bytes of all sources held at once, without what is read ahead."""
_BATCH_RAW_BYTES = 16 * 1024 * 1024
_LONG_ENOUGH_BYTES = 512 * 1024
_YIELDED_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeWork:
    """A merge with all data that an engine needs.

    Attributes:
        state: read before the buckets. Rows below its `planned` are in plans already. Purged rows are left out.
        cancelled: the ids of the topic's cancelled messages, 16 bytes each, in order. Their rows are left out.
        now_ms: read after the buckets, and before the tombstones. Rows that expired EXPIRED_FOR_MS before are left out.
    """

    state: TopicState
    merge: Merge
    cancelled: bytes = b""
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


def merged_rows(objects: Objects, work: MergeWork, window: Window, threads: int = 0) -> Iterator[pa.Table]:
    """Yields the rows of an output in sorted, non-empty batches.

    The batches are also in order among each other.

    Args:
        threads: requests side by side, ahead of use.
    """
    first_id, end_id = _bounds(work, window)
    cancelled: Ids = np.frombuffer(work.cancelled, "S16")
    waiting: list[pa.Table] = []
    for batch, complete_id in _batches(objects, work.merge, first_id, end_id, threads):
        unpurged = without_purged(pa.concat_tables(batch), work.state)
        waiting.append(without_expired(unpurged, work.now_ms - EXPIRED_FOR_MS))
        rows = pa.concat_tables(waiting).combine_chunks()
        waiting.clear()
        order = sorted_order(rows)
        ids = ids_of(rows)[order]
        wanted = _wanted(ids, cancelled) & (ids >= first_id) & (ids < end_id)
        order, ids = order[wanted], ids[wanted]
        ready = len(ids) if complete_id is None else int(ids.searchsorted(complete_id))
        waiting.append(taken(rows, order[ready:]))
        for start in range(0, ready, _YIELDED_ROWS):
            yield taken(rows, order[start : min(start + _YIELDED_ROWS, ready)])
        del unpurged, rows  # before the next are decoded


def _wanted(ids: Ids, cancelled: Ids) -> npt.NDArray[np.bool_]:
    """Returns which of some ids, both in order, are neither copies nor cancelled."""
    wanted = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    if cancelled.size:
        wanted &= cancelled[cancelled.searchsorted(ids) % cancelled.size] != ids
    return wanted


def _bounds(work: MergeWork, window: Window) -> tuple[bytes, bytes]:
    """Returns the least id of a window, and the least id behind it.

    Shares are cut where segments begin, by their raw bytes. All tasks of a merge find the same cuts, since all read the
    same segment tables.
    """
    first_ms, end_ms = window.first_slot * work.state.slot_ms, window.end_slot * work.state.slot_ms
    cuts = [id_floor(first_ms), id_floor(end_ms)]
    if window.shares > 1:
        found = (each for source in work.merge.sources for each in touching(source.segments, first_ms, end_ms))
        begun = sorted((max(each.least_id, cuts[0]), each.raw_bytes) for each in found) or [(cuts[1], 0)]
        ends = list(accumulate(raw_bytes for _, raw_bytes in begun))
        parts = range(1, window.shares)
        cuts[1:1] = [begun[bisect_left(ends, ends[-1] * part // window.shares)][0] for part in parts]
    return cuts[window.share], cuts[window.share + 1]


def _batches(
    objects: Objects, merge: Merge, first_id: bytes, end_id: bytes, threads: int
) -> Iterator[tuple[list[pa.Table], bytes | None]]:
    """Yields the rows of segments in the order of their first ids, with the next segment's first id.

    Neighbouring segments of a source are read with one GET, when the first of them is needed.
    """
    names = [source.object_name for source in merge.sources]
    most_bytes = max(_LONG_ENOUGH_BYTES, _READ_BYTES // len(names))
    runs = sorted(
        _Run(run[0].least_id, number, run)
        for number, source in enumerate(merge.sources)
        for run in grouped(_touching(source.segments, first_id, end_id), lambda each: each.length, most_bytes)
    )
    order = sorted(_Run(each.least_id, run.number, [each]) for run in runs for each in run.segments)

    def read(run: _Run) -> memoryview:
        return memoryview(objects.get_range(names[run.number], run.segments[0].offset, run.length))

    held: dict[int, tuple[_Run, memoryview]] = {}
    batch: list[pa.Table] = []
    raw_bytes = 0
    with closing(read_ahead(read, runs, size=lambda run: run.length, threads=threads)) as found:
        following_runs = zip(runs, found, strict=True)
        for each, following in zip_longest(order, order[1:]):
            number, [segment] = each.number, each.segments
            if number not in held or segment.offset > held[number][0].segments[-1].offset:
                held[number] = next(following_runs)
            run, data = held[number]
            start = segment.offset - run.segments[0].offset
            stored = data[start : start + segment.length]
            batch.append(decode_segment(stored, object_name=names[number], segment=segment))
            raw_bytes += segment.raw_bytes
            if following is None or raw_bytes >= _BATCH_RAW_BYTES:
                yield batch, None if following is None else following.least_id
                batch, raw_bytes = [], 0


@dataclass(frozen=True, slots=True, order=True)
class _Run:
    """Neighbouring segments of the source with this number. Runs are in the order of their first ids."""

    least_id: bytes
    number: int
    segments: list[Segment] = field(compare=False)

    @property
    def length(self) -> int:
        return self.segments[-1].last_byte + 1 - self.segments[0].offset


def _touching(segments: Sequence[Segment], first_id: bytes, end_id: bytes) -> Iterator[Segment]:
    """Yields the segments that may have ids of a range."""
    found = touching(segments, id_deliver_at_ms(first_id), id_deliver_at_ms(end_id) + 1)
    for segment, following in zip_longest(found, found[1:]):
        if segment.least_id < end_id and (following is None or following.least_id >= first_id):
            yield segment
