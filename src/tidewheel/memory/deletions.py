"""Stores deletions of topics in memory."""

from __future__ import annotations

from dataclasses import replace

from tidewheel.memory.store import MemoryStore, TopicItems
from tidewheel.model.topic_state import ALL_SEALED, TopicState


class MemoryDeletions:
    """Implements the port `Deletions`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def mark(self, state: TopicState, generation: str, now_ms: int) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None:
                return False
            self._store.of(state.topic).state = replace(
                current, generation=generation, sealed=ALL_SEALED, deleting_at_ms=now_ms, next_check_ms=now_ms
            )
            return True

    def read(self, topic: str) -> TopicState | None:
        with self._store.lock:
            current = self._store.read(topic)
            return current if current is not None and current.deleting_at_ms is not None else None

    def claim(self, state: TopicState, next_check_ms: int) -> bool:
        with self._store.lock:
            current = self._store.same(state)
            if current is None or current.next_check_ms != state.next_check_ms:
                return False
            self._store.of(state.topic).state = replace(current, next_check_ms=next_check_ms)
            return True

    def delete_items(self, topic: str) -> bool:
        with self._store.lock:
            bare = TopicItems(state=self._store.of(topic).state)
            if self._store.of(topic) == bare:
                return True
            self._store.topics[topic] = bare
            return False

    def forget(self, state: TopicState) -> bool:
        with self._store.lock:
            if self._store.same(state) is None:
                return False
            self._store.of(state.topic).state = None
            return True
