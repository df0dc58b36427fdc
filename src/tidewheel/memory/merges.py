"""Stores merges and trash in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidewheel.flows.ports.merges import Trash
from tidewheel.ledger.bucket import Bucket
from tidewheel.memory.store import MemoryStore
from tidewheel.model.topic_state import TopicState


class MemoryMerges:
    """Implements the port `Merges`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def lease(self, topic: str, now_ms: int, until_ms: int, held_until_ms: int | None = None) -> bool:
        with self._store.lock:
            items = self._store.of(topic)
            held_ms = items.merging_until_ms
            if held_ms is not None and held_ms > now_ms and held_ms != held_until_ms:
                return False
            items.merging_until_ms = until_ms
            return True

    def release(self, topic: str, until_ms: int) -> None:
        with self._store.lock:
            if self._store.of(topic).merging_until_ms == until_ms:
                self._store.of(topic).merging_until_ms = None

    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        with self._store.lock:
            items, current = self._store.of(state.topic), self._store.same(state)
            if current is None or current.planned > trash.sealed:
                return False
            if any(source.id not in items.buckets for source in sources):
                return False
            for source in sources:
                del items.buckets[source.id]
            items.buckets |= {output.id: output for output in outputs}
            items.trash[trash.sealed, trash.id] = trash
            items.state = replace(current, swap_version=current.swap_version + 1, waiting=current.waiting - dropped)
            return True

    def trash(self, topic: str) -> list[Trash]:
        with self._store.lock:
            return [each for _, each in sorted(self._store.of(topic).trash.items())]

    def delete_trash(self, topic: str, trash: Trash) -> None:
        with self._store.lock:
            self._store.of(topic).trash.pop((trash.sealed, trash.id), None)
