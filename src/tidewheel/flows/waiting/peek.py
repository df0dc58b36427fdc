"""Reads the next waiting messages from as few segments as possible.

With `find`, this is all ledger reading of the client, which imports only this module, and only when needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.delivery.due_rows import is_taken, without_purged
from tidewheel.flows.delivery.load_index import complete_all
from tidewheel.flows.waiting.find import FoundMessage, find_message, found_messages, segment_rows
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.message import MessageId, id_deliver_at_ms, id_floor, id_text
from tidewheel.model.plan import Segment
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage

__all__ = ["FoundMessage", "find_message", "is_taken", "peek_messages"]


def peek_messages(
    storage: Storage, state: TopicState, count: int, now_ms: int, *, after: bytes | None = None
) -> tuple[list[FoundMessage], dict[str, Exception]]:
    """Returns the next unplanned messages, by due time and id, and the error of each ledger that cannot be read.

    Cancelled, purged and expired messages are left out. Segments are read in the order of the first row that they may
    hold, one at a time, until none can hold an earlier row than the rows found. So memory holds one segment, `count`
    messages, the index of the buckets read, and the tombstones up to the last row read. Buckets are read in the order
    of their slots, up to the time of the last message found.

    Args:
        state: of the topic, read by the caller; messages of slots that it does not call planned are waiting.
        count: the maximum number of messages.
        after: only messages whose ids are above this id.
    """
    for _ in range(2):  # a collection may delete an object after its name was read
        peek = _Peek(storage, state, count, now_ms, after or b"")
        found = peek.messages()
        if not any(isinstance(each, ObjectMissing) for each in peek.unreadable.values()):
            break
    return found, peek.unreadable


class _Peek:
    """A single peek at the waiting messages."""

    def __init__(self, storage: Storage, state: TopicState, count: int, now_ms: int, after: bytes) -> None:
        self._storage, self._state, self._count, self._now_ms = storage, state, count, now_ms
        self._after = max(after, id_floor(state.planned * state.slot_ms))
        self.unreadable: dict[str, Exception] = {}
        self._coming = storage.buckets.in_order(state.topic, self.unreadable)
        self._ahead = next(self._coming, None)
        self._buckets: list[Bucket] = []
        self._heap: list[tuple[bytes, int, int]] = []
        self._kept: dict[bytes, FoundMessage] = {}
        self._cancelled: set[MessageId] = set()
        self._asked_to_slot = self._start_slot = id_deliver_at_ms(self._after) // state.slot_ms

    def messages(self) -> list[FoundMessage]:
        """Reads until the found messages are certain to be the next ones."""
        for object_name, segment in self._segments():
            try:
                rows = segment_rows(self._storage.objects, object_name, segment)
            except (CorruptLedger, ObjectMissing) as error:
                self.unreadable[object_name] = error
                continue
            self._take(object_name, rows)
        return list(self._kept.values())

    @property
    def _full(self) -> bool:
        return len(self._kept) == self._count

    @property
    def _last(self) -> bytes:
        return next(reversed(self._kept))

    # ---- the index
    def _segments(self) -> Iterator[tuple[str, Segment]]:
        """Yields segments by the least id that a waiting row in them may have.

        Ends when that id is behind the found rows. Tails are read only when needed.
        """
        while self._look_ahead() and not (self._full and self._last < self._heap[0][0]):
            bound, number, position = heapq.heappop(self._heap)
            bucket = self._buckets[number]
            if not bucket.complete:
                completed = complete_all(self._storage.objects, [bucket], self.unreadable)
                if not completed:
                    continue
                [bucket] = self._buckets[number : number + 1] = completed
            at = self._next_of(number, position)
            if at is None:
                continue
            position, least_id = at
            if least_id > bound:  # other buckets may come first
                self._push(number, least_id, position)
                continue
            yield bucket.object_name, bucket.segments[position]
            following = self._next_of(number, position + 1)
            if following is not None:
                self._push(number, following[1], following[0])

    def _look_ahead(self) -> bool:
        """Reads the buckets that may come next. Returns False if no bucket is left."""
        while self._ahead is not None and not (self._heap and self._heap[0][0] < self._floor(self._ahead.id_slot)):
            slot = self._ahead.next_slot(self._start_slot)
            self._buckets.append(self._ahead)
            if slot is not None:
                self._push(len(self._buckets) - 1, self._floor(slot), 0)
            self._ahead = next(self._coming, None)
        return bool(self._heap)

    def _floor(self, slot: int) -> bytes:
        return id_floor(slot * self._state.slot_ms)

    def _push(self, number: int, bound: bytes, position: int) -> None:
        heapq.heappush(self._heap, (max(bound, self._after), number, position))

    def _next_of(self, number: int, position: int) -> tuple[int, bytes] | None:
        """Returns a complete bucket's next segment that may hold a waiting row, and a lower bound of the row's id."""
        bucket = self._buckets[number]
        for at in range(position, len(bucket.segments)):
            segment = bucket.segments[at]
            if at + 1 < len(bucket.segments) and bucket.segments[at + 1].least_id <= self._after:
                continue
            least_id = max(self._after, segment.least_id)
            slot = bucket.next_slot(id_deliver_at_ms(least_id) // self._state.slot_ms)
            if slot is not None:
                least_id = max(least_id, self._floor(slot))
                if id_deliver_at_ms(least_id) <= segment.last_deliver_at_ms:
                    return at, least_id
        return None

    # ---- rows
    def _take(self, object_name: str, rows: pa.Table) -> None:
        """Keeps the rows of a segment that belong to the next messages.

        The rows are sorted, so most rows are never read.
        """
        rows = self._waiting(rows)
        fresh: dict[bytes, FoundMessage] = {}
        start, step = 0, self._count
        while start < rows.num_rows and len(fresh) < self._count:
            part = rows.slice(start, step)
            # Few rows at first, since their tombstones are read; more if all of these were cancelled.
            start, step = start + step, 2 * step
            ids = part.column("message_id").cast(pa.binary()).to_pylist()
            if self._full and ids[0] > self._last:
                break
            self._ask_for_tombstones(ids)
            live = [i for i, each in enumerate(ids) if id_text(each) not in self._cancelled]
            for message in found_messages(part.take(pa.array(live[: self._count], pa.int64())), object_name):
                fresh.setdefault(message.checked.id, message)
        known = {**fresh, **self._kept}
        self._kept = {each: known[each] for each in sorted(known)[: self._count]}

    def _waiting(self, rows: pa.Table) -> pa.Table:
        """Drops expired and purged rows, and rows up to `after`."""
        keep = pc.greater(rows.column("message_id").cast(pa.binary()), pa.scalar(self._after, pa.binary()))
        expires = rows.column("expires_at_ms")
        if expires.null_count < rows.num_rows:
            keep = pc.and_(keep, pc.fill_null(pc.greater_equal(expires, self._now_ms), True))
        return without_purged(rows.filter(keep), self._state)

    def _ask_for_tombstones(self, ids: list[bytes]) -> None:
        """Reads the tombstones up to the last of some sorted ids, except known tombstones."""
        end_slot = id_deliver_at_ms(ids[-1]) // self._state.slot_ms + 1
        if end_slot > self._asked_to_slot:
            self._cancelled |= self._storage.tombstones.ids(self._state.topic, self._asked_to_slot, end_slot)
            self._asked_to_slot = end_slot
