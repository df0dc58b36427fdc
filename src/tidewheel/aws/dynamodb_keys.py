"""Keys and tombstones in DynamoDB."""

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
    """The part of the port `Topics` that is about keys and tombstones.

    Keys are in sixteen partitions a topic, by a hash of the key, so that none is hot and all can be found again.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    # ---- tombstones
    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """One transaction; then a GetItem if there was a tombstone already."""
        condition = _ABSENT if tombstone.to is not None else f"{_ABSENT} OR attribute_exists(uncertain)"
        put = Put(item=items.encode_tombstone(topic, tombstone), condition=condition)
        failed = self._table.transact([_open(topic, tombstone.slot), put], action="cancel", topic=topic)
        if not failed:
            return Entombed(done=True)
        found = self.tombstone(topic, tombstone.slot, tombstone.id) if 1 in failed else None
        return Entombed(done=False, found=found)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """One transaction."""
        puts = [Put(item=items.encode_tombstone(topic, each), if_absent=True) for each in tombstones]
        least = min(each.slot for each in tombstones)
        return not self._table.transact([_open(topic, least), *puts], action="cancel_batch", topic=topic)

    def put_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """One PutItem."""
        put = Put(item=items.encode_tombstone(topic, tombstone), if_absent=True)
        self._table.put(put, action="put_tombstone", topic=topic)

    def tombstone(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """One GetItem."""
        item = self._table.get(layout.tombstone_key(topic, slot, message_id))
        return None if item is None else items.decode_tombstone(item)

    def tombstones(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        """One query a page."""
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
        """One query a page, one DeleteItem for each that goes."""
        for each in self.all_tombstones(topic):
            if each.slot >= end_slot:
                break
            if each.ttl_s < expired_before_s:
                key = layout.tombstone_key(topic, each.slot, each.id)
                self._table.delete(key, action="delete_tombstones", topic=topic)

    def restore_tombstone(self, topic: str, tombstone: Tombstone) -> None:
        """One PutItem."""
        put = Put(item=items.encode_tombstone(topic, tombstone))
        self._table.put(put, action="restore_tombstone", topic=topic)

    # ---- keys
    def key(self, topic: str, key: str) -> KeyEntry | None:
        """One GetItem."""
        item = self._table.get(layout.key_key(topic, key))
        return None if item is None else items.decode_key(item)

    def claim_key(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """One PutItem, which returns the entry that is in the way."""
        put = Put(item=items.encode_key(topic, entry), if_absent=True)
        item = self._table.put_or_get(put, action="claim_key", topic=topic)
        return None if item is None else items.decode_key(item)

    def move_key(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
        """One PutItem, or a transaction with the tombstone."""
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
    """Returns a tombstone; None of an item that is none.

    Whoever may cancel can put any item there: it must not stop what others sent.
    """
    if not _names_one(items.key_of(item)):
        return None
    try:
        return items.decode_tombstone(item)
    except CorruptMetadata:
        return None


def _names_one(key: layout.Key) -> bool:
    """Whether a tombstone's key names a message: one that names none cancels none."""
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
