"""Decides which ledgers count in a rebuild, and with which marks the index starts.

A merge leaves outputs beside their sources until the sources are collected, and a merge that died leaves outputs that
nothing names. Both hold copies of the sources' rows:

    all sources are there and whole    the output is dropped: the sources hold its rows, and more
    some are                           all stay, and those that share a message are rewritten as one
    none is                            the output stays

Ledgers that share a message for other reasons (an ingest died after its PUT, and the packs came again in other groups)
are rewritten likewise. So are ledgers with damaged segments, without these segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pyroaring import BitMap

from tidewheel.flows.maintenance.merge_planning import Merge, Size, shares_of
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.checkpoint import Checkpoint
from tidewheel.model.plan import Segment
from tidewheel.model.recurring import Recurring
from tidewheel.model.subscription_state import SubscriptionState, readers_of
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import open_from
from tidewheel.storage.topic_states import AT_ONCE_MS


@dataclass(slots=True, kw_only=True)
class Resolved:
    """The ledgers, sorted by whether they count.

    Attributes:
        live: ledgers whose rows are not all in others; still with overlaps.
        dropped: merge outputs whose sources are there, and copies.
        foreign: ledgers of another topic or of another generation of the topic.
        unreadable: ledgers of which nothing is readable.
    """

    live: list[Inspected] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def resolve(ledgers: Iterable[Inspected], topic: str, generation: str) -> Resolved:
    """Sorts ledgers into live, dropped, foreign and unreadable. Each list is sorted by name."""
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


class Forest:
    """Finds which ledgers hang together, by their places. The root of a tree is its least place."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def root(self, place: int) -> int:
        """Returns the root of a place's tree."""
        while (above := self._above.get(place, place)) != place:
            self._above[place] = place = self._above.get(above, above)
        return place

    def join(self, a: int, b: int) -> bool:
        """Makes the trees of two places one. Returns False if they were one already."""
        low, high = sorted((self.root(a), self.root(b)))
        self._above[high] = low
        return low != high


def groups(live: Sequence[Inspected], overlaps: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Returns the groups of ledgers to rewrite, by their places in `live`.

    A group holds ledgers connected by overlaps, or a damaged ledger.
    """
    forest = Forest()
    for a, b in overlaps:
        forest.join(a, b)
    members: dict[int, list[int]] = {}
    for place in range(len(live)):
        members.setdefault(forest.root(place), []).append(place)
    return [each for each in members.values() if len(each) > 1 or not live[each[0]].whole]


def rewriting(sources: Sequence[Bucket], planned: int) -> Merge | None:
    """Returns the merge that rewrites ledgers into a single output. Returns None if nothing is due.

    The output is cut where it is too large. Rows of slots below `planned` are delivered everywhere.
    """
    slots = BitMap.union(*(source.slots for source in sources))
    slots.remove_range(0, max(0, planned))
    if not slots:
        return None
    size_bytes = sum(source.size_bytes for source in sources)
    size = Size(size_bytes, sum(source.rows for source in sources))
    return Merge(
        sources=tuple(sorted(sources, key=lambda source: (source.id, source.object_name))),
        windows=tuple(shares_of(int(slots.min()), int(slots.max()) + 1, size)),
        live_bytes=size_bytes,
    )


def planned_of(checkpoint: Checkpoint, now_ms: int, first_slot: int | None = None) -> int:
    """Returns the mark from which everything is planned again, the least cursor.

    Without subscriptions, this is the checkpoint's mark, or `first_slot` (of the first message still there) if that is
    later.
    """
    sealed = _sealed(checkpoint, now_ms)
    cursors = [each.cursor for each in checkpoint.subscriptions]
    return min(sealed, min(cursors) if cursors else max(checkpoint.planned, first_slot or 0))


def restored_state(checkpoint: Checkpoint, planned: int, now_ms: int) -> TopicState:
    """Returns the topic state to start again with.

    The generation stays, since packs on their way name it. The counters are set to the time, which is above any count
    and any earlier rebuild's counters, so that older reads do not count as current. The next slot has no schedule: the
    sweep checks the topic at once. Without subscriptions nothing happens before there is a subscription or a new
    ledger, so that waiting messages are not planned without a receiver.
    """
    waits = bool(checkpoint.subscriptions)
    view_at_ms = now_ms if checkpoint.settings.live_view else None
    return TopicState(
        topic=checkpoint.topic,
        generation=checkpoint.generation,
        settings=checkpoint.settings,
        sealed=_sealed(checkpoint, now_ms),
        planned=planned,
        collected_until=planned,
        next_slot=planned if waits else None,
        next_check_ms=AT_ONCE_MS if waits else view_at_ms,
        view_at_ms=view_at_ms,
        work_version=now_ms,
        swap_version=now_ms,
        subscriptions_version=now_ms,
        merge_considered_version=now_ms,
        purge_ms=checkpoint.purge_ms,
        recurring=len(checkpoint.recurring),
        purges=checkpoint.purges,
        created_at_ms=checkpoint.created_at_ms,
        readers=readers_of(checkpoint.subscriptions),
    )


def restored_subscriptions(checkpoint: Checkpoint, planned: int) -> list[SubscriptionState]:
    """Returns the restored subscriptions. They start at `planned`, without the rows that they had.

    Their generation stays, because parks and quarantined deliveries belong to them only by the generation. A task for a
    part of an old delivery can then only deliver a part of a new delivery.
    """
    return [replace(each, cursor=planned, start=max(each.start, each.cursor)) for each in checkpoint.subscriptions]


def restored_recurring(checkpoint: Checkpoint) -> list[Recurring]:
    """Returns the restored recurring messages. Occurrences that were planned before the checkpoint are in ledgers."""
    planned_ms = checkpoint.planned * checkpoint.settings.slot_ms
    return [replace(each, first_ms=max(each.first_ms, planned_ms)) for each in checkpoint.recurring]


def _sealed(checkpoint: Checkpoint, now_ms: int) -> int:
    return max(open_from(now_ms, checkpoint.settings), checkpoint.sealed)


def differs(bucket: Bucket, found: Inspected) -> str | None:
    """Returns how a table's bucket disagrees with its ledger.

    Returns None if they agree, or the ledger is damaged.
    """
    if found.bucket is None or not found.whole:
        return None
    if (bucket.rows, bucket.size_bytes) != (found.bucket.rows, found.bucket.size_bytes):
        return (
            f"the table has {bucket.rows} rows and {bucket.size_bytes} bytes, "
            f"the object {found.bucket.rows} and {found.bucket.size_bytes}"
        )
    segments, others = bucket.segments, found.bucket.segments
    other_slots = bucket.slot_shift == 0 and bucket.slots != found.bucket.slots
    if other_slots or (segments and others and list(map(_place, segments)) != list(map(_place, others))):
        return "the table has slots or segments that are not the object's"
    return None


def _place(segment: Segment) -> tuple[int, ...]:
    times = (segment.first_deliver_at_ms, segment.last_deliver_at_ms)
    return segment.offset, segment.length, segment.rows, *times
