"""Stores keys in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.tombstones import slot_open
from tidewheel.aws.dynamodb.writes import Item, Put, Value, Write
from tidewheel.errors import CorruptMetadata
from tidewheel.flows.ports.keys import FoundKeys, NotInLedgers
from tidewheel.model.key import KeyEntry
from tidewheel.model.tombstone import Tombstone

_PAGES = 16
"""Pages of each partition that one search reads at most: 256 MB together, or about 1,700,000 keys."""


class DynamoKeys:
    """Implements the port `Keys`.

    A topic's keys are spread over sixteen partitions by a hash of the key. So no partition is hot, and all keys can be
    listed.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, topic: str, key: str) -> KeyEntry | None:
        """Reads a key's entry with a single GetItem."""
        item = self._table.get(layout.key_key(topic, key))
        return None if item is None else items.decode_key(item)

    def claim(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """Claims a key with a PutItem, which returns any existing entry."""
        put = Put(item=items.encode_key(topic, entry), if_absent=True)
        item = self._table.put_or_get(put, action="claim_key", topic=topic)
        return None if item is None else items.decode_key(item)

    def move(self, topic: str, seen: KeyEntry, entry: KeyEntry, superseded: Tombstone | None) -> bool:
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
            writes.append(slot_open(topic, superseded.slot))
        return not self._table.transact(writes, action="move_key", topic=topic)

    def not_in_ledgers(self, topic: str, wanted: NotInLedgers) -> FoundKeys:
        """Finds keys with a filtered query for each page, at most 16 pages of each partition."""
        examined = 0
        sought = "floor_ms > :zero OR tail_ms > :now OR id BETWEEN :first AND :end"
        values: dict[str, Value] = {"zero": 0, "now": wanted.now_ms, "first": wanted.first_id, "end": wanted.end_id}

        def found() -> Iterator[KeyEntry]:
            nonlocal examined
            for partition in layout.key_partitions(topic):
                pages = self._table.query_filtered(
                    "pk = :pk", {"pk": partition}, lambda: (sought, values), most_pages=_PAGES
                )
                for items_of_page, scanned in pages:
                    examined += scanned
                    yield from filter(wanted.selects, _readable(items_of_page))

        entries = wanted.most_of(found())
        return FoundKeys(entries=entries, examined=examined)


def _readable(found: list[Item]) -> Iterator[KeyEntry]:
    """Yields the entries that can be read. A caller who may cancel can put any item there."""
    for item in found:
        try:
            yield items.decode_key(item)
        except CorruptMetadata:
            continue
