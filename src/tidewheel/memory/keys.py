"""Stores keys and tombstones in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidewheel.flows.ports.keys import Entombed
from tidewheel.memory.items import MemoryItems
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import LAYOUT


class MemoryKeys(MemoryItems):
    """Implements the port `KeysPort` with dicts."""

    def _open(self, topic: str, slot: int) -> bool:
        state = self._of(topic).state
        return state is not None and state.layout <= LAYOUT and state.sealed <= slot

    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        with self._lock:
            items = self._of(topic)
            found = items.tombstones.get(tombstone[:2])
            if found is not None and (found.certain or tombstone.to is not None):
                return Entombed(done=False, found=found)
            if not self._open(topic, tombstone.slot):
                return Entombed(done=False)
            items.tombstones[tombstone[:2]] = tombstone
            return Entombed(done=True)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        with self._lock:
            items = self._of(topic)
            if not self._open(topic, min(each.slot for each in tombstones)):
                return False
            if any(each[:2] in items.tombstones for each in tombstones):
                return False
            items.tombstones |= {each[:2]: each for each in tombstones}
            return True

    def put_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        with self._lock:
            self._of(topic).tombstones.setdefault(tombstone[:2], tombstone)

    def tombstone(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        with self._lock:
            return self._of(topic).tombstones.get((slot, message_id))

    def tombstones(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        with self._lock:
            return frozenset(id for slot, id in self._of(topic).tombstones if first_slot <= slot < end_slot)

    def all_tombstones(self, topic: str) -> list[Tombstone]:
        with self._lock:
            return [each for _, each in sorted(self._of(topic).tombstones.items())]

    def delete_tombstones(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        with self._lock:
            tombstones = self._of(topic).tombstones
            for each in [each for each in tombstones if each[0] < end_slot]:
                if tombstones[each].ttl_s < expired_before_s:
                    del tombstones[each]

    def expire(self, now_s: int, goes: Callable[[], bool] = lambda: True) -> None:
        """Deletes tombstones and keys with an expired ttl.

        DynamoDB's TTL does so too, some days late and in any order.

        Args:
            goes: returns whether to delete an item now; other items are left to a later call.
        """
        with self._lock:
            for items in self._items.values():
                for tombstone in [at for at, each in items.tombstones.items() if each.ttl_s < now_s and goes()]:
                    del items.tombstones[tombstone]
                for key in [key for key, each in items.keys.items() if each.ttl_s < now_s and goes()]:
                    del items.keys[key]

    def restore_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        with self._lock:
            self._of(topic).tombstones[tombstone[:2]] = tombstone

    def key(self, topic: str, key: str) -> KeyEntry | None:
        with self._lock:
            return self._of(topic).keys.get(key)

    def claim_key(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        with self._lock:
            keys = self._of(topic).keys
            found = keys.get(entry.key)
            if found is None:
                keys[entry.key] = entry
            return found

    def move_key(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        with self._lock:
            items = self._of(topic)
            found = items.keys.get(entry.key)
            if found is None or found.version != seen.version:
                return False
            if superseded is not None and superseded[:2] in items.tombstones:
                return False
            if superseded is not None and superseded.certain and not self._open(topic, superseded.slot):
                return False
            items.keys[entry.key] = entry
            if superseded is not None:
                items.tombstones[superseded[:2]] = superseded
            return True
