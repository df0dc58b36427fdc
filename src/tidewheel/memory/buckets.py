"""Stores buckets in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from tidewheel.flows.ports.buckets import Commit
from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.ledger.bucket import Bucket, BucketId, slot_of
from tidewheel.memory.store import MemoryStore
from tidewheel.model.topic_state import TopicState, above


class MemoryBuckets:
    """Implements the port `Buckets`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def commit(
        self,
        state: TopicState,
        bucket: Bucket,
        next_work: NextWork | None,
        merge_at_ms: int | None = None,
        once: str | None = None,
        *,
        same_swaps: bool = False,
    ) -> Commit:
        with self._store.lock:
            items = self._store.of(state.topic)
            if bucket.id in items.buckets or once in items.imports:
                return Commit.EXISTS
            first, current = bucket.first_slot, self._store.same(state)
            if (
                current is None
                or current.sealed > first
                or above(current.next_slot, first) != above(state.next_slot, first)
                or (same_swaps and current.swap_version != state.swap_version)
            ):
                return Commit.MOVED
            items.buckets[bucket.id] = bucket
            if once is not None:
                items.imports.add(once)
            items.state = replace(current, work_version=current.work_version + 1, waiting=current.waiting + bucket.rows)
            if next_work is not None:
                items.state = replace(items.state, next_slot=next_work.next_slot, next_check_ms=next_work.next_check_ms)
            if merge_at_ms is not None:
                items.state = replace(items.state, merge_at_ms=merge_at_ms, next_check_ms=merge_at_ms)
            return Commit.COMMITTED

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        with self._store.lock:
            marks = (once.rpartition("#") for once in self._store.of(topic).imports)
            return frozenset(int(cut) for name, _, cut in marks if name == import_id)

    def read(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        with self._store.lock:
            return self._store.of(topic).buckets.get(bucket_id)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Bucket]:
        return list(self.in_order(topic, unreadable))

    def in_order(
        self,
        topic: str,
        unreadable: dict[str, Exception] | None = None,  # noqa: ARG002
        *,
        first_slot: int = 0,
        end_slot: int | None = None,
    ) -> Iterator[Bucket]:
        with self._store.lock:
            buckets = self._store.of(topic).buckets
            ids = sorted(buckets)
            first = bisect_left(ids, first_slot, key=slot_of)
            end = len(ids) if end_slot is None else bisect_left(ids, end_slot, key=slot_of)
            return iter([buckets[id] for id in ids[first:end]])

    def delete(self, topic: str, bucket_id: BucketId) -> None:
        with self._store.lock:
            self._store.of(topic).buckets.pop(bucket_id, None)

    def restore(self, topic: str, bucket: Bucket) -> None:
        with self._store.lock:
            self._store.of(topic).buckets[bucket.id] = bucket

    def repair(self, topic: str, bucket: Bucket) -> bool:
        with self._store.lock:
            buckets = self._store.of(topic).buckets
            if bucket.id not in buckets:
                return False
            buckets[bucket.id] = bucket
            return True
