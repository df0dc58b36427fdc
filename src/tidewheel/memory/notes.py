"""Stores notes in memory."""

from __future__ import annotations

from tidewheel.flows.ports.notes import Note
from tidewheel.memory.store import MemoryStore


class MemoryNotes:
    """Implements the port `Notes`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def read(self, topic: str, name: str) -> Note | None:
        with self._store.lock:
            known = self._store.of(topic).notes.get(name)
            return None if known is None else known[0]

    def put(self, topic: str, name: str, number: int, ttl_s: int, waiting: frozenset[bytes] = frozenset()) -> None:
        with self._store.lock:
            self._store.of(topic).notes[name] = Note(number, waiting), ttl_s
