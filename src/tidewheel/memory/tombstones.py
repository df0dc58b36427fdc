"""Stores tombstones in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.flows.ports.tombstones import Entombed
from tidewheel.memory.store import MemoryStore
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import Tombstone


class MemoryTombstones:
    """Implements the port `Tombstones`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        with self._store.lock:
            items = self._store.of(topic)
            found = items.tombstones.get(tombstone[:2])
            if found is not None and (found.certain or tombstone.to is not None):
                return Entombed(done=False, found=found)
            if not self._store.slot_open(topic, tombstone.slot):
                return Entombed(done=False)
            items.tombstones[tombstone[:2]] = tombstone
            return Entombed(done=True)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        with self._store.lock:
            items = self._store.of(topic)
            if not self._store.slot_open(topic, min(each.slot for each in tombstones)):
                return False
            if any(each[:2] in items.tombstones for each in tombstones):
                return False
            items.tombstones |= {each[:2]: each for each in tombstones}
            return True

    def put(self, topic: str, tombstone: Tombstone) -> None:
        with self._store.lock:
            self._store.of(topic).tombstones.setdefault(tombstone[:2], tombstone)

    def read(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        with self._store.lock:
            return self._store.of(topic).tombstones.get((slot, message_id))

    def ids(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        with self._store.lock:
            return frozenset(id for slot, id in self._store.of(topic).tombstones if first_slot <= slot < end_slot)

    def all(self, topic: str) -> list[Tombstone]:
        with self._store.lock:
            return [each for _, each in sorted(self._store.of(topic).tombstones.items())]

    def delete_expired(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        with self._store.lock:
            tombstones = self._store.of(topic).tombstones
            for each in [each for each in tombstones if each[0] < end_slot]:
                if tombstones[each].ttl_s < expired_before_s:
                    del tombstones[each]

    def allow_move(self, topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> None:
        with self._store.lock:
            self._store.of(topic).moves[mover] = moved, ttl_s

    def may_move(self, topic: str, mover: MessageId, moved: MessageId) -> bool:
        with self._store.lock:
            return self._store.of(topic).moves.get(mover, ("", 0))[0] == moved

    def restore(self, topic: str, tombstone: Tombstone) -> None:
        with self._store.lock:
            self._store.of(topic).tombstones[tombstone[:2]] = tombstone
