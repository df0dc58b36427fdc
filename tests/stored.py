"""Reads and changes the in-memory service's stored items without conditions, for tests."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, MutableMapping
from copy import copy
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tidewheel.memory import MemoryService
from tidewheel.model.plan import Plan, decode_plan
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.writes import Item

K = TypeVar("K")
V = TypeVar("V")

_known: WeakKeyDictionary[Any, Stored] = WeakKeyDictionary()


def stored(service: MemoryService) -> Stored:
    """The stored items of a service."""
    found = _known.get(service.dynamodb)
    if found is None:
        found = _known[service.dynamodb] = Stored(service)
    return found


class Stored:
    """The items of all topics."""

    def __init__(self, service: MemoryService) -> None:
        self._dynamodb = service.dynamodb
        self._objects = service.objects
        self._decoded: dict[table_keys.Key, tuple[Item, Any]] = {}

    def of(self, topic: str) -> TopicItems:
        """A topic's items."""
        return TopicItems(self, topic)

    def topics(self) -> dict[str, TopicItems]:
        """The items of each topic by name, for topics with items."""
        names = (name.split("#")[1] for name in self._dynamodb._partitions if name.startswith("T#"))
        return {name: self.of(name) for name in sorted(set(names))}

    def clear(self) -> None:
        """Deletes all topics' items, as if the table were lost."""
        for topic in self.topics().values():
            for key in topic.keys_in_table():
                self.delete(key)

    def all(self, partition: str, prefix: str) -> Iterator[tuple[table_keys.Key, Item]]:
        """The items of a partition whose sort keys have a prefix."""
        found = self._dynamodb._partitions.get(partition)
        if found is None:
            return
        for sort_key in found.order[bisect_left(found.order, prefix) :]:
            if not sort_key.startswith(prefix):
                return
            yield (partition, sort_key), found.kept[sort_key].item

    def read(self, key: table_keys.Key) -> Item | None:
        """An item, which must not be changed."""
        kept = self._dynamodb._kept(key)
        return None if kept is None else kept.item

    def put(self, item: Item) -> None:
        """Writes an item."""
        self._dynamodb.put_item(TableName="memory", Item=item)

    def delete(self, key: table_keys.Key) -> None:
        """Deletes an item."""
        self._dynamodb.delete_item(TableName="memory", Key={"pk": {"S": key[0]}, "sk": {"S": key[1]}})

    def decoded(self, key: table_keys.Key, item: Item, decode: Callable[[Item], V]) -> V:
        """Returns a decoded item. Each written item is decoded once."""
        known = self._decoded.get(key)
        if known is None or known[0] is not item:
            known = self._decoded[key] = item, decode(item)
        value: V = known[1]
        return value

    def decode_plan(self, item: Item) -> Plan:
        """A plan, whose manifest may be an object."""
        plan = items.decode_plan_item(item)
        manifest = plan.manifest
        if manifest is None:
            manifest = self._objects.get_range(str(plan.object_name), 0, plan.object_bytes)
        return decode_plan(plan.topic, plan.first_slot, plan.end_slot, manifest, plan.occurrences, plan.object_name)

    def expire(self, now_s: int, goes: Callable[[], bool] = lambda: True) -> None:
        """Deletes the items whose time to live has passed."""
        self._dynamodb.expire(now_s, goes)


class Items(MutableMapping[K, V]):
    """The decoded items of one kind by name. Reading an undecodable item raises."""

    def __init__(
        self,
        stored: Stored,
        partitions: list[str],
        prefix: str,
        *,
        decode: Callable[[Item], V],
        encode: Callable[[V], Item],
        name: Callable[[table_keys.Key, V], K],
        key: Callable[[K], table_keys.Key],
    ) -> None:
        self._stored, self._partitions, self._prefix = stored, partitions, prefix
        self._decode, self._encode, self._name, self._key = decode, encode, name, key

    def _all(self) -> Iterator[tuple[K, V, table_keys.Key]]:
        for partition in self._partitions:
            for key, item in self._stored.all(partition, self._prefix):
                value = self._stored.decoded(key, item, self._decode)
                yield self._name(key, value), value, key

    def __getitem__(self, wanted: K) -> V:
        key = self._key(wanted)
        item = self._stored.read(key)
        if item is None:
            raise KeyError(wanted)
        return self._stored.decoded(key, item, self._decode)

    def __setitem__(self, name: K, value: V) -> None:
        self._stored.put(self._encode(value))

    def __delitem__(self, wanted: K) -> None:
        key = self._key(wanted)
        if self._stored.read(key) is None:
            raise KeyError(wanted)
        self._stored.delete(key)

    def clear(self) -> None:
        for partition in self._partitions:
            for key, _ in [*self._stored.all(partition, self._prefix)]:
                self._stored.delete(key)

    def __iter__(self) -> Iterator[K]:
        return iter([name for name, _, _ in self._all()])

    def values(self) -> list[V]:  # type: ignore[override]
        return [
            self._stored.decoded(key, item, self._decode)
            for partition in self._partitions
            for key, item in self._stored.all(partition, self._prefix)
        ]

    def items(self) -> list[tuple[K, V]]:  # type: ignore[override]
        return [(name, value) for name, value, _ in self._all()]

    def __len__(self) -> int:
        return sum(1 for partition in self._partitions for _ in self._stored.all(partition, self._prefix))

    def __repr__(self) -> str:
        return repr(dict(self.items()))


