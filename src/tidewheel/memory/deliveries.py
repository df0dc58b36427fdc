"""Stores deliveries in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidewheel.flows.ports.deliveries import HandOut, Replay
from tidewheel.memory.store import MemoryStore
from tidewheel.model.subscription_state import Delivery, DeliveryKey
from tidewheel.model.topic_state import TopicState


class MemoryDeliveries:
    """Implements the port `Deliveries`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def hand_out(self, step: HandOut) -> bool:
        with self._store.lock:
            if not unmoved(self._store, step):
                return False
            move(self._store, step)
            return True

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        with self._store.lock:
            items, current = self._store.of(state.topic), self._store.same(state)
            if current is None or current.collected_until > delivery.key.plan:
                return Replay.COLLECTED
            to = items.subscriptions.get(delivery.key.subscription)
            if to is None or to.generation != delivery.key.generation or not to.takes_plans:
                return Replay.REFUSED
            items.deliveries[delivery.key] = delivery
            items.state = replace(current, subscriptions_version=current.subscriptions_version + 1)
            return Replay.OPENED

    def read(self, key: DeliveryKey) -> Delivery | None:
        with self._store.lock:
            return self._store.of(key.topic).deliveries.get(key)

    def all(self, topic: str, unreadable: object = None) -> list[Delivery]:  # noqa: ARG002
        with self._store.lock:
            return list(self._store.of(topic).deliveries.values())

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        with self._store.lock:
            current = self.read(key)
            if current is None or part in current.done:
                return None
            leases = dict(current.leases)
            if part in leases and leases[part] >= expired_before_ms:
                return None
            return self._put(replace(current, leases=tuple(sorted((leases | {part: now_ms}).items()))))

    def release_part(self, key: DeliveryKey, part: int) -> None:
        with self._store.lock:
            current = self.read(key)
            if current is not None:
                self._put(replace(current, leases=tuple(each for each in current.leases if each[0] != part)))

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        with self._store.lock:
            current = self.read(key)
            if current is None:
                return None
            leases = tuple(lease for lease in current.leases if lease[0] != part)
            return self._put(replace(current, done=current.done | {part}, leases=leases))

    def set_next_check(self, key: DeliveryKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        with self._store.lock:
            current = self.read(key)
            if current is None or current.next_check_ms != seen_next_check_ms:
                return False
            self._put(replace(current, next_check_ms=next_check_ms))
            return True

    def delete(self, keys: Iterable[DeliveryKey]) -> None:
        with self._store.lock:
            for key in keys:
                self._store.of(key.topic).deliveries.pop(key, None)

    def _put(self, delivery: Delivery) -> Delivery:
        self._store.of(delivery.key.topic).deliveries[delivery.key] = delivery
        return delivery


def unmoved(store: MemoryStore, step: HandOut) -> bool:
    """Returns whether the subscription of a step is as read. Called with the lock held."""
    seen = step.subscription
    current = store.of(seen.topic).subscriptions.get(seen.name)
    return current is not None and (current.cursor, current.generation) == (seen.cursor, seen.generation)


def move(store: MemoryStore, step: HandOut) -> None:
    """Moves the cursor of a step's subscription and opens the delivery. Called with the lock held."""
    items, name = store.of(step.subscription.topic), step.subscription.name
    items.subscriptions[name] = replace(items.subscriptions[name], cursor=step.to)
    if step.delivery is not None:
        items.deliveries[step.delivery.key] = step.delivery
