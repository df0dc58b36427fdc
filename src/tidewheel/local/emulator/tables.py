"""Speeds up moto's DynamoDB, which walks the whole table.

Why, all measured on moto 5.2.5:
- `TransactWriteItems` deep-copies every table that it names, to be able to roll back: milliseconds for 100 items.
  Only the items that the transaction names need a copy.
- `Query` sorts and walks all items of the table, whatever the keys.
- moto computes the types and sizes of attributes anew at each comparison, and parses an update expression at each use.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.ast_nodes import DepthFirstTraverser  # type: ignore[attr-defined]
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]

from tidewheel.local.emulator.patching import Patches
from tidewheel.storage.layout import SERVICE

CHECK_INDEX_HASH, CHECK_INDEX_RANGE = "check_shard", "next_check_ms"


def install(patches: Patches, index: CheckIndex) -> None:
    """Replaces the slow parts of moto's DynamoDB backend, and maintains the index of checks from now on."""
    _quicken_values(patches)
    _quicken_update_expressions(patches)
    _narrow_queries(patches, index)
    _follow_writes(patches, index)
    _narrow_transactions(patches, index)


class CheckIndex:
    """Holds the items of the sparse index `checks`, and the times of daily claims.

    Both are updated when items are written, so no reader walks the table.

    Attributes:
        changes: table -> number of writes of items other than daily claims.
    """

    def __init__(self) -> None:
        self._items: dict[tuple[str, str, str], tuple[int, Item]] = {}
        self._daily_ms: dict[tuple[str, str], int] = {}
        self.changes: Counter[str] = Counter()

    def next_daily_ms(self, table_name: str) -> int | None:
        """Returns when the next daily work of a table can be claimed. Returns None if none ever was."""
        return min((at_ms for key, at_ms in self._daily_ms.items() if key[0] == table_name), default=None)

    def least_ms(self, table_name: str) -> int | None:
        """Returns the earliest next_check_ms of a table. Returns None if the index is empty."""
        return min((at_ms for key, (at_ms, _) in self._items.items() if key[0] == table_name), default=None)

    def items(self, table_name: str) -> list[Item]:
        """Returns the items of a table that are in the index."""
        return [item for key, (_, item) in self._items.items() if key[0] == table_name]

    def note(self, backend: DynamoDBBackend, table_name: str, attributes: dict[str, Any]) -> None:
        """Updates the index for an item that may have changed."""
        table = backend.tables.get(table_name)
        if table is None or not table.has_range_key or not all(name in attributes for name in table.table_key_attrs):
            return
        hash_key, range_key = backend.get_keys_value(table, attributes)
        item = table.get_item(hash_key, range_key)
        key = (table_name, str(hash_key.value), str(range_key.value if range_key else ""))
        if key[1] == SERVICE and item is not None and "next_at_ms" in item.attrs:
            self._daily_ms[table_name, key[2]] = int(item.attrs["next_at_ms"].value)
            return
        self.changes[table_name] += 1
        if item is not None and CHECK_INDEX_HASH in item.attrs and CHECK_INDEX_RANGE in item.attrs:
            self._items[key] = int(item.attrs[CHECK_INDEX_RANGE].value), item
        else:
            self._items.pop(key, None)


def item_bytes(table: Table, backend: DynamoDBBackend, attributes: dict[str, Any]) -> int:
    """Returns the size of the stored item with this key. Returns 0 if there is none."""
    item = table.get_item(*backend.get_keys_value(table, attributes))
    return item.size() if item is not None else 0


def _follow_writes(patches: Patches, index: CheckIndex) -> None:
    for name in ("put_item", "update_item", "delete_item"):
        write = getattr(DynamoDBBackend, name)

        def followed(self: DynamoDBBackend, *args: Any, write: Any = write, **kwargs: Any) -> Any:
            table_name = args[0] if args else kwargs["table_name"]
            attributes = args[1] if len(args) > 1 else kwargs.get("key") or kwargs.get("item_attrs") or {}
            result = write(self, *args, **kwargs)
            index.note(self, table_name, attributes)
            return result

        patches.set(DynamoDBBackend, name, followed)


def _quicken_values(patches: Patches) -> None:
    cast_value = vars(DynamoType)["cast_value"].fget
    size = DynamoType.size

    def quick_cast(self: DynamoType) -> Any:
        return self.value if self.type == "S" else cast_value(self)

    def quick_size(self: DynamoType) -> int:
        if self.type == "S":
            text: str = self.value
            return len(text) if text.isascii() else len(text.encode())
        return size(self)

    patches.set(DynamoType, "cast_value", property(quick_cast))
    patches.set(DynamoType, "size", quick_size)