def _last(key: table_keys.Key, _: object) -> str:
    return key[1]


class TopicItems:
    """The items stored under a topic's name, with a mutable mapping for each kind."""

    def __init__(self, stored: Stored, topic: str) -> None:
        self._stored = stored
        self.topic = topic

    def _kind(
        self, prefix: str, decode: Any, encode: Any, name: Any, key: Any, partitions: list[str] | None = None
    ) -> Any:
        own = partitions or [table_keys.topic_partition(self.topic)]
        return Items(self._stored, own, prefix, decode=decode, encode=encode, name=name, key=key)

    @property
    def state(self) -> TopicState | None:
        key = table_keys.topic_state_key(self.topic)
        item = self._stored.read(key)
        return None if item is None else self._stored.decoded(key, item, items.decode_topic_state)

    @state.setter
    def state(self, state: TopicState | None) -> None:
        if state is None:
            self._stored.delete(table_keys.topic_state_key(self.topic))
        else:
            self._stored.put(items.encode_topic_state(state))

    @property
    def buckets(self) -> Any:
        encode, key = partial(items.encode_bucket, self.topic), partial(table_keys.bucket_key, self.topic)
        return self._kind(table_keys.BUCKETS, items.decode_bucket, encode, lambda _, each: each.id, key)

    @property
    def plans(self) -> Any:
        """Slot -> plan."""
        name, key = lambda key, _: table_keys.plan_slot(key[1]), partial(table_keys.plan_key, self.topic)
        return self._kind(table_keys.PLANS, self._stored.decode_plan, None, name, key)

    @property
    def subscriptions(self) -> Any:
        decode, encode = items.decode_subscription, items.encode_subscription
        key = partial(table_keys.subscription_key, self.topic)
        return self._kind(table_keys.SUBSCRIPTIONS, decode, encode, lambda _, each: each.name, key)

    @property
    def deliveries(self) -> Any:
        decode, encode = items.decode_delivery, items.encode_delivery
        return self._kind(table_keys.DELIVERIES, decode, encode, lambda _, each: each.key, table_keys.delivery_key)

    @property
    def parks(self) -> Any:
        decode, encode = items.decode_park, items.encode_park
        return self._kind(table_keys.PARKS, decode, encode, lambda _, each: each.key, table_keys.park_key)

    @property
    def recurring(self) -> Any:
        decode, encode = items.decode_recurring, items.encode_recurring
        key = partial(table_keys.recurring_key, self.topic)
        return self._kind(table_keys.RECURRING, decode, encode, lambda _, each: each.name, key)

    @property
    def trash(self) -> Any:
        """(dead from, id) -> trash."""
        encode, key = partial(items.encode_trash, self.topic), lambda name: table_keys.trash_key(self.topic, *name)
        return self._kind(table_keys.TRASH, items.decode_trash, encode, lambda _, each: (each.dead_from, each.id), key)

    @property
    def tombstones(self) -> Any:
        """(slot, message id) -> tombstone."""
        encode, key = (
            partial(items.encode_tombstone, self.topic),
            lambda name: table_keys.tombstone_key(self.topic, *name),
        )
        partitions = [table_keys.tombstone_partition(self.topic)]
        return self._kind(
            "", items.decode_tombstone, encode, lambda key, _: table_keys.parse_tombstone_key(key), key, partitions
        )

    @property
    def keys(self) -> Any:
        encode, key = partial(items.encode_key, self.topic), partial(table_keys.key_key, self.topic)
        return self._kind("", items.decode_key, encode, _last, key, table_keys.key_partitions(self.topic))

    @property
    def moves(self) -> Any:
        """The moved message's id by the id of the new message."""
        key = partial(table_keys.move_key, self.topic)
        return self._kind("", items.decode_move, None, _last, key, [table_keys.moves_partition(self.topic)])

    @property
    def notes(self) -> Any:
        key = partial(table_keys.note_key, self.topic)
        return self._kind("", items.decode_note, None, _last, key, [key("")[0]])

    @property
    def imports(self) -> set[str]:
        """The marks of committed chunks, `<import id>#<mark>`."""
        found = self._stored.all(table_keys.topic_partition(self.topic), table_keys.IMPORTS)
        return {key[1].removeprefix(table_keys.IMPORTS) for key, _ in found}

    def keys_in_table(self) -> list[table_keys.Key]:
        """The keys of all items."""
        return [key for partition in table_keys.partitions(self.topic) for key, _ in self._stored.all(partition, "")]

    def __repr__(self) -> str:
        return repr([self._stored.read(key) for key in self.keys_in_table()])


def altered(service: Any, **ports: Any) -> Any:
    """Returns a copy of a service with other ports. A class replaces the class of a copied port, as a subclass."""
    copied = copy(service)
    for name, port in ports.items():
        setattr(copied, name, _as(port, getattr(service, name)) if isinstance(port, type) else port)
    return copied


def _as(kind: type[Any], port: Any) -> Any:
    """Returns a copy of a port with another class."""
    copied = copy(port)
    copied.__class__ = kind
    return copied
