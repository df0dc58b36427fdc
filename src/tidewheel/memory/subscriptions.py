"""Stores subscriptions in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidewheel.flows.ports.topic_states import AT_ONCE_MS
from tidewheel.memory.store import MemoryStore
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState, above


class MemorySubscriptions:
    """Implements the port `Subscriptions`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, state: TopicState, subscription: SubscriptionState) -> bool:
        with self._store.lock:
            items, cursor = self._store.of(state.topic), subscription.cursor
            current = self._store.same(state)
            if subscription.name in items.subscriptions or current is None or current.collected_until > cursor:
                return False
            lower = above(state.next_slot, cursor)
            if above(current.next_slot, cursor) != lower or _unscheduled_since(state, current, lower=lower):
                return False
            items.subscriptions[subscription.name] = subscription
            items.state = replace(
                current, subscriptions_version=current.subscriptions_version + 1, work_version=current.work_version + 1
            )
            if lower:
                at_once = cursor >= state.sealed or state.next_check_ms == AT_ONCE_MS
                next_check_ms = AT_ONCE_MS if at_once else state.check_at(cursor, state.collect_at_ms)
                items.state = replace(items.state, next_slot=cursor, next_check_ms=next_check_ms)
            return True

    def read(self, topic: str, name: str) -> SubscriptionState | None:
        with self._store.lock:
            return self._store.of(topic).subscriptions.get(name)

    def all(self, topic: str, unreadable: object = None) -> list[SubscriptionState]:  # noqa: ARG002
        with self._store.lock:
            return [each for _, each in sorted(self._store.of(topic).subscriptions.items())]

    def pause(self, subscription: SubscriptionState) -> bool:
        return self._change(subscription, lambda current: replace(current, state=State.PAUSED))

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        with self._store.lock:
            current = self._store.of(topic).subscriptions.get(name)
            if current is None or (current.generation, current.state) != (generation, State.ACTIVE):
                return False
            self._store.of(topic).subscriptions[name] = replace(current, state=State.BROKEN)
            return True

    def resume(self, state: TopicState, subscription: SubscriptionState) -> bool:
        with self._store.lock:
            items, cursor = self._store.of(state.topic), subscription.cursor
            marks, current = self._store.same(state), items.subscriptions.get(subscription.name)
            if marks is None or current is None:
                return False
            if (current.generation, current.state) != (subscription.generation, subscription.state):
                return False
            lower = above(state.next_slot, cursor)
            if above(marks.next_slot, cursor) != lower or _unscheduled_since(state, marks, lower=lower):
                return False
            items.subscriptions[current.name] = replace(current, state=State.ACTIVE)
            items.state = replace(marks, work_version=marks.work_version + 1)
            if lower:
                at_once = cursor >= state.sealed or state.next_check_ms == AT_ONCE_MS
                next_check_ms = AT_ONCE_MS if at_once else state.check_at(cursor, state.collect_at_ms)
                items.state = replace(items.state, next_slot=cursor, next_check_ms=next_check_ms)
            return True

    def update(self, subscription: SubscriptionState, changes: Mapping[str, Any]) -> bool:
        return self._change(subscription, lambda current: replace(current, **changes))

    def delete(self, subscription: SubscriptionState) -> bool:
        return self._change(subscription, lambda _: None)

    def restore(self, subscription: SubscriptionState) -> None:
        with self._store.lock:
            self._store.of(subscription.topic).subscriptions[subscription.name] = subscription

    def _change(
        self, subscription: SubscriptionState, change: Callable[[SubscriptionState], SubscriptionState | None]
    ) -> bool:
        with self._store.lock:
            kept = self._store.of(subscription.topic).subscriptions
            current = kept.get(subscription.name)
            if current is None or current.generation != subscription.generation:
                return False
            changed = change(current)
            if changed is None:
                del kept[current.name]
            else:
                kept[current.name] = changed
            return True


def _unscheduled_since(seen: TopicState, current: TopicState, *, lower: bool) -> bool:
    """Returns whether the schedule of a next slot that is lowered is missing since the topic state was read."""
    return lower and AT_ONCE_MS == current.next_check_ms != seen.next_check_ms
