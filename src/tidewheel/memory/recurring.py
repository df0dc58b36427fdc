"""Stores recurring messages in memory."""

from __future__ import annotations

from dataclasses import replace

from tidewheel.flows.ports import AT_ONCE_MS
from tidewheel.memory.items import MemoryItems
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState


class MemoryRecurring(MemoryItems):
    """Implements the port `RecurringPort` with dicts."""

    def put_recurring(
        self, state: TopicState, recurring: Recurring, seen: Recurring | None, next_slot: int | None
    ) -> bool:
        with self._lock:
            items, current = self._of(state.topic), self._same(state)
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

    def recurring(self, topic: str, name: str) -> Recurring | None:
        with self._lock:
            return self._of(topic).recurring.get(name)

    def all_recurring(self, topic: str) -> list[Recurring]:
        with self._lock:
            return [each for _, each in sorted(self._of(topic).recurring.items())]

    def delete_recurring(self, state: TopicState, seen: Recurring) -> bool:
        with self._lock:
            items, current = self._of(state.topic), self._same(state)
            found = items.recurring.get(seen.name)
            if current is None or found is None or found.generation != seen.generation:
                return False
            del items.recurring[seen.name]
            items.state = replace(current, recurring=current.recurring - 1)
            return True

    def restore_recurring(self, recurring: Recurring) -> None:
        with self._lock:
            self._of(recurring.topic).recurring[recurring.name] = recurring
