"""Stores parks in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidewheel.flows.ports.notes import Note
from tidewheel.flows.ports.parks import JobNote, Parked
from tidewheel.memory.store import MemoryStore
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState


class MemoryParks:
    """Implements the port `Parks`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, park: Park, state: State, note: JobNote | None = None) -> Parked:
        with self._store.lock:
            key, items = park.key, self._store.of(park.key.topic)
            if key in items.parks:
                return Parked.EXISTS
            if note is not None and note.name in items.notes:
                return Parked.EXISTS
            owner = items.subscriptions.get(key.subscription)
            if owner is None or owner.generation != key.generation or owner.state is not state:
                return Parked.MOVED
            items.parks[key] = park
            if note is not None:
                items.notes[note.name] = Note(0), note.ttl_s
            return Parked.PARKED

    def park_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        with self._store.lock:
            items = self._store.of(key.topic)
            delivery = items.deliveries.get(key)
            if delivery is None or part in delivery.done:
                return Parked.MOVED
            if park.key in items.parks:
                return Parked.EXISTS
            items.parks[park.key] = park
            leases = tuple(each for each in delivery.leases if each[0] != part)
            items.deliveries[key] = replace(delivery, done=delivery.done | {part}, leases=leases)
            return Parked.PARKED

    def read(self, key: ParkKey) -> Park | None:
        with self._store.lock:
            return self._store.of(key.topic).parks.get(key)

    def all(self, topic: str, unreadable: object = None) -> list[Park]:  # noqa: ARG002
        with self._store.lock:
            found = (replace(each, ledger=None) for each in self._store.of(topic).parks.values())
            return sorted(found, key=lambda each: (each.key.subscription, each.key.generation, each.key.id))

    def of(self, subscription: SubscriptionState) -> list[Park]:
        owner = subscription.name, subscription.generation
        return [park for park in self.all(subscription.topic) if (park.key.subscription, park.key.generation) == owner]

    def lease(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        with self._store.lock:
            current = self.read(key)
            if current is None or (current.leased_ms is not None and current.leased_ms >= expired_before_ms):
                return None
            leased = self._store.of(key.topic).parks[key] = replace(current, leased_ms=now_ms)
            return leased

    def replace(self, leased: Park, parks: Sequence[Park]) -> Parked:
        with self._store.lock:
            current, items = self.read(leased.key), self._store.of(leased.key.topic)
            if current is None or current.leased_ms != leased.leased_ms:
                return Parked.MOVED
            if any(park.key in items.parks for park in parks):
                return Parked.EXISTS
            del items.parks[leased.key]
            items.parks |= {park.key: park for park in parks}
            return Parked.PARKED

    def put_off(self, leased: Park, park: Park) -> bool:
        with self._store.lock:
            current = self.read(leased.key)
            if current is None or current.leased_ms != leased.leased_ms:
                return False
            self._store.of(leased.key.topic).parks[leased.key] = replace(
                current,
                leased_ms=None,
                next_check_ms=park.next_check_ms,
                tries=park.tries,
                refused_ms=park.refused_ms,
                unreadable=park.unreadable,
            )
            return True

    def set_next_check(self, key: ParkKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        with self._store.lock:
            current = self.read(key)
            if current is None or current.next_check_ms != seen_next_check_ms:
                return False
            self._store.of(key.topic).parks[key] = replace(current, next_check_ms=next_check_ms)
            return True

    def delete(self, keys: Iterable[ParkKey]) -> None:
        with self._store.lock:
            for key in keys:
                self._store.of(key.topic).parks.pop(key, None)
