"""Defines plans, which list the segments to deliver for a sealed slot range, and the trash.

A plan is cut into parts for delivery. The trash holds ledgers that a plan may still name. Imports no pyarrow: the SDK
and the dispatcher use segments without reading any.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import add, attrgetter, gt

from tidewheel.errors import CorruptMetadata
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.message import ID_TAIL_BITS, MessageId, id_bytes
from tidewheel.model.untrusted import decompressed, json_object_of, text, whole


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of a ledger's rows, readable alone with one range GET.

    Attributes:
        offset: of the first byte in the object.
        length: in bytes.
        rows: how many messages.
        raw_bytes: size of the payloads, keys and attributes before compression, which is the memory for reading them.
        first_deliver_at_ms: the earliest delivery time in the segment.
        last_deliver_at_ms: the latest.
        first_tail: the last 80 bits of the first row's id, if the segment before ends in the same millisecond. Else 0.
    """

    offset: int
    length: int
    rows: int
    raw_bytes: int
    first_deliver_at_ms: int
    last_deliver_at_ms: int
    first_tail: int = 0

    @property
    def last_byte(self) -> int:
        """Offset of the last byte, inclusive, as in HTTP ranges."""
        return self.offset + self.length - 1

    @property
    def least_id(self) -> bytes:
        """A lower bound of the segment's ids. No segment before it has a greater id."""
        return (self.first_deliver_at_ms << ID_TAIL_BITS | self.first_tail).to_bytes(16)


