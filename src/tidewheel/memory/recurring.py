"""Recurring messages in memory."""

from __future__ import annotations

from dataclasses import replace

from tidewheel.flows.ports import AT_ONCE_MS
from tidewheel.memory.items import MemoryItems
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import Fence


class MemoryRecurring(MemoryItems):
    """The port `RecurringPort` over dicts."""

    def put_recurring(self, fence: Fence, recurring: Recurring, seen: Recurring | None, wake_slot: int | None) -> bool:
        with self._lock:
            items, current = self._of(fence.topic), self._same(fence)
            found = items.recurring.get(recurring.name)
            if current is None or current.sealed > recurring.first_ms // fence.slot_ms:
                return False
            if (found and found.generation) != (seen and seen.generation) or current.wake_slot != fence.wake_slot:
                return False
            items.recurring[recurring.name] = recurring
            items.fence = replace(current, ver=current.ver + 1, recurring=current.recurring + (found is None))
            if wake_slot is not None:
                items.fence = replace(items.fence, wake_slot=wake_slot, look_at_ms=AT_ONCE_MS)
            return True

    def recurring(self, topic: str, name: str) -> Recurring | None:
        with self._lock:
            return self._of(topic).recurring.get(name)

    def all_recurring(self, topic: str) -> list[Recurring]:
        with self._lock:
            return [each for _, each in sorted(self._of(topic).recurring.items())]

    def delete_recurring(self, fence: Fence, seen: Recurring) -> bool:
        with self._lock:
            items, current = self._of(fence.topic), self._same(fence)
            found = items.recurring.get(seen.name)
            if current is None or found is None or found.generation != seen.generation:
                return False
            del items.recurring[seen.name]
            items.fence = replace(current, recurring=current.recurring - 1)
            return True

    def restore_recurring(self, recurring: Recurring) -> None:
        with self._lock:
            self._of(recurring.topic).recurring[recurring.name] = recurring
