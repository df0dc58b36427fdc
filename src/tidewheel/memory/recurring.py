"""Stores recurring messages in memory."""

from __future__ import annotations

from dataclasses import replace

from tidewheel.flows.ports.topic_states import AT_ONCE_MS
from tidewheel.memory.store import MemoryStore
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState


class MemoryRecurring:
    """Implements the port `RecurringMessages`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, state: TopicState, recurring: Recurring, seen: Recurring | None, next_slot: int | None) -> bool:
        with self._store.lock:
            items, current = self._store.of(state.topic), self._store.same(state)
            found = items.recurring.get(recurring.name)
            if current is None or current.sealed > recurring.first_ms // state.slot_ms:
                return False
            if (found and found.generation) != (seen and seen.generation) or current.next_slot != state.next_slot:
                return False
            items.recurring[recurring.name] = recurring
            items.state = replace(
                current, work_version=current.work_version + 1, recurring=current.recurring + (found is None)
            )
            if next_slot is not None:
                items.state = replace(items.state, next_slot=next_slot, next_check_ms=AT_ONCE_MS)
            return True

    def read(self, topic: str, name: str) -> Recurring | None:
        with self._store.lock:
            return self._store.of(topic).recurring.get(name)

    def all(self, topic: str, unreadable: object = None) -> list[Recurring]:  # noqa: ARG002
        with self._store.lock:
            return [each for _, each in sorted(self._store.of(topic).recurring.items())]

    def note_missed(self, topic: str, name: str, slot: int) -> None:
        with self._store.lock:
            found = self._store.of(topic).recurring.get(name)
            if found is not None and found.missed_slot is None:
                self._store.of(topic).recurring[name] = replace(found, missed_slot=slot)

    def delete(self, state: TopicState, name: str, generation: str | None) -> bool:
        with self._store.lock:
            items, current = self._store.of(state.topic), self._store.same(state)
            found = items.recurring.get(name)
            if current is None or found is None or generation not in (None, found.generation):
                return False
            del items.recurring[name]
            items.state = replace(current, recurring=current.recurring - 1)
            return True

    def restore(self, recurring: Recurring) -> None:
        with self._store.lock:
            self._store.of(recurring.topic).recurring[recurring.name] = recurring
