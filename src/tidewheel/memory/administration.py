"""Stores administrators' changes to whole topics in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidewheel.flows.ports.administration import Replay
from tidewheel.memory.items import Items, MemoryItems
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import ALL_SEALED, Purge, TopicState


class MemoryAdministration(MemoryItems):
    """Implements `tidewheel.flows.ports.administration`, a part of the port `Topics`."""

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None or current.settings != state.settings:
                return False
            self._of(state.topic).state = replace(current, settings=settings)
            return True

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None or (current.purge_ms, current.purges) != (state.purge_ms, state.purges):
                return False
            self._of(state.topic).state = replace(current, purge_ms=purge_ms, purges=tuple(purges))
            return True

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        with self._lock:
            items, current = self._of(state.topic), self._same(state)
            if current is None or current.collected_until > delivery.key.plan:
                return Replay.COLLECTED
            to = items.subscriptions.get(delivery.key.subscription)
            if to is None or to.generation != delivery.key.generation or not to.takes_plans:
                return Replay.REFUSED
            items.deliveries[delivery.key] = delivery
            items.state = replace(current, subscriptions_version=current.subscriptions_version + 1)
            return Replay.OPENED

    def mark_deleting(self, state: TopicState, generation: str, now_ms: int) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None:
                return False
            self._of(state.topic).state = replace(
                current, generation=generation, sealed=ALL_SEALED, deleting_at_ms=now_ms, next_check_ms=now_ms
            )
            return True

    def deletion(self, topic: str) -> TopicState | None:
        with self._lock:
            current = self._read(topic)
            return current if current is not None and current.deleting_at_ms is not None else None

    def claim_deletion(self, state: TopicState, next_check_ms: int) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None or current.next_check_ms != state.next_check_ms:
                return False
            self._of(state.topic).state = replace(current, next_check_ms=next_check_ms)
            return True

    def delete_items(self, topic: str) -> bool:
        with self._lock:
            bare = Items(state=self._of(topic).state)
            if self._of(topic) == bare:
                return True
            self._items[topic] = bare
            return False

    def forget_topic(self, state: TopicState) -> bool:
        with self._lock:
            if self._same(state) is None:
                return False
            self._of(state.topic).state = None
            return True
