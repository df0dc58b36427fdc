"""Inspects a ledger. Reads and verifies all bytes, and computes the expected bucket."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from tidewheel.errors import CorruptLedger
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.reader import Read, segments_of, tags_of
from tidewheel.ledger.rows import times_of
from tidewheel.ledger.writer import GENERATION_TAG, SOURCES_TAG, TAIL_TAG, TOPIC_TAG, VERSION_TAG
from tidewheel.model import checksum
from tidewheel.model.groups import grouped
from tidewheel.model.object_names import ledger_bucket_id
from tidewheel.model.segment import Segment
from tidewheel.model.untrusted import json_of, text

READ_BYTES = 64 * 1024 * 1024
"""How much of a ledger is held in memory at once. A larger segment is held whole."""
TIMES = ("deliver_at_ms",)
Take = Callable[[pa.Table], None]
"""Takes rows of a ledger. The rows of all calls are the readable rows of the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The damage of a ledger.

    Attributes:
        lost_rows: how many rows cannot be read. None if the number is unknown.
    """

    object_name: str
    reason: str
    lost_rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A ledger, as found in the object.

    Attributes:
        bucket: the bucket of the readable segments. None if no segment is readable.
        sources: names of the ledgers from which this ledger was merged.
        damage: the damage, if any.
    """

    object_name: str
    bucket: Bucket | None
    topic: str = ""
    generation: str = ""
    sources: tuple[str, ...] = ()
    damage: Damage | None = None

    @property
    def whole(self) -> bool:
        """Whether the complete ledger is readable."""
        return self.bucket is not None and self.damage is None


def inspect(
    read: Read,
    size_bytes: int,
    object_name: str,
    slot_ms: int,
    *,
    columns: Sequence[str] = TIMES,
    take: Take = lambda _: None,
) -> Inspected:
    """Reads a whole ledger, verifies every segment, and returns the expected bucket.

    Args:
        read: reads a range of the object.
        size_bytes: size of the object.
        object_name: the ledger's object.
        slot_ms: the topic's slot length.
        columns: the columns to decode, `deliver_at_ms` among them.
        take: takes these columns of the readable rows.
    """
    bucket_id = ledger_bucket_id(object_name)
    if bucket_id is None:
        return _unreadable(object_name, "this is no ledger's name")
    try:
        segments = segments_of(read, size_bytes, object_name)
        tags = tags_of(read, size_bytes, object_name)
        sources = tuple(map(text, json_of(tags.get(SOURCES_TAG, "[]"))))
    except (CorruptLedger, ValueError, TypeError) as error:
        return _unreadable(object_name, str(error))
    slots, failures = BitMap(), list[CorruptLedger]()
    good: list[Segment] = []
    for found, rows in _decoded(read, size_bytes, segments, object_name, columns):
        if isinstance(rows, CorruptLedger):
            failures.append(rows)
        else:
            good += found
            found_slots = times_of(rows) // slot_ms
            slots.update(found_slots[np.append(True, found_slots[1:] != found_slots[:-1])].tolist())
            take(rows)
    tail = tail_of(tags)
    if tail is not None:
        try:
            tail.index(read(tail.offset, tail.length), object_name)
        except CorruptLedger as error:
            failures.append(error)
    damage = None
    if failures:
        lost = sum(segment.rows for segment in segments) - sum(segment.rows for segment in good)
        damage = Damage(object_name=object_name, reason=str(failures[0]), lost_rows=lost)
    bucket = Bucket(
        id=BucketId(bucket_id),
        object_name=object_name,
        size_bytes=size_bytes,
        rows=sum(segment.rows for segment in good),
        slots=slots,
        segments=tuple(good),
        tail=None if failures else tail,
        schema_version=int(tags[VERSION_TAG]),
    )
    return Inspected(
        object_name=object_name,
        bucket=bucket if good else None,
        topic=tags.get(TOPIC_TAG, ""),
        generation=tags.get(GENERATION_TAG, ""),
        sources=sources,
        damage=damage,
    )


def _unreadable(object_name: str, reason: str) -> Inspected:
    return Inspected(
        object_name=object_name, bucket=None, damage=Damage(object_name=object_name, reason=reason, lost_rows=None)
    )


def tail_of(tags: dict[str, str]) -> Tail | None:
    """Returns the place of the index in a ledger with these tags, or None if its item holds the index.

    Raises:
        ValueError: the tag is damaged.
    """
    return Tail.of_tag(tags[TAIL_TAG]) if TAIL_TAG in tags else None


def _decoded(
    read: Read, size_bytes: int, segments: Sequence[Segment], object_name: str, columns: Sequence[str]
) -> Iterator[tuple[Sequence[Segment], pa.Table | CorruptLedger]]:
    """Yields runs of segments with their rows, or a segment with its error."""
    source = _Source(read, size_bytes)
    end = 0
    for run in grouped(segments, lambda segment: segment.length, READ_BYTES):
        first, end = end, end + len(run)
        source.hold(run[0].offset, run[-1].last_byte + 1)
        rows = _decoded_at_once(source, first, run, columns)
        if rows is not None:
            yield run, rows
            continue
        for segment in run:
            try:
                data = bytes(source.held(segment))
                yield [segment], decode_segment(data, object_name=object_name, segment=segment, columns=columns)
            except CorruptLedger as error:
                yield [segment], error


def _decoded_at_once(source: _Source, first: int, run: Sequence[Segment], columns: Sequence[str]) -> pa.Table | None:
    """Decodes segments by the ledger's own footer. Returns None if any segment may be damaged.

    A ledger's footer names the same pages as the footers of its segments. It is parsed once for many segments. Parsing
    the footer of each segment takes more time than decoding the columns.
    """
    try:
        for segment in run:
            checksum.check(source.held(segment))
        file = pq.ParquetFile(pa.PythonFile(source, mode="r"), pre_buffer=False)
        rows = file.read_row_groups(range(first, first + len(run)), columns=list(columns), use_threads=False)
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, IndexError, OverflowError):
        return None
    counts = [segment.rows for segment in run]
    if rows.num_rows != sum(counts) or min(counts) <= 0:
        return None
    times, starts = times_of(rows), np.cumsum([0, *counts[:-1]])
    spans = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
    expected = [each.first_deliver_at_ms for each in run], [each.last_deliver_at_ms for each in run]
    return rows.select(list(columns)) if np.array_equal(spans, expected) else None


class _Source(io.RawIOBase):
    """A ledger as a file, of which a range is held in memory.

    Args:
        read: reads a range of the object.
        size_bytes: size of the object.
    """

    def __init__(self, read: Read, size_bytes: int) -> None:
        self._read, self._size_bytes = read, size_bytes
        self._from, self._data, self._at = 0, memoryview(b""), 0

    def hold(self, start: int, end: int) -> None:
        """Holds a range in memory."""
        self._from, self._data = start, memoryview(self._read(start, end - start))

    def held(self, segment: Segment) -> memoryview:
        """Returns the bytes of a segment in the range, or as many of them as the object has."""
        start = segment.offset - self._from
        return self._data[start : start + segment.length]

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Reads from the range in memory, and all else from the object."""
        end = self._size_bytes if size < 0 else min(self._at + size, self._size_bytes)
        start, self._at = self._at, end
        if self._from <= start and end <= self._from + len(self._data):
            return bytes(self._data[start - self._from : end - self._from])
        return self._read(start, end - start)
