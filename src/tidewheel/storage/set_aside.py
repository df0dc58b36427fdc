"""Stores set-aside items."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.model.set_aside import SetAside, SetAsideKey
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Put, as_seen


class SetAsideItems(StoredItems):
    """The set-aside items of each topic."""

    def put(self, item: SetAside) -> None:
        """Puts an item. An item that exists stays as it is.

        `put ASIDE IF absent`.
        """
        put = Put(item=items.encode_set_aside(item), if_absent=True)
        self._table.put(put, action="set_aside", topic=item.key.topic)

    def read(self, key: SetAsideKey) -> SetAside | None:
        """Reads an item."""
        return self._table.read(layout.set_aside_key(key), items.decode_set_aside)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[SetAside]:
        """Reads all items of a topic, by subscription.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        return self._table.read_all(layout.topic_partition(topic), layout.SET_ASIDE, items.decode_set_aside, unreadable)

    def change(self, seen: SetAside, item: SetAside) -> bool:
        """Replaces an item. Returns False if refused.

        `put ASIDE IF tries and next_check_ms as seen`.
        """
        condition = as_seen({"tries": seen.tries, "next_check_ms": seen.next_check_ms})
        change = Change(key=layout.set_aside_key(item.key), sets=items.set_aside_fields(item), **condition)
        return self._table.change(change, action="change_set_aside", topic=item.key.topic)

    def delete(self, keys: Iterable[SetAsideKey]) -> None:
        """Deletes items. Missing items are ignored."""
        for key in keys:
            self._table.delete(layout.set_aside_key(key), action="delete_set_aside", topic=key.topic)
