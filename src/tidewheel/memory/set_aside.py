"""Stores set-aside items in memory."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.memory.store import MemoryStore
from tidewheel.model.set_aside import SetAside, SetAsideKey


class MemorySetAsideItems:
    """Implements the port `SetAsideItems`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, item: SetAside) -> None:
        with self._store.lock:
            self._store.of(item.key.topic).set_aside.setdefault(item.key, item)

    def read(self, key: SetAsideKey) -> SetAside | None:
        with self._store.lock:
            return self._store.of(key.topic).set_aside.get(key)

    def all(self, topic: str, unreadable: object = None) -> list[SetAside]:  # noqa: ARG002
        with self._store.lock:
            found = self._store.of(topic).set_aside.values()
            return sorted(found, key=lambda each: (each.key.subscription, each.key.generation, each.key.id))

    def change(self, seen: SetAside, item: SetAside) -> bool:
        with self._store.lock:
            current = self.read(seen.key)
            if current is None or (current.tries, current.next_check_ms) != (seen.tries, seen.next_check_ms):
                return False
            self._store.of(item.key.topic).set_aside[item.key] = item
            return True

    def delete(self, keys: Iterable[SetAsideKey]) -> None:
        with self._store.lock:
            for key in keys:
                self._store.of(key.topic).set_aside.pop(key, None)
