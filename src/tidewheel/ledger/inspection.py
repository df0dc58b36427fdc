"""Inspects a ledger. Reads and verifies all bytes, and computes the expected bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from tidewheel.errors import CorruptLedger
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.reader import Read, segments_of, tags_of
from tidewheel.ledger.rows import times_of
from tidewheel.ledger.writer import GENERATION_TAG, SOURCES_TAG, TAIL_TAG, TOPIC_TAG
from tidewheel.model.object_names import ledger_bucket_id
from tidewheel.model.segment import Segment
from tidewheel.model.untrusted import json_of, text

READ_BYTES = 64 * 1024 * 1024
"""How much of a ledger is held in memory at once. A larger segment is held whole."""


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


def inspect(read: Read, size_bytes: int, object_name: str, slot_ms: int) -> Inspected:
    """Reads a whole ledger, verifies every segment, and returns the expected bucket."""
    bucket_id = ledger_bucket_id(object_name)
    if bucket_id is None:
        return _unreadable(object_name, "this is no ledger's name")
    try:
        segments = segments_of(read, size_bytes, object_name)
        tags = tags_of(read, size_bytes, object_name)
        sources = tuple(map(text, json_of(tags.get(SOURCES_TAG, "[]"))))
    except (CorruptLedger, ValueError, TypeError) as error:
        return _unreadable(object_name, str(error))
    slots, good, failures = BitMap(), [], []
    for segment, found in _decoded(read, segments, object_name):
        if isinstance(found, CorruptLedger):
            failures.append(found)
        else:
            good.append(segment)
            slots.update(np.unique(found // slot_ms).tolist())
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


def _unreadable(object_name: str, reason: str) -> Inspected:
    return Inspected(
        object_name=object_name,
        bucket=None,
        damage=Damage(object_name=object_name, reason=reason, lost_rows=None),
    )


def tail_of(tags: dict[str, str]) -> Tail | None:
    """Returns the place of the index in a ledger with these tags, or None if its item holds the index.

    Raises:
        ValueError: the tag is damaged.
    """
    return Tail.of_tag(tags[TAIL_TAG]) if TAIL_TAG in tags else None


def _decoded(
    read: Read, segments: Sequence[Segment], object_name: str
) -> Iterator[tuple[Segment, np.ndarray | CorruptLedger]]:
    """Yields each segment with its delivery times, or with its error."""
    for segment, data in read_segments(read, segments):
        try:
            table = decode_segment(data, object_name=object_name, segment=segment, columns=("deliver_at_ms",))
            yield segment, times_of(table)
        except CorruptLedger as error:
            yield segment, error


def read_segments(read: Read, segments: Sequence[Segment]) -> Iterator[tuple[Segment, bytes]]:
    """Yields the bytes of segments, which must be sorted by offset.

    Several segments are read at once.
    """
    held, held_from = b"", 0
    for position, segment in enumerate(segments):
        if segment.last_byte >= held_from + len(held):
            end = segment.last_byte + 1
            for each in segments[position + 1 :]:
                if each.last_byte + 1 - segment.offset > READ_BYTES:
                    break
                end = each.last_byte + 1
            held_from, held = segment.offset, read(segment.offset, end - segment.offset)
        yield segment, held[segment.offset - held_from : segment.last_byte + 1 - held_from]
