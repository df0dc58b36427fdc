"""Stores items of the table that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidewheel.errors import CorruptMetadata
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableItem:
    """An item of a topic that cannot be read.

    Attributes:
        what: "subscription", "ledger", "plan", "delivery", "park", "set-aside item", "merged ledger", "recurring
            message" or "cancelled message".
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
    layout.SUBSCRIPTIONS: ("subscription", items.decode_subscription),
    layout.BUCKETS: ("ledger", items.decode_bucket),
    layout.PLANS: ("plan", items.decode_plan_in_table),
    layout.DELIVERIES: ("delivery", items.decode_delivery),
    layout.PARKS: ("park", items.decode_park),
    layout.SET_ASIDE: ("set-aside item", items.decode_set_aside),
    layout.TRASH: ("merged ledger", items.decode_trash),
    layout.RECURRING: ("recurring message", _rule),
}
"""Prefix of the sort key -> the kind, and its decoder."""
_TOMBSTONE = "cancelled message"


class UnreadableItems(StoredItems):
    """The items of each topic that cannot be read."""

    def all(self, topic: str) -> list[UnreadableItem]:
        """Finds all items of a topic that cannot be read, except its keys. Reads all items of the topic."""
        found = []
        for item in self._table.query("pk = :pk", {"pk": layout.topic_partition(topic)}):
            sort_key = items.key_of(item)[1]
            prefix = sort_key[: sort_key.find("#") + 1]
            if prefix in _KINDS:
                what, decode = _KINDS[prefix]
                found += _unreadable(topic, what, sort_key.removeprefix(prefix), decode, item)
        for item in self._table.query("pk = :pk", {"pk": layout.tombstone_partition(topic)}):
            found += _unreadable(topic, _TOMBSTONE, items.key_of(item)[1], items.decode_tombstone, item)
        return found

    def delete(self, items: Iterable[UnreadableItem]) -> None:
        """Deletes items. Missing items are ignored."""
        for item in items:
            self._table.delete(_key(item), action="delete_unreadable", topic=item.topic)


def _unreadable(topic: str, what: str, name: str, decode: Callable[[Item], object], item: Item) -> list[UnreadableItem]:
    try:
        decode(item)
    except (CorruptMetadata, ValueError) as error:
        return [UnreadableItem(topic=topic, what=what, name=name, error=error)]
    return []


def _key(item: UnreadableItem) -> layout.Key:
    if item.what == _TOMBSTONE:
        return layout.tombstone_partition(item.topic), item.name
    [prefix] = [prefix for prefix, (what, _) in _KINDS.items() if what == item.what]
    return layout.topic_partition(item.topic), prefix + item.name
