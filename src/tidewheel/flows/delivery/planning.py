"""Makes plans, and finds the next work of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

from tidewheel.flows.delivery.load_index import Indexes, complete, completed, unindexed
from tidewheel.flows.delivery.occurrences import store_occurrences
from tidewheel.flows.delivery.recur import next_occupied_by
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, due_segments, waiting_rows
from tidewheel.model.plan import Plan, part_rows_of
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import NextWork, TopicState

_LOOK_AGAIN_MS = 3_600_000


class DueBuckets:
    """The buckets that a dispatch needs, in the order of their slots.

    The constructor reads the buckets that begin before `sealed`, and the tails of buckets that occupy [planned,
    sealed). The constructor drops buckets that end before `planned`. `next_slot` reads more buckets only if the result
    needs them.

    Attributes:
        indexes: these buckets.
    """

    def __init__(self, ports: Ports, state: TopicState) -> None:
        self._ports, self._state = ports, state
        coming = ports.buckets.in_order(state.topic)
        buckets: list[Bucket] = []
        self._ahead: Iterator[Bucket] = coming
        for bucket in coming:
            if bucket.id_slot >= state.sealed:
                self._ahead = chain([bucket], coming)
                break
            if bucket.last_slot >= state.planned:  # the others wait to be collected, in any number
                buckets.append(bucket)
        self.indexes = Indexes(buckets, [])
        if not all(each.complete for each in buckets):
            self.indexes = completed(ports, buckets, state.planned, state.sealed, state.slot_ms)

    def next_slot(self) -> int | None:
        """Returns the first occupied slot at or after `sealed`, or None. Reads buckets until the result is certain."""
        return next_occupied(self._ports, chain(self.indexes.buckets, self._ahead), self._state.sealed)

    @property
    def planned_rows(self) -> int:
        """Estimates the rows of [planned, sealed). The estimates of all dispatches add up to all rows."""
        buckets, state = self.indexes.buckets, self._state
        return waiting_rows(buckets, state.planned) - waiting_rows(buckets, state.sealed)


def make_plan(ports: Ports, state: TopicState, indexes: Indexes, recurring: Sequence[Recurring] = ()) -> Plan | None:
    """Returns the plan of [planned, sealed). Returns None if nothing is due.

    Tombstones are read after the seal. Buckets that occupy this range must be complete, or among the unreadable. The
    occurrences of recurring messages are put into an object first.
    """
    segments = due_segments(indexes.buckets, state.planned, state.sealed, state.slot_ms)
    occurrences = None
    if recurring:
        occurrences = store_occurrences(ports, state, recurring)
    if occurrences is not None:
        segments += occurrences.segments
    without_index = tuple(map(unindexed, indexes.unreadable))
    if not segments and not without_index:
        return None
    return Plan(
        topic=state.topic,
        first_slot=state.planned,
        end_slot=state.sealed,
        segments=segments,
        cancelled=ports.tombstones.ids(state.topic, state.planned, state.sealed),
        part_rows=part_rows_of(sum(each.due_rows for each in segments), state.settings.part_rows),
        occurrences=None if occurrences is None else occurrences.object_name,
        unindexed=without_index,
    )


def next_work_of(
    state: TopicState,
    occupied: int | None,
    recurring: Sequence[Recurring],
    now_ms: int,
    *,
    plans: bool,
    again: bool = False,
) -> NextWork:
    """Returns the next occupied slot after the seal, and when to check the topic next.

    Args:
        occupied: the next slot of a ledger.
        plans: whether messages are planned.
        again: whether a recurring message cannot be read now. A dispatch then looks again within an hour.
    """
    slots = (
        occupied,
        next_occupied_by(recurring, state.slot_ms, state.sealed) if recurring else None,
        max(state.sealed, (now_ms + _LOOK_AGAIN_MS) // state.slot_ms) if again else None,
    )
    slot = min((each for each in slots if each is not None), default=None)
    # Kept ledgers may be collected much later. Those that pass with this plan must not be read by each dispatch.
    next_ms = now_ms + state.settings.collect_interval_s * 1000
    collect_at_ms = state.collect_at_ms
    if collect_at_ms is None or (plans and collect_at_ms > next_ms):
        collect_at_ms = next_ms
    return NextWork(next_slot=slot, next_check_ms=state.check_at(slot, collect_at_ms), collect_at_ms=collect_at_ms)


class _NextSlot(NamedTuple):
    """A bucket's next slot, in the order in which `next_occupied` looks at buckets: exact slots before lower bounds."""

    slot: int
    coarse: bool
    number: int
    bucket: Bucket


def next_occupied(ports: Ports, buckets: Iterable[Bucket], at_or_after: int) -> int | None:
    """Returns the first occupied slot at or after a slot, or None.

    Reads coarse bitmaps whole where the result depends on these. A bitmap that cannot be read counts as it is.

    Args:
        buckets: in the order of their ids. No more are taken than the result depends on.
    """
    nearest: list[_NextSlot] = []

    def add(number: int, bucket: Bucket, *, coarse: bool) -> None:
        slot = bucket.next_slot(at_or_after)
        if slot is not None:
            heappush(nearest, _NextSlot(slot, coarse, number, bucket))

    coming = enumerate(buckets)
    following = next(coming, None)
    while True:
        while following is not None and not (nearest and nearest[0].slot <= following[1].id_slot):
            add(*following, coarse=following[1].slot_shift > 0)
            following = next(coming, None)
        if not nearest or not nearest[0].coarse:
            return nearest[0].slot if nearest else None
        first = heappop(nearest)
        try:
            add(first.number, complete(ports.objects, first.bucket), coarse=False)
        except Exception:  # a dispatch too early plans nothing of it
            add(first.number, first.bucket, coarse=False)
