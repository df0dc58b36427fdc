"""Stores set-aside items in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Put, Value
from tidewheel.model.set_aside import SetAside, SetAsideKey


class DynamoSetAsideItems:
    """Implements the port `SetAsideItems`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, item: SetAside) -> None:
        """Puts an item with a single PutItem."""
        put = Put(item=items.encode_set_aside(item), if_absent=True)
        self._table.put(put, action="set_aside", topic=item.key.topic)

    def read(self, key: SetAsideKey) -> SetAside | None:
        """Reads an item with a single GetItem."""
        item = self._table.get(layout.set_aside_key(key))
        return None if item is None else items.decode_set_aside(item)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[SetAside]:
        """Reads all items with a query."""
        found = self._table.query_prefix(layout.topic_partition(topic), layout.SET_ASIDE)
        return items.readable(found, items.decode_set_aside, layout.SET_ASIDE, unreadable)

    def change(self, seen: SetAside, item: SetAside) -> bool:
        """Replaces an item with a single UpdateItem, as the sweep may not put items."""
        condition = "tries = :tries AND attribute_not_exists(next_check_ms)"
        values: dict[str, Value] = {"tries": seen.tries}
        if seen.next_check_ms is not None:
            condition, values = "tries = :tries AND next_check_ms = :seen", values | {"seen": seen.next_check_ms}
        fields = items.set_aside_fields(item)
        change = Change(key=layout.set_aside_key(item.key), condition=condition, values=values, sets=fields)
        done, _ = self._table.update(change, action="change_set_aside", topic=item.key.topic)
        return done

    def delete(self, keys: Iterable[SetAsideKey]) -> None:
        """Deletes each item with a DeleteItem."""
        for key in keys:
            self._table.delete(layout.set_aside_key(key), action="delete_set_aside", topic=key.topic)
