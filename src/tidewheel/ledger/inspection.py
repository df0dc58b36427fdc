"""Inspects a ledger. Reads and verifies all bytes, and computes the expected bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tidewheel.errors import CorruptLedger
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.reader import Read, segments_of, tags_of
from tidewheel.ledger.rows import times_of
from tidewheel.ledger.writer import GENERATION_TAG, SOURCES_TAG, TAIL_TAG, TOPIC_TAG
from tidewheel.model.groups import grouped
from tidewheel.model.message import id_tail
from tidewheel.model.object_names import ledger_bucket_id
from tidewheel.model.plan import Segment
from tidewheel.model.untrusted import json_of, text

READ_BYTES = 32 * 1024 * 1024
"""How much of a ledger is read and decoded at once. A larger segment is read whole."""
ORDER = ("deliver_at_ms", "message_id")
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
    columns: Sequence[str] = ORDER,
    take: Take = lambda _: None,
) -> Inspected:
    """Reads a whole ledger, verifies every segment, and returns the expected bucket.

    Args:
        read: reads a range of the object.
        size_bytes: size of the object.
        object_name: the ledger's object.
        slot_ms: the topic's slot length.
        columns: the columns to decode, those of ORDER among them.
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
    for found, rows in _decoded(read, segments, object_name, columns):
        if isinstance(rows, CorruptLedger):
            failures.append(rows)
        else:
            good.append(_with_tail(found, rows, good[-1].last_deliver_at_ms if good else -1))
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
    )
    return Inspected(
        object_name=object_name,
        bucket=bucket if good else None,
        topic=tags.get(TOPIC_TAG, ""),
        generation=tags.get(GENERATION_TAG, ""),
        sources=sources,
        damage=damage,
    )


def _with_tail(found: Segment, rows: pa.Table, ended_ms: int) -> Segment:
    """Returns a segment with the end of its first id, which the footer does not tell.

    Args:
        ended_ms: the last delivery time of the segment before.
    """
    tied = found.first_deliver_at_ms == ended_ms
    return replace(found, first_tail=id_tail(rows.column("message_id")[0].as_py())) if tied else found


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
    read: Read, segments: Sequence[Segment], object_name: str, columns: Sequence[str]
) -> Iterator[tuple[Segment, pa.Table | CorruptLedger]]:
    """Yields each segment with its rows or its error."""
    for run in grouped(segments, lambda segment: segment.length, READ_BYTES):
        start = run[0].offset
        data = memoryview(read(start, run[-1].last_byte + 1 - start))
        for each in run:
            found = data[each.offset - start :][: each.length]
            try:
                yield each, decode_segment(found, object_name=object_name, segment=each, columns=columns)
            except CorruptLedger as error:
                yield each, error
