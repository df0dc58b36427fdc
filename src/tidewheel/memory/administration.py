"""What administrators change of a topic as a whole, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidewheel.flows.ports.administration import Replay
from tidewheel.memory.items import Items, MemoryItems
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription import Delivery
from tidewheel.model.topic_state import ALL_SEALED, Fence, Purge


class MemoryAdministration(MemoryItems):
    """The part of the port `Topics` of `tidewheel.flows.ports.administration`."""

    def update_settings(self, fence: Fence, settings: TopicSettings) -> bool:
        with self._lock:
            current = self._same(fence)
            if current is None or current.settings != fence.settings:
                return False
            self._of(fence.topic).fence = replace(current, settings=settings)
            return True

    def set_purges(self, fence: Fence, purge_ms: int, purges: Sequence[Purge]) -> bool:
        with self._lock:
            current = self._same(fence)
            if current is None or (current.purge_ms, current.purges) != (fence.purge_ms, fence.purges):
                return False
            self._of(fence.topic).fence = replace(current, purge_ms=purge_ms, purges=tuple(purges))
            return True

    def open_replay(self, fence: Fence, delivery: Delivery) -> Replay:
        with self._lock:
            items, current = self._of(fence.topic), self._same(fence)
            if current is None or current.gc_until > delivery.key.plan:
                return Replay.COLLECTED
            to = items.subscriptions.get(delivery.key.subscription)
            if to is None or to.generation != delivery.key.generation or not to.takes_plans:
                return Replay.REFUSED
            items.deliveries[delivery.key] = delivery
            items.fence = replace(current, subs_ver=current.subs_ver + 1)
            return Replay.OPENED

    def mark_deleting(self, fence: Fence, generation: str, now_ms: int) -> bool:
        with self._lock:
            current = self._same(fence)
            if current is None:
                return False
            self._of(fence.topic).fence = replace(
                current, generation=generation, sealed=ALL_SEALED, deleting_at_ms=now_ms, look_at_ms=now_ms
            )
            return True

    def deletion(self, topic: str) -> Fence | None:
        with self._lock:
            current = self._read(topic)
            return current if current is not None and current.deleting_at_ms is not None else None

    def claim_deletion(self, fence: Fence, look_at_ms: int) -> bool:
        with self._lock:
            current = self._same(fence)
            if current is None or current.look_at_ms != fence.look_at_ms:
                return False
            self._of(fence.topic).fence = replace(current, look_at_ms=look_at_ms)
            return True

    def delete_items(self, topic: str) -> bool:
        with self._lock:
            bare = Items(fence=self._of(topic).fence)
            if self._of(topic) == bare:
                return True
            self._items[topic] = bare
            return False

    def forget_topic(self, fence: Fence) -> bool:
        with self._lock:
            if self._same(fence) is None:
                return False
            self._of(fence.topic).fence = None
            return True
