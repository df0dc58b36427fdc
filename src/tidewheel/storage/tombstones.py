"""Stores tombstones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidewheel.errors import CorruptMetadata
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import ALL_SEALED
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import LAYOUT_READ, Check, Put, Write

MAX_CANCELS = 90
"""Tombstones of one `cancel_batch`: a transaction takes 100 items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entombed:
    """The outcome of a cancel.

    Attributes:
        done: the tombstone was put, in time.
        found: the tombstone that was there already. If not `done` and None: the slot was sealed.
    """

    done: bool
    found: Tombstone | None = None


_ABSENT = f"attribute_not_exists({layout.PARTITION_KEY})"
_ABSENT_OR_UNCERTAIN = f"{_ABSENT} OR attribute_exists(uncertain)"


class Tombstones(StoredItems):
    """The tombstones of each topic."""

    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """Puts a tombstone if its slot is not sealed.

        `T{STATE check sealed <= slot; put TOMB IF absent}`.

        An uncertain tombstone is overwritten, unless `tombstone` names another message.
        """
        condition = _ABSENT if tombstone.to is not None else _ABSENT_OR_UNCERTAIN
        put = Put(item=items.encode_tombstone(topic, tombstone), condition=condition)
        failed = self._table.transact([slot_open(topic, tombstone.slot), put], action="cancel", topic=topic)
        if not failed:
            return Entombed(done=True)
        found = self.read(topic, tombstone.slot, tombstone.id) if 1 in failed else None
        return Entombed(done=False, found=found)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """Puts at most 90 tombstones of different ids. Returns False if nothing was written.

        `T{STATE check sealed <= each slot; put each TOMB IF absent}`.
        """
        puts = [Put(item=items.encode_tombstone(topic, each), if_absent=True) for each in tombstones]
        least = min(each.slot for each in tombstones)
        return self._table.commit([slot_open(topic, least), *puts], action="cancel_batch", topic=topic)

    def put(self, topic: str, tombstone: Tombstone) -> Tombstone | None:
        """Puts a tombstone, in time or not. Returns None, or the tombstone that exists already.

        `put TOMB IF absent`.
        """
        put = Put(item=items.encode_tombstone(topic, tombstone), if_absent=True)
        item = self._table.put_or_get(put, action="put_tombstone", topic=topic)
        return None if item is None else items.decode_tombstone(item)

    def put_late(self, topic: str, tombstone: Tombstone) -> bool:
        """Puts a tombstone that says what a message's claim says, for who reads tombstones. Returns False if refused.

        `T{STATE check that it is there; put TOMB IF absent or uncertain}`.
        """
        return self._table.commit(late_tombstone(topic, tombstone), action="put_late", topic=topic)

    def read(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads a tombstone."""
        return self._table.read(layout.tombstone_key(topic, slot, message_id), items.decode_tombstone)

    def ids(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        """Reads the ids that were cancelled in slots [first_slot, end_slot)."""
        first, end = layout.tombstone_range(first_slot, end_slot)
        if first >= end:
            return frozenset()
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :end",
            {"pk": layout.tombstone_partition(topic), "first": first, "end": end},
            projection="pk, sk",
        )
        return frozenset(layout.parse_tombstone_key(key)[1] for key in map(items.key_of, found) if _names_one(key))

    def among(self, topic: str, slot_ms: int, ids: Iterable[MessageId]) -> frozenset[MessageId]:
        """Returns which of these messages were cancelled. One BatchGetItem for 100 messages."""
        slots = ((id_deliver_at_ms(id_bytes(id)) // slot_ms, id) for id in ids)
        found = self._table.get_many(layout.tombstone_key(topic, slot, id) for slot, id in slots)
        return frozenset(layout.parse_tombstone_key(key)[1] for key in map(items.key_of, found))

    def all(self, topic: str) -> list[Tombstone]:
        """Reads all tombstones of a topic, by slot and id."""
        found = self._table.query("pk = :pk", {"pk": layout.tombstone_partition(topic)})
        # A caller who may cancel can put any item there. Such an item must not block messages of other senders.
        named = (item for item in found if _names_one(items.key_of(item)))
        return list(items.each_readable(named, items.decode_tombstone, "", {}))

    def delete_expired(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        """Deletes tombstones of slots below end_slot whose ttl has passed."""
        for each in self.all(topic):
            if each.slot >= end_slot:
                break
            if each.ttl_s < expired_before_s:
                key = layout.tombstone_key(topic, each.slot, each.id)
                self._table.delete(key, action="delete_tombstones", topic=topic)

    def allow_move(self, topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> None:
        """Allows a message that is not sent yet to take another message's place.

        Only callers who may cancel can write this, so a pack alone moves nothing.
        """
        put = Put(item=items.encode_move(topic, mover, moved, ttl_s))
        self._table.put(put, action="allow_move", topic=topic)

    def may_move(self, topic: str, mover: MessageId, moved: MessageId) -> bool:
        """Returns whether a message may take another message's place."""
        item = self._table.get(layout.move_key(topic, mover))
        try:
            return item is not None and items.decode_move(item) == moved
        except CorruptMetadata:
            return False

    def restore(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone for a rebuild and overwrites an existing tombstone."""
        put = Put(item=items.encode_tombstone(topic, tombstone))
        self._table.put(put, action="restore_tombstone", topic=topic)


def late_tombstone(topic: str, tombstone: Tombstone) -> list[Write]:
    """Returns the writes of `put_late`."""
    there = slot_open(topic, ALL_SEALED - 1)  # the last slot is open as long as the topic is there
    return [there, Put(item=items.encode_tombstone(topic, tombstone), condition=_ABSENT_OR_UNCERTAIN)]


def _names_one(key: layout.Key) -> bool:
    """Returns whether a tombstone's key names a message. Otherwise the tombstone cancels nothing."""
    try:
        _, message_id = layout.parse_tombstone_key(key)
        id_bytes(message_id)
    except ValueError:
        return False
    return True


def slot_open(topic: str, slot: int) -> Check:
    """Returns the check that a slot is not sealed."""
    return Check(
        key=layout.topic_state_key(topic), condition=f"sealed <= :slot AND {LAYOUT_READ}", values={"slot": slot}
    )