MAX_PART_SEGMENTS = 100
MAX_PART_ROWS = 5_000
"""Limit of rows in a part's segments, due or not. The estimate of due rows may be far too low."""
_PARTS = 500
"""A plan has about so many parts, as far as MAX_PART_ROWS and a topic's `part_rows` allow."""
MAX_PART_RAW_BYTES = 16 * 1024 * 1024
"""Limit of a part's segments before compression. A function holds several times as much."""
_NO_LOAD = (0, 0, 0)
_NUMBERS = attrgetter(*(each.name for each in fields(Segment)))
"""Returns the numbers of a segment in the order of a manifest."""
_MANIFEST_BYTES = 64 * 1024 * 1024
"""Largest manifest before compression, for 900,000 segments. A function of a gigabyte can just hold such a manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment:
    """A segment to read for a plan.

    Attributes:
        due_rows: estimate of the segment's rows that are due in the plan's range.
    """

    object_name: str
    segment: Segment
    due_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows [first_row, end_row) of a planned segment. The due rows are sent."""

    planned: PlannedSegment
    first_row: int
    end_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unindexed:
    """A ledger whose index could not be read when the plan was made.

    Whoever delivers it reads the index again, then the rows of the plan's range.

    Attributes:
        tail: the place of the ledger's index, as in its bucket.
            Empty: its footer tells the segments.
        rows: of the whole ledger.
    """

    object_name: str
    tail: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The messages due in slots [first_slot, end_slot) of a topic.

    Attributes:
        segments: where the rows are.
        cancelled: ids that are not sent.
        occurrences: the object with the rows of recurring messages, if any. Deleted with the plan.
        part_rows: approximate rows of a part. The segments and part_rows determine the parts.
        unindexed: ledgers without a readable index. Each is a part of its own, behind the parts of the segments.
        edition: how often the plan was made again, because its object was gone.
        cut: its parts, once `parts` was called.
    """

    topic: str
    first_slot: int
    end_slot: int
    segments: tuple[PlannedSegment, ...]
    cancelled: frozenset[MessageId] = frozenset()
    part_rows: int = 1000
    occurrences: str | None = None
    unindexed: tuple[Unindexed, ...] = ()
    edition: int = 0
    cut: list[tuple[tuple[Piece, ...], ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def due_rows(self) -> int:
        """Estimated rows to send to each subscription."""
        return sum(planned.due_rows for planned in self.segments)

    @property
    def raw_bytes(self) -> int:
        """Memory for reading all segments."""
        return sum(planned.segment.raw_bytes for planned in self.segments)

    @property
    def part_count(self) -> int:
        """How many parts a delivery of this plan has."""
        return len(self.parts()) + len(self.unindexed)

    def parts(self) -> tuple[tuple[Piece, ...], ...]:
        """Cuts the segments into units of work. Every call returns the same cut."""
        if not self.cut:
            self.cut.append(tuple(self._parts()))
        return self.cut[0]

    def _parts(self) -> Iterator[tuple[Piece, ...]]:
        part: list[Piece] = []
        load: tuple[int, ...] = _NO_LOAD
        for planned in self.segments:
            own = (planned.due_rows, planned.segment.rows, planned.segment.raw_bytes)
            if part and (len(part) == MAX_PART_SEGMENTS or self._over(map(add, load, own))):
                yield tuple(part)
                part, load = [], _NO_LOAD
            if self._over(own):
                yield from ((piece,) for piece in self._ranges(planned))
                continue
            part.append(Piece(planned=planned, first_row=0, end_row=planned.segment.rows))
            load = tuple(map(add, load, own))
        if part:
            yield tuple(part)

    def _over(self, load: Iterable[int]) -> bool:
        """Returns whether due rows, rows or raw bytes are too many for a part."""
        return any(map(gt, load, (self.part_rows, MAX_PART_ROWS, MAX_PART_RAW_BYTES)))

    def _ranges(self, planned: PlannedSegment) -> Iterator[Piece]:
        """Cuts a segment of many rows. Its raw bytes fit into a part: the writer of ledgers bounds them."""
        rows = planned.segment.rows
        for first in range(0, rows, self.part_rows):
            yield Piece(planned=planned, first_row=first, end_row=min(first + self.part_rows, rows))


def part_rows_of(due_rows: int, least: int) -> int:
    """Returns the rows of a part, for a plan with so many due rows.

    A part needs two writes and a call, so a large plan has large parts.

    Args:
        due_rows: estimated.
        least: the topic's `part_rows`.
    """
    return max(least, min(MAX_PART_ROWS, due_rows // _PARTS))


def encode_plan(plan: Plan) -> bytes:
    """Returns a plan's manifest.

    The manifest is a sealed zlib stream of JSON that names each object once.
    """
    objects = list(dict.fromkeys(planned.object_name for planned in plan.segments))
    index = {name: i for i, name in enumerate(objects)}
    document = {
        "v": 1,
        "objects": objects,
        "segments": [[index[p.object_name], *_NUMBERS(p.segment), p.due_rows] for p in plan.segments],
        "cancelled": sorted(plan.cancelled),
        "part_rows": plan.part_rows,
    }
    if plan.unindexed:
        document["unindexed"] = [[u.object_name, u.tail, u.rows] for u in plan.unindexed]
    return sealed(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6))


def decode_plan(
    topic: str,
    first_slot: int,
    end_slot: int,
    manifest: bytes,
    occurrences: str | None = None,
    object_name: str | None = None,
    edition: int = 0,
) -> Plan:
    """Reads a plan's manifest.

    Args:
        topic: the topic's name.
        first_slot: the first slot.
        end_slot: the slot behind the last.
        manifest: the result of `encode_plan`.
        occurrences: the object with the rows of recurring messages, if any.
        object_name: the object that holds the manifest, for the error. None if the table holds the manifest.
        edition: how often the plan was made again.

    Raises:
        CorruptMetadata: the bytes are not a manifest, or have a newer version.
    """
    try:
        document = json_object_of(decompressed(opened(manifest), _MANIFEST_BYTES))
        if document["v"] != 1:
            raise ValueError(f"version {document['v']}; this release reads version 1")
        objects = [text(name) for name in document["objects"]]
        segments = tuple(_planned(objects, each) for each in document["segments"])
        cancelled = frozenset(_message_id(each) for each in document["cancelled"])
        part_rows = whole(document["part_rows"], 1)
        unindexed = tuple(_unindexed(*each) for each in document.get("unindexed", ()))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        place = "the table" if object_name is None else f"object {object_name}, bytes 0-{len(manifest) - 1}"
        raise CorruptMetadata(
            f"plan {first_slot} of topic {topic!r}, in {place}, is not readable ({error}); restore it from a backup, "
            "or rebuild the topic's index"
        ) from None
    return Plan(
        topic=topic,
        first_slot=first_slot,
        end_slot=end_slot,
        segments=segments,
        cancelled=cancelled,
        part_rows=part_rows,
        occurrences=occurrences,
        unindexed=unindexed,
        edition=edition,
    )


def _unindexed(object_name: str, tail: str, rows: int, *_: object) -> Unindexed:
    return Unindexed(object_name=text(object_name), tail=text(tail), rows=whole(rows, 1))


def _planned(objects: Sequence[str], row: Sequence[object]) -> PlannedSegment:
    index, offset, length, rows, raw_bytes, first_ms, last_ms, first_tail, due_rows, *_ = row
    segment = Segment(
        offset=whole(offset),
        length=whole(length, 1),
        rows=whole(rows, 1),
        raw_bytes=whole(raw_bytes),
        first_deliver_at_ms=whole(first_ms),
        last_deliver_at_ms=whole(last_ms),
        first_tail=whole(first_tail, bits=ID_TAIL_BITS),
    )
    return PlannedSegment(object_name=objects[whole(index)], segment=segment, due_rows=whole(due_rows))


def _message_id(each: str) -> MessageId:
    id_bytes(each)  # raises InvalidValue, a ValueError
    return MessageId(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trash:
    """Objects of which only planned rows are left to read: a merge replaced them, or all their rows are planned.

    Attributes:
        sealed: the topic state's, as read before. No plan that names the objects ends above.
        dead_from: the end of the last slot below `sealed` in which the objects may have rows. Once `collected_until`
            reaches this slot, nobody reads them.
        put_ms: when the objects were replaced, or passed.
    """

    sealed: int
    id: str
    objects: tuple[str, ...]
    dead_from: int
    put_ms: int = 0
