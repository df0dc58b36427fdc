"""Reads messages whose slots have passed, the last first, by the plans that sent them.

A plan keeps the names of its segments, and of what it left out. So messages are found as they were sent, even if their
ledgers were merged since. A delivery that is done has left a record, and only such deliveries count.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.delivery.plan_again import segments_of_unindexed
from tidewheel.flows.waiting.find import FoundMessage, found_messages, segment_rows
from tidewheel.model.message import HEADER_ATTRIBUTE, ID_TAIL_BITS, id_deliver_at_ms, id_floor, id_text
from tidewheel.model.plan import Plan, PlannedSegment
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.read_ahead import THREADS, read_ahead
from tidewheel.storage.storage import Storage

_FIRST = '"first":'
"""The extras of a retry's header have this, and no text in them can, because JSON escapes quotation marks."""
MOST_READS = 1000
"""Segments that one look reads, each with a GET."""


class PassedMessage(NamedTuple):
    """A message of a plan, and the records of the plan's deliveries that are done."""

    found: FoundMessage
    records: Sequence[Delivery]


@dataclass(slots=True, kw_only=True)
class Passed:
    """A look at passed messages.

    Attributes:
        first_ms: messages due at this time or later are wanted.
        end_id: those whose 16-byte ids are below.
        subscription, key, group: of the wanted messages. None: all.
        looked_back_ms: all wanted messages due at this time or later were yielded.
        reads: segments that were read.
        unreadable: the error of each ledger or plan that could not be read, by its name. Its messages are missing.
        complete: whether the look came to its end, and not to MOST_READS.
    """

    storage: Storage
    state: TopicState
    first_ms: int
    end_id: bytes
    subscription: str | None = None
    key: str | None = None
    group: str | None = None
    looked_back_ms: int = field(init=False)
    reads: int = 0
    unreadable: dict[str, Exception] = field(default_factory=dict)
    complete: bool = False

    def __post_init__(self) -> None:
        self.looked_back_ms = id_deliver_at_ms(self.end_id)

    def messages(self) -> Iterator[PassedMessage]:
        """Yields the messages. Reads plans, records and segments as the caller asks."""
        topic, slot_ms = self.state.topic, self.state.slot_ms
        last_slot = self.looked_back_ms // slot_ms
        records = self.storage.deliveries.sent(topic, 0, last_slot + 1)
        ahead = next(records, None)
        for plan in self.storage.plans.before(topic, last_slot, self.unreadable):
            if plan.end_slot * slot_ms <= self.first_ms:
                break
            own = []
            while ahead is not None and ahead.key.plan >= plan.first_slot:
                if ahead.key.plan == plan.first_slot and self.subscription in (None, ahead.key.subscription):
                    own.append(ahead)
                ahead = next(records, None)
            if own:
                for found in self._of_plan(plan):
                    yield PassedMessage(found, own)
                if self.reads >= MOST_READS:
                    return
            self.looked_back_ms = min(self.looked_back_ms, plan.first_slot * slot_ms)
        self.looked_back_ms = min(self.looked_back_ms, self.first_ms)
        self.complete = True

    def _of_plan(self, plan: Plan) -> Iterator[FoundMessage]:
        """Yields the wanted messages of a plan. Reads a segment when no other can hold a later message.

        A look for a key or a group reads some segments ahead, side by side.
        """
        planned = [*plan.segments, *self._unindexed(plan)]
        wanted = (each for each in planned if each.segment.last_deliver_at_ms >= self.first_ms)
        segments = [each for each in wanted if each.segment.least_id < self.end_id]
        segments.sort(key=lambda each: each.segment.last_deliver_at_ms)
        allowed = islice(reversed(segments.copy()), MOST_READS - self.reads)
        threads = 1 if self.key is None and self.group is None else THREADS
        heap: list[tuple[int, FoundMessage]] = []
        seen: set[bytes] = set()
        with closing(read_ahead(partial(self._read, plan), allowed, threads=threads)) as read:
            while segments or heap:
                while segments and not (heap and _due_ms(heap[0]) > segments[-1].segment.last_deliver_at_ms):
                    self.looked_back_ms = min(self.looked_back_ms, segments[-1].segment.last_deliver_at_ms + 1)
                    if self.reads == MOST_READS:
                        return
                    segments.pop()
                    self.reads += 1
                    for found in next(read):
                        if found.checked.id not in seen:
                            seen.add(found.checked.id)
                            heapq.heappush(heap, (-int.from_bytes(found.checked.id), found))
                if heap:
                    yield heapq.heappop(heap)[1]

    def _unindexed(self, plan: Plan) -> Iterator[PlannedSegment]:
        """Yields the segments of ledgers whose index could not be read when the plan was made."""
        for ledger in plan.unindexed:
            try:
                yield from segments_of_unindexed(self.storage.objects, ledger, plan, self.state.slot_ms)
            except (CorruptLedger, ObjectMissing, ValueError) as error:
                self.unreadable[ledger.object_name] = error

    def _read(self, plan: Plan, planned: PlannedSegment) -> Sequence[FoundMessage]:
        try:
            rows = segment_rows(self.storage.objects, planned.object_name, planned.segment)
        except (CorruptLedger, ObjectMissing) as error:
            self.unreadable[planned.object_name] = error
            return []
        key = self.key
        return [
            each
            for each in found_messages(self._chosen(plan, rows), planned.object_name)
            if (key is None or each.key == key) and id_text(each.checked.id) not in plan.cancelled
        ]

    def _chosen(self, plan: Plan, rows: pa.Table) -> pa.Table:
        slot_ms, due = self.state.slot_ms, rows.column("deliver_at_ms")
        first_ms = max(plan.first_slot * slot_ms, self.first_ms)
        ids = rows.column("message_id").cast(pa.binary())
        end_id = min(self.end_id, id_floor(plan.end_slot * slot_ms))
        keep = pc.and_(pc.greater_equal(due, first_ms), pc.less(ids, pa.scalar(end_id, pa.binary())))
        if self.group is not None:
            keep = pc.and_(keep, _is(rows.column("message_group"), self.group))
        if self.key is not None:
            keep = pc.and_(keep, pc.or_(_is(rows.column("key"), self.key), _are_retries(rows)))
        return rows.filter(keep)


def _due_ms(found: tuple[int, FoundMessage]) -> int:
    return -found[0] >> ID_TAIL_BITS


def _is(column: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(column, value), False)


def _are_retries(rows: pa.Table) -> pa.ChunkedArray:
    """Returns which rows may be retries of messages with a key. Their key is in the header, among the attributes."""
    extras = pc.map_lookup(rows.column("attributes"), query_key=HEADER_ATTRIBUTE, occurrence="first")
    return pc.fill_null(pc.match_substring(extras, _FIRST), False)
