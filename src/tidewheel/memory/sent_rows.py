"""Stores the progress of packs in memory."""

from __future__ import annotations

from tidewheel.memory.store import MemoryStore


class MemorySentRows:
    """Implements the port `SentRows`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def read(self, topic: str, name: str) -> int | None:
        with self._store.lock:
            known = self._store.of(topic).sent_rows.get(name)
            return None if known is None else known[0]

    def put(self, topic: str, name: str, below_slot: int, ttl_s: int) -> None:
        with self._store.lock:
            self._store.of(topic).sent_rows[name] = below_slot, ttl_s
