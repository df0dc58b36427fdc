"""Stores subscriptions' states and parks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tidewheel.flows.ports import AT_ONCE_MS
from tidewheel.flows.ports.parks import Parked
from tidewheel.memory.items import MemoryItems
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import TopicState, above


class MemoryParks(MemoryItems):
    """Implements `tidewheel.flows.ports.parks`, a part of the port `Topics`. See there for docstrings."""

    # ---- a subscription's state
    def pause(self, subscription: SubscriptionState) -> bool:
        return self._change(subscription, lambda current: replace(current, state=State.PAUSED))

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        with self._lock:
            current = self._of(topic).subscriptions.get(name)
            if current is None or (current.generation, current.state) != (generation, State.ACTIVE):
                return False
            self._of(topic).subscriptions[name] = replace(current, state=State.BROKEN)
            return True

    def resume(self, state: TopicState, subscription: SubscriptionState) -> bool:
        with self._lock:
            items, cursor = self._of(state.topic), subscription.cursor
            marks, current = self._same(state), items.subscriptions.get(subscription.name)
            if marks is None or current is None:
                return False
            if (current.generation, current.state) != (subscription.generation, subscription.state):
                return False
            lower = above(state.next_slot, cursor)
            if above(marks.next_slot, cursor) != lower:
                return False
            items.subscriptions[current.name] = replace(current, state=State.ACTIVE)
            items.state = replace(marks, work_version=marks.work_version + 1)
            if lower:
                next_check_ms = AT_ONCE_MS if cursor >= state.sealed else state.check_at(cursor, state.collect_at_ms)
                items.state = replace(items.state, next_slot=cursor, next_check_ms=next_check_ms)
            return True

    def set_filter(self, subscription: SubscriptionState, filter_policy: str | None) -> bool:
        return self._change(subscription, lambda current: replace(current, filter_policy=filter_policy))

    def delete_subscription(self, subscription: SubscriptionState) -> bool:
        return self._change(subscription, lambda _: None)

    def _change(
        self, subscription: SubscriptionState, change: Callable[[SubscriptionState], SubscriptionState | None]
    ) -> bool:
        with self._lock:
            kept = self._of(subscription.topic).subscriptions
            current = kept.get(subscription.name)
            if current is None or current.generation != subscription.generation:
                return False
            changed = change(current)
            if changed is None:
                del kept[current.name]
            else:
                kept[current.name] = changed
            return True

    # ---- parks
    def put_park(self, park: Park) -> Parked:
        with self._lock:
            key, items = park.key, self._of(park.key.topic)
            if key in items.parks:
                return Parked.EXISTS
            owner = items.subscriptions.get(key.subscription)
            if owner is None or owner.generation != key.generation or owner.state is State.ACTIVE:
                return Parked.MOVED
            items.parks[key] = park
            return Parked.PARKED

    def spill_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        with self._lock:
            items = self._of(key.topic)
            delivery = items.deliveries.get(key)
            if delivery is None or part in delivery.done:
                return Parked.MOVED
            if park.key in items.parks:
                return Parked.EXISTS
            items.parks[park.key] = park
            leases = tuple(each for each in delivery.leases if each[0] != part)
            items.deliveries[key] = replace(delivery, done=delivery.done | {part}, leases=leases)
            return Parked.PARKED

    def park(self, key: ParkKey) -> Park | None:
        with self._lock:
            return self._of(key.topic).parks.get(key)

    def parks(self, topic: str) -> list[Park]:
        with self._lock:
            found = (replace(each, ledger=None) for each in self._of(topic).parks.values())
            return sorted(found, key=lambda each: (each.key.subscription, each.key.generation, each.key.id))

    def lease_park(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        with self._lock:
            current = self.park(key)
            if current is None or (current.leased_ms is not None and current.leased_ms >= expired_before_ms):
                return None
            leased = self._of(key.topic).parks[key] = replace(current, leased_ms=now_ms)
            return leased

    def release_park(self, key: ParkKey) -> None:
        with self._lock:
            current = self.park(key)
            if current is not None:
                self._of(key.topic).parks[key] = replace(current, leased_ms=None)

    def stamp_park(self, key: ParkKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        with self._lock:
            current = self.park(key)
            if current is None or current.next_check_ms != seen_look_at_ms:
                return False
            self._of(key.topic).parks[key] = replace(current, next_check_ms=next_check_ms)
            return True

    def delete_parks(self, keys: Iterable[ParkKey]) -> None:
        with self._lock:
            for key in keys:
                self._of(key.topic).parks.pop(key, None)
