"""Stores unreadable items of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidewheel.errors import CorruptMetadata
from tidewheel.storage import items, table_keys
from tidewheel.storage.deliveries import Deliveries
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableItem:
    """An unreadable item of a topic.

    Attributes:
        what: "subscription", "ledger", "plan", "delivery", "park", "merged ledger", "recurring message" or
            "cancelled message".
        name: names the item among these of its topic.
        error: why it cannot be read.
    """

    topic: str
    what: str
    name: str
    error: Exception


def _rule(item: Item) -> object:
    from tidewheel.model.recurrence import rule_of  # a calendar and time zones

    return rule_of(items.decode_recurring(item))


_KINDS: dict[str, tuple[str, Callable[[Item], object]]] = {
    table_keys.SUBSCRIPTIONS: ("subscription", items.decode_subscription),
    table_keys.BUCKETS: ("ledger", items.decode_bucket),
    table_keys.PLANS: ("plan", items.decode_plan_in_table),
    table_keys.DELIVERIES: ("delivery", items.decode_delivery),
    table_keys.PARKS: ("park", items.decode_park),
    table_keys.TRASH: ("merged ledger", items.decode_trash),
    table_keys.RECURRING: ("recurring message", _rule),
}
"""Prefix of the sort key -> the kind, and its decoder."""
_TOMBSTONE = "cancelled message"


class UnreadableItems(StoredItems):
    """The unreadable items of each topic."""

    def all(self, topic: str) -> list[UnreadableItem]:
        """Finds all unreadable items of a topic, except keys. Reads all items of the topic."""
        found = []
        kinds = {**_KINDS, table_keys.DELIVERIES: ("delivery", Deliveries(self._table).whole)}
        for item in self._table.query("pk = :pk", {"pk": table_keys.topic_partition(topic)}):
            sort_key = items.key_of(item)[1]
            prefix = sort_key[: sort_key.find("#") + 1]
            if prefix in kinds:
                what, decode = kinds[prefix]
                found += _unreadable(topic, what, sort_key.removeprefix(prefix), decode, item)
        for item in self._table.query("pk = :pk", {"pk": table_keys.tombstone_partition(topic)}):
            found += _unreadable(topic, _TOMBSTONE, items.key_of(item)[1], items.decode_tombstone, item)
        return found

    def delete(self, items: Iterable[UnreadableItem]) -> None:
        """Deletes items. Missing items are ignored."""
        for item in items:
            if item.what == "delivery":
                Deliveries(self._table).delete([table_keys.parse_delivery_key(_key(item))])
            else:
                self._table.delete(_key(item), action="delete_unreadable", topic=item.topic)


def _unreadable(topic: str, what: str, name: str, decode: Callable[[Item], object], item: Item) -> list[UnreadableItem]:
    try:
        decode(item)
    except (CorruptMetadata, ValueError) as error:
        return [UnreadableItem(topic=topic, what=what, name=name, error=error)]
    return []


def _key(item: UnreadableItem) -> table_keys.Key:
    if item.what == _TOMBSTONE:
        return table_keys.tombstone_partition(item.topic), item.name
    [prefix] = [prefix for prefix, (what, _) in _KINDS.items() if what == item.what]
    return table_keys.topic_partition(item.topic), prefix + item.name
