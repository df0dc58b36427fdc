"""Stores tombstones in DynamoDB."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import LAYOUT_READ, Check, Item, Put
from tidewheel.errors import CorruptMetadata
from tidewheel.flows.ports.tombstones import Entombed
from tidewheel.model.message import MessageId, id_bytes
from tidewheel.model.tombstone import Tombstone

_ABSENT = f"attribute_not_exists({layout.PARTITION_KEY})"


class DynamoTombstones:
    """Implements the port `Tombstones`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """Cancels a message in a transaction. If a tombstone exists, reads the tombstone with a GetItem."""
        condition = _ABSENT if tombstone.to is not None else f"{_ABSENT} OR attribute_exists(uncertain)"
        put = Put(item=items.encode_tombstone(topic, tombstone), condition=condition)
        failed = self._table.transact([slot_open(topic, tombstone.slot), put], action="cancel", topic=topic)
        if not failed:
            return Entombed(done=True)
        found = self.read(topic, tombstone.slot, tombstone.id) if 1 in failed else None
        return Entombed(done=False, found=found)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """Cancels messages in a single transaction."""
        puts = [Put(item=items.encode_tombstone(topic, each), if_absent=True) for each in tombstones]
        least = min(each.slot for each in tombstones)
        return not self._table.transact([slot_open(topic, least), *puts], action="cancel_batch", topic=topic)

    def put(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone with a single PutItem."""
        put = Put(item=items.encode_tombstone(topic, tombstone), if_absent=True)
        self._table.put(put, action="put_tombstone", topic=topic)

    def read(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads a tombstone with a single GetItem."""
        item = self._table.get(layout.tombstone_key(topic, slot, message_id))
        return None if item is None else items.decode_tombstone(item)

    def ids(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        """Reads tombstones with a query for each page."""
        first, end = layout.tombstone_range(first_slot, end_slot)
        if first >= end:
            return frozenset()
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :end",
            {"pk": layout.tombstone_partition(topic), "first": first, "end": end},
            projection="pk, sk",
        )
        return frozenset(layout.parse_tombstone_key(key)[1] for key in map(items.key_of, found) if _names_one(key))

    def all(self, topic: str) -> list[Tombstone]:
        found = self._table.query("pk = :pk", {"pk": layout.tombstone_partition(topic)})
        return [each for item in found if (each := _readable(item)) is not None]

    def delete_expired(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        """Deletes expired tombstones with a query for each page and a DeleteItem for each tombstone."""
        for each in self.all(topic):
            if each.slot >= end_slot:
                break
            if each.ttl_s < expired_before_s:
                key = layout.tombstone_key(topic, each.slot, each.id)
                self._table.delete(key, action="delete_tombstones", topic=topic)

    def allow_move(self, topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> None:
        """Allows a move with a single PutItem."""
        put = Put(item=items.encode_move(topic, mover, moved, ttl_s))
        self._table.put(put, action="allow_move", topic=topic)

    def may_move(self, topic: str, mover: MessageId, moved: MessageId) -> bool:
        """Reads an allowed move with a single GetItem. An item that is not readable allows nothing."""
        item = self._table.get(layout.move_key(topic, mover))
        try:
            return item is not None and items.decode_move(item) == moved
        except CorruptMetadata:
            return False

    def restore(self, topic: str, tombstone: Tombstone) -> None:
        """Restores a tombstone with a single PutItem."""
        put = Put(item=items.encode_tombstone(topic, tombstone))
        self._table.put(put, action="restore_tombstone", topic=topic)


def _readable(item: Item) -> Tombstone | None:
    """Returns a tombstone, or None if the item is not readable.

    A caller who may cancel can put any item there. Such an item must not block messages of other senders.
    """
    if not _names_one(items.key_of(item)):
        return None
    try:
        return items.decode_tombstone(item)
    except CorruptMetadata:
        return None


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
        key=layout.topic_state_key(topic),
        condition=f"sealed <= :slot AND {LAYOUT_READ}",
        values={"slot": slot},
    )
