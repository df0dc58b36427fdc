"""Rebuilding an index from the ledgers: what each holds, which of them count, and the marks to start again with.

A merge leaves outputs beside their sources until these are collected, and a merge that died leaves outputs that nobody
names. Both hold copies of the sources' rows:

    all sources are there and whole    the output is dropped: the sources hold its rows, and more
    some are                           all stay, and those that share a message are rewritten as one
    none is                            the output stays

Ledgers that share a message for other reasons (an ingest that died after its PUT, whose packs came again grouped
otherwise) are rewritten likewise, and so are ledgers with damaged segments, without these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
from pyroaring import BitMap

from tidewheel.bucket import Bucket, BucketId, Tail
from tidewheel.checkpoint import Checkpoint
from tidewheel.errors import CorruptLedger
from tidewheel.fence import Fence
from tidewheel.ledger import decode_segment
from tidewheel.ledger_reader import Read, segments_of, tags_of
from tidewheel.ledger_rows import times_of
from tidewheel.ledger_writer import GENERATION_TAG, SOURCES_TAG, TAIL_TAG, TOPIC_TAG
from tidewheel.merge import MAX_OUTPUT_BYTES, MAX_OUTPUT_ROWS, Merge
from tidewheel.segment import Segment
from tidewheel.subscription import Subscription
from tidewheel.wheel import open_from

READ_BYTES = 64 * 1024 * 1024
"""What is held of a ledger at once; a segment may be larger."""
_NAME = re.compile(r"/\d+-([^-/]+)-[^-/]+\.parquet\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What of a ledger cannot be read.

    Attributes:
        lost_rows: how many rows; None if not even that is known.
    """

    object_name: str
    reason: str
    lost_rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A ledger as its object shows it.

    Attributes:
        bucket: of the segments that are readable; None if none is.
        sources: names of the ledgers that it was merged from.
        damage: what is not readable.
    """

    object_name: str
    bucket: Bucket | None
    topic: str = ""
    generation: str = ""
    sources: tuple[str, ...] = ()
    damage: Damage | None = None

    @property
    def whole(self) -> bool:
        """Whether all of it is readable."""
        return self.bucket is not None and self.damage is None


def inspect(read: Read, size_bytes: int, object_name: str, slot_ms: int) -> Inspected:
    """Reads a ledger whole, verifies every segment's checksum, and returns what its bucket must say."""
    named = _NAME.search(object_name)
    if named is None:
        return _unreadable(object_name, "this is no ledger's name")
    try:
        segments = segments_of(read, size_bytes, object_name)
        tags = tags_of(read, size_bytes, object_name)
        sources = tuple(map(str, json.loads(tags.get(SOURCES_TAG, "[]"))))
    except (CorruptLedger, ValueError, TypeError) as error:
        return _unreadable(object_name, str(error))
    slots, good, failures = BitMap(), [], []
    for segment, found in _decoded(read, segments, object_name):
        if isinstance(found, CorruptLedger):
            failures.append(found)
        else:
            good.append(segment)
            slots.update(np.unique(found // slot_ms).tolist())
    damage = None
    if failures:
        lost = sum(segment.rows for segment in segments) - sum(segment.rows for segment in good)
        damage = Damage(object_name=object_name, reason=str(failures[0]), lost_rows=lost)
    bucket = Bucket(
        id=BucketId(named[1]),
        object_name=object_name,
        size_bytes=size_bytes,
        rows=sum(segment.rows for segment in good),
        slots=slots,
        segments=tuple(good),
        tail=None if failures else _tail(tags),
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


def _tail(tags: dict[str, str]) -> Tail | None:
    if TAIL_TAG not in tags:
        return None
    offset, slots_bytes, segments_bytes = map(int, tags[TAIL_TAG].split(","))
    return Tail(offset=offset, slots_bytes=slots_bytes, segments_bytes=segments_bytes)


def _decoded(
    read: Read, segments: Sequence[Segment], object_name: str
) -> Iterator[tuple[Segment, np.ndarray | CorruptLedger]]:
    """Yields each segment with its delivery times, or with why it has none."""
    for segment, data in read_segments(read, segments):
        try:
            table = decode_segment(data, object_name=object_name, segment=segment, columns=("deliver_at_ms",))
            yield segment, times_of(table)
        except CorruptLedger as error:
            yield segment, error


def read_segments(read: Read, segments: Sequence[Segment]) -> Iterator[tuple[Segment, bytes]]:
    """Yields the bytes of segments that are in the order of their offsets, several with one read."""
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


@dataclass(slots=True, kw_only=True)
class Resolved:
    """Which ledgers count.

    Attributes:
        live: those whose rows are not all in others; still with overlaps.
        dropped: merge outputs whose sources are there, and copies.
        foreign: of another topic or generation of it.
        unreadable: those of which nothing is readable.
    """

    live: list[Inspected] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def resolve(ledgers: Iterable[Inspected], topic: str, generation: str) -> Resolved:
    """Sorts ledgers by what becomes of them; each list is in the order of names."""
    resolved = Resolved()
    ours: list[Inspected] = []
    for each in sorted(ledgers, key=lambda ledger: ledger.object_name):
        if each.bucket is None:
            resolved.unreadable.append(each.object_name)
        elif (each.topic, each.generation) != (topic, generation):
            resolved.foreign.append(each.object_name)
        else:
            ours.append(each)
    whole = {each.object_name for each in ours if each.whole}
    originals: dict[BucketId, str] = {}
    for each in ours:
        if each.whole and each.bucket is not None:
            originals.setdefault(each.bucket.id, each.object_name)
    for each in ours:
        assert each.bucket is not None
        is_copy = originals.get(each.bucket.id, each.object_name) != each.object_name
        if is_copy or (each.sources and whole.issuperset(each.sources)):
            resolved.dropped.append(each.object_name)
        else:
            resolved.live.append(each)
    return resolved


def groups(live: Sequence[Inspected], overlaps: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Returns the ledgers to rewrite, by their places in `live`: those connected by overlaps, and damaged ones."""
    root = list(range(len(live)))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = place = root[root[place]]
        return place

    for a, b in overlaps:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    members: dict[int, list[int]] = {}
    for place in range(len(live)):
        members.setdefault(find(place), []).append(place)
    return [each for each in members.values() if len(each) > 1 or not live[each[0]].whole]


def rewriting(sources: Sequence[Bucket], planned: int) -> Merge | None:
    """Returns the merge that rewrites ledgers as one, cut where it is too large; None if nothing is due any more.

    Rows of slots below `planned` are delivered everywhere.
    """
    slots = BitMap.union(*(source.slots for source in sources))
    slots.remove_range(0, max(0, planned))
    if not slots:
        return None
    size_bytes = sum(source.size_bytes for source in sources)
    rows = sum(source.rows for source in sources)
    outputs = min(len(slots), 1 + max(size_bytes // MAX_OUTPUT_BYTES, rows // MAX_OUTPUT_ROWS))
    starts = [int(slots[len(slots) * i // outputs]) for i in range(outputs)]
    return Merge(
        sources=tuple(sorted(sources, key=lambda source: (source.id, source.object_name))),
        cuts=(*starts, int(slots.max()) + 1),
        live_bytes=size_bytes,
    )


def planned_of(checkpoint: Checkpoint, now_ms: int, first_slot: int | None = None) -> int:
    """Returns the mark from which everything is planned again: where the subscription that is most behind stands.

    Without subscriptions it is the checkpoint's, or `first_slot`, that of the first message that is still there.
    """
    sealed = _sealed(checkpoint, now_ms)
    cursors = [each.cursor for each in checkpoint.subscriptions]
    return min(sealed, min(cursors) if cursors else max(checkpoint.planned, first_slot or 0))


def restored_fence(checkpoint: Checkpoint, planned: int, now_ms: int) -> Fence:
    """Returns the fence to start again with.

    The generation stays, since packs on their way name it. The counters are the time, above any count and any earlier
    rebuild's, so that what was read before is not taken for current. The sweep looks at once; without subscriptions
    nothing is done before there is one, or the next ledger: nothing that waits is planned for nobody.
    """
    waits = bool(checkpoint.subscriptions)
    return Fence(
        topic=checkpoint.topic,
        generation=checkpoint.generation,
        settings=checkpoint.settings,
        sealed=_sealed(checkpoint, now_ms),
        planned=planned,
        gc_until=planned,
        wake_slot=planned if waits else None,
        look_at_ms=now_ms if waits else None,
        ver=now_ms,
        cver=now_ms,
        subs_ver=now_ms,
        merge_ver=now_ms,
        purge_ms=checkpoint.purge_ms,
    )


def restored_subscriptions(checkpoint: Checkpoint, planned: int, generation: str) -> list[Subscription]:
    """Returns the subscriptions as they start again: at `planned`, without the rows that they had.

    Their generation is new: parts of old deliveries then concern nobody.
    """
    return [
        replace(each, cursor=planned, start=max(each.start, each.cursor), generation=generation)
        for each in checkpoint.subscriptions
    ]


def _sealed(checkpoint: Checkpoint, now_ms: int) -> int:
    return max(open_from(now_ms, checkpoint.settings), checkpoint.sealed)


def differs(bucket: Bucket, found: Inspected) -> str | None:
    """Returns how a bucket of the table disagrees with its ledger, None if it does not, or that is damaged."""
    if found.bucket is None or not found.whole:
        return None
    if (bucket.rows, bucket.size_bytes) != (found.bucket.rows, found.bucket.size_bytes):
        return (
            f"the table has {bucket.rows} rows and {bucket.size_bytes} bytes, "
            f"the object {found.bucket.rows} and {found.bucket.size_bytes}"
        )
    if bucket.slot_shift == 0 and bucket.slots != found.bucket.slots:
        return f"the table has {len(bucket.slots)} slots that are not the object's {len(found.bucket.slots)}"
    if bucket.segments and [_place(each) for each in bucket.segments] != [_place(s) for s in found.bucket.segments]:
        return f"the table has {len(bucket.segments)} segments that are not the object's {len(found.bucket.segments)}"
    return None


def _place(segment: Segment) -> tuple[int, ...]:
    times = (segment.first_deliver_at_ms, segment.last_deliver_at_ms)
    return segment.offset, segment.length, segment.rows, *times


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """What a rebuild did, or what a dry run found.

    Attributes:
        objects, size_bytes: under the topic's prefix.
        checkpoint_ms: when the checkpoint was written that it started from; None if there is none.
        from_ms: from when on everything is planned again.
        live, rows: ledgers that count, and their messages.
        dropped: outputs of merges whose sources are there, and copies.
        foreign: ledgers of another topic, or of another generation of it.
        damaged: what cannot be read; a rebuild has moved these objects aside.
        overlapping: ledgers that share messages; a rebuild has rewritten each group as one.
        missing: ledgers that the table names, and that are gone.
        orphaned: objects that the table does not name; `old_orphans` of them are older than the grace.
        differing: ledgers of which the table says something else, and what.
    """

    topic: str
    dry_run: bool = False
    objects: int
    size_bytes: int
    checkpoint_ms: int | None
    from_ms: int | None = None
    subscriptions: tuple[str, ...] = ()
    tombstones: int = 0
    live: int = 0
    rows: int = 0
    dropped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    damaged: tuple[Damage, ...] = ()
    overlapping: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    old_orphans: int = 0
    differing: tuple[tuple[str, str], ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether table and objects say the same; orphans do no harm."""
        return not (self.missing or self.differing or self.overlapping or self.damaged)

    def lines(self) -> Iterator[str]:
        """Yields the report for people."""
        yield f"topic {self.topic}: {self.objects:,} objects, {self.size_bytes / 1e6:,.1f} MB"
        written = "none" if self.checkpoint_ms is None else f"of {_utc(self.checkpoint_ms)}"
        subscriptions = ", ".join(self.subscriptions) or "no subscriptions"
        yield f"checkpoint: {written}; {subscriptions}; {self.tombstones:,} cancelled messages"
        done = "count" if self.dry_run else "make the new index"
        yield f"{self.live:,} ledgers with {self.rows:,} messages {done}"
        if self.from_ms is not None:
            yield f"messages due from {_utc(self.from_ms)} on are planned {'' if self.dry_run else 'again'}".rstrip()
        for damage in self.damaged:
            lost = "all of it" if damage.lost_rows is None else f"{damage.lost_rows:,} messages"
            yield f"damaged, {lost} lost unless another ledger has them: {damage.object_name}: {damage.reason}"
        for names in self.overlapping:
            yield f"share messages: {', '.join(names)}"
        yield from (f"missing: {name}" for name in self.missing)
        yield from (f"differs: {name}: {how}" for name, how in self.differing)
        yield from (f"of another generation, left alone: {name}" for name in self.foreign)
        if self.dropped:
            yield f"{len(self.dropped):,} ledgers hold copies of others only"
        if self.orphaned:
            yield f"{len(self.orphaned):,} objects that nothing names, {self.old_orphans:,} of them over a day old"
        if self.dry_run:
            yield "table and objects agree" if self.agrees else "table and objects disagree"


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
