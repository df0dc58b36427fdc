"""Stores keys in memory."""

from __future__ import annotations

from tidewheel.flows.ports.keys import FoundKeys, NotInLedgers
from tidewheel.memory.store import MemoryStore
from tidewheel.model.key import KeyEntry
from tidewheel.model.tombstone import Tombstone


class MemoryKeys:
    """Implements the port `Keys`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def read(self, topic: str, key: str) -> KeyEntry | None:
        with self._store.lock:
            return self._store.of(topic).keys.get(key)

    def claim(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        with self._store.lock:
            keys = self._store.of(topic).keys
            found = keys.get(entry.key)
            if found is None:
                keys[entry.key] = entry
            return found

    def move(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        with self._store.lock:
            items = self._store.of(topic)
            found = items.keys.get(entry.key)
            if found is None or found.version != seen.version:
                return False
            if superseded is not None and superseded[:2] in items.tombstones:
                return False
            if superseded is not None and superseded.certain and not self._store.slot_open(topic, superseded.slot):
                return False
            items.keys[entry.key] = entry
            if superseded is not None:
                items.tombstones[superseded[:2]] = superseded
            return True

    def not_in_ledgers(self, topic: str, wanted: NotInLedgers) -> FoundKeys:
        with self._store.lock:
            keys = list(self._store.of(topic).keys.values())
        return FoundKeys(entries=wanted.most_of(filter(wanted.selects, keys)), examined=len(keys))
