"""Stores keys and tombstones in DynamoDB."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_writes import Check, Item, Put, Value, Write
from tidewheel.errors import CorruptMetadata
from tidewheel.flows.ports.keys import Entombed
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId, id_bytes
from tidewheel.model.tombstone import Tombstone

_ABSENT = f"attribute_not_exists({layout.PARTITION_KEY})"


class DynamoKeys:
    """Implements keys and tombstones of the port `Topics`.

    A topic's keys are spread over sixteen partitions by a hash of the key. So no partition is hot, and all keys can be
    listed.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    # ---- tombstones
    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """Cancels a message in a transaction. If a tombstone exists, reads the tombstone with a GetItem."""
        condition = _ABSENT if tombstone.to is not None else f"{_ABSENT} OR attribute_exists(uncertain)"
        put = Put(item=items.encode_tombstone(topic, tombstone), condition=condition)
        failed = self._table.transact([_open(topic, tombstone.slot), put], action="cancel", topic=topic)
        if not failed:
            return Entombed(done=True)
        found = self.tombstone(topic, tombstone.slot, tombstone.id) if 1 in failed else None
        return Entombed(done=False, found=found)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """Cancels messages in a single transaction."""
        puts = [Put(item=items.encode_tombstone(topic, each), if_absent=True) for each in tombstones]
        least = min(each.slot for each in tombstones)
        return not self._table.transact([_open(topic, least), *puts], action="cancel_batch", topic=topic)

    def put_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone with a single PutItem."""
        put = Put(item=items.encode_tombstone(topic, tombstone), if_absent=True)
        self._table.put(put, action="put_tombstone", topic=topic)

    def tombstone(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads a tombstone with a single GetItem."""
        item = self._table.get(layout.tombstone_key(topic, slot, message_id))
        return None if item is None else items.decode_tombstone(item)

    def tombstones(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
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

    def all_tombstones(self, topic: str) -> list[Tombstone]:
        found = self._table.query("pk = :pk", {"pk": layout.tombstone_partition(topic)})
        return [each for item in found if (each := _readable(item)) is not None]

    def delete_tombstones(self, topic: str, end_slot: int, expired_before_s: int) -> None:
        """Deletes expired tombstones with a query for each page and a DeleteItem for each tombstone."""
        for each in self.all_tombstones(topic):
            if each.slot >= end_slot:
                break
            if each.ttl_s < expired_before_s:
                key = layout.tombstone_key(topic, each.slot, each.id)
                self._table.delete(key, action="delete_tombstones", topic=topic)

    def restore_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """Restores a tombstone with a single PutItem."""
        put = Put(item=items.encode_tombstone(topic, tombstone))
        self._table.put(put, action="restore_tombstone", topic=topic)

    # ---- keys
    def key(self, topic: str, key: str) -> KeyEntry | None:
        """Reads a key's entry with a single GetItem."""
        item = self._table.get(layout.key_key(topic, key))
        return None if item is None else items.decode_key(item)

    def claim_key(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """Claims a key with a PutItem, which returns any existing entry."""
        put = Put(item=items.encode_key(topic, entry), if_absent=True)
        item = self._table.put_or_get(put, action="claim_key", topic=topic)
        return None if item is None else items.decode_key(item)

    def move_key(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        """Replaces a key's entry with a PutItem, or in a transaction with the tombstone."""
        values: dict[str, Value] = {"sent": seen.sent_ms, "seq": seen.seq}
        condition = "sent_ms = :sent AND seq = :seq AND "
        if seen.id is None:
            condition += "attribute_not_exists(id)"
        else:
            condition += "id = :id"
            values["id"] = seen.id
        put = Put(item=items.encode_key(topic, entry), condition=condition, values=values)
        if superseded is None:
            return self._table.put(put, action="move_key", topic=topic)
        entombed = Put(item=items.encode_tombstone(topic, superseded), if_absent=True)
        writes: list[Write] = [put, entombed]
        if superseded.certain:
            writes.append(_open(topic, superseded.slot))
        return not self._table.transact(writes, action="move_key", topic=topic)


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


def _open(topic: str, slot: int) -> Check:
    return Check(
        key=layout.topic_state_key(topic),
        condition="sealed <= :slot AND attribute_not_exists(layout)",
        values={"slot": slot},
    )