def _quicken_update_expressions(patches: Patches) -> None:
    make = UpdateExpressionParser.make
    known: dict[str, Any] = {}

    def remembered(expression: str) -> Any:
        # moto's validators work on a copy of the tree.
        if expression not in known:
            known[expression] = make(expression)
        return known[expression]

    def nodes_to_be_processed(self: Any) -> tuple[type, ...]:
        found: tuple[type, ...] | None = self.__dict__.get("_tidewheel_types")
        if found is None:
            found = self.__dict__["_tidewheel_types"] = tuple(self._processing_map())
        return found

    patches.set(UpdateExpressionParser, "make", staticmethod(remembered))
    patches.set(DepthFirstTraverser, "nodes_to_be_processed", nodes_to_be_processed)


class _Partition(dict[DynamoType, Item]):
    """Holds the items of a partition key, and their sort keys in order."""

    def __init__(self) -> None:
        super().__init__()
        self._order: list[DynamoType] = []

    def __setitem__(self, key: DynamoType, item: Item) -> None:
        if key not in self:
            insort(self._order, key)
        super().__setitem__(key, item)

    def pop(self, key: DynamoType) -> Item:  # type: ignore[override]
        item = super().pop(key)
        del self._order[bisect_left(self._order, key)]
        return item

    def __reduce__(self) -> Any:
        return _Partition, (), None, None, iter(self.items())  # a copy orders its keys itself

    def matching(self, comparison: str | None, bounds: list[DynamoType]) -> list[Item]:
        """Returns at least the items whose sort keys fulfil the comparison of a query."""
        if comparison not in ("BETWEEN", "BEGINS_WITH"):
            return list(self.values())
        coming = islice(self._order, bisect_left(self._order, bounds[0]), None)
        return [self[key] for key in takewhile(lambda key: key.compare(comparison, bounds), coming)]


def _index_keys(table: Table, index_name: str) -> list[str]:
    indexes = (each for each in table.all_indexes() if each.name == index_name)
    return [key["AttributeName"] for index in indexes for key in index.schema]


def _narrow_queries(patches: Patches, index: CheckIndex) -> None:
    create = Table.__init__
    query = Table.query
    all_items = Table.all_items
    narrowed: dict[int, Callable[[], list[Item]]] = {}  # under the request lock

    def create_ordered(self: Table, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        if self.has_range_key:
            self.items = defaultdict(_Partition)

    def narrow_all_items(self: Table) -> list[Item]:
        candidates = narrowed.get(id(self))
        return candidates() if candidates else all_items(self)

    def narrow_query(
        self: Table, hash_key: Any, comparison: str | None, bounds: list[DynamoType], *args: Any, **kwargs: Any
    ) -> Any:
        # moto's backend passes: limit, exclusive_start_key, scan_index_forward, projection_expressions, index_name, ...
        index_name = args[4] if len(args) > 4 else kwargs.get("index_name")

        def candidates() -> list[Item]:
            if index_name is not None and _index_keys(self, index_name) == [CHECK_INDEX_HASH, CHECK_INDEX_RANGE]:
                return index.items(self.name)
            if index_name is not None:
                return self.has_idx_items(index_name)
            if hash_key not in self.items:
                return []
            partition: Any = self.items[hash_key]
            return partition.matching(comparison, bounds) if self.has_range_key else [partition]

        narrowed[id(self)] = candidates
        try:
            return query(self, hash_key, comparison, bounds, *args, **kwargs)
        finally:
            del narrowed[id(self)]

    patches.set(Table, "__init__", create_ordered)
    patches.set(Table, "query", narrow_query)
    patches.set(Table, "all_items", narrow_all_items)


def _narrow_transactions(patches: Patches, index: CheckIndex) -> None:
    transact = DynamoDBBackend.transact_write_items

    def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        before = [
            (table, key, copy.deepcopy(table.get_item(*key))) for table, key in _named_items(self, transact_items)
        ]
        try:
            with _tables_not_copied():
                transact(self, transact_items)
        except BaseException:
            for table, (hash_key, range_key), item in before:
                _put_back(table, hash_key, range_key, item)
            for entry in transact_items:
                for operation in entry.values():
                    attributes = operation.get("Key") or operation.get("Item") or {}
                    index.note(self, operation.get("TableName", ""), attributes)
            raise

    patches.set(DynamoDBBackend, "transact_write_items", transact_write_items)


def _named_items(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> Iterator[tuple[Table, Any]]:
    for entry in transact_items:
        for operation in entry.values():
            table = backend.tables.get(operation.get("TableName", ""))
            attributes = operation.get("Key") or operation.get("Item") or {}
            if table is not None and all(name in attributes for name in table.table_key_attrs):
                yield table, backend.get_keys_value(table, attributes)


@contextmanager
def _tables_not_copied() -> Iterator[None]:
    Table.__deepcopy__ = lambda table, _: table  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del Table.__deepcopy__  # type: ignore[attr-defined]


def _put_back(table: Table, hash_key: DynamoType, range_key: DynamoType | None, item: Item | None) -> None:
    if item is None:
        table.delete_item(hash_key, range_key)
    elif range_key is not None:
        table.items[hash_key][range_key] = item
    else:
        table.items[hash_key] = item  # type: ignore[assignment]
