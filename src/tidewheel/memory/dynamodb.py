"""Answers as boto3's DynamoDB client does, from memory.

The client has one table, with the keys and the index of `storage.table_keys`. It knows the operations, parameters
and expressions that `tidewheel.storage` uses. Any other is an error. It has DynamoDB's limits on items, pages and
transactions, and raises boto3's exceptions.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from botocore.exceptions import ClientError

from tidewheel.memory import expressions
from tidewheel.memory.expressions import COMPARISONS, Comparison, Condition, InvalidExpression, Item, comparable
from tidewheel.storage.table_keys import (
    CHECK_INDEX,
    CHECK_PARTITION_KEY,
    CHECK_SORT_KEY,
    PARTITION_KEY,
    SORT_KEY,
    TTL_ATTRIBUTE,
)

MAX_ITEM_BYTES = 400 * 1024
MAX_PAGE_BYTES = 1 << 20
MAX_TRANSACTION_ITEMS = MAX_BATCH_KEYS = 100
MAX_TRANSACTION_BYTES = 4 << 20
_TOKENS = 1000
"""Transactions whose tokens are remembered. DynamoDB remembers tokens for ten minutes."""

_KEYS = PARTITION_KEY, SORT_KEY
_INDEX_KEYS = CHECK_PARTITION_KEY, CHECK_SORT_KEY
_Key = tuple[str, str]
_Names = tuple[tuple[str, str], ...]
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_REFUSED = "The conditional request failed"


class ConditionalCheckFailedException(ClientError):
    """The condition of a write does not hold."""


class TransactionCanceledException(ClientError):
    """The condition of a transaction's write does not hold."""


class ResourceNotFoundException(ClientError):
    """The table or the index does not exist."""


class _Kept(NamedTuple):
    """A stored item."""

    item: Item
    size_bytes: int


class _Ordered:
    """The items of a partition, in the order of their sort keys.

    Attributes:
        order: the sort keys. In an index, the attribute's value, then the item's key.
    """

    def __init__(self) -> None:
        self.order: list[Any] = []
        self.kept: dict[Any, _Kept] = {}

    def set(self, key: Any, kept: _Kept) -> None:
        if key not in self.kept:
            insort(self.order, key)
        self.kept[key] = kept

    def remove(self, key: Any) -> None:
        del self.kept[key]
        del self.order[bisect_left(self.order, key)]


class _Write(NamedTuple):
    """A write that is checked, but not stored yet. The item is absent afterwards if `new` is None."""

    key: _Key
    new: _Kept | None
    refused: Item | None = None


class MemoryDynamoDBClient:
    """Behaves as `boto3.client("dynamodb")` with a single table. Safe for use by several threads.

    Args:
        table: the table's name.

    Attributes:
        exceptions: the exception classes of boto3's client.
        tokens: tokens of the latest transactions, oldest first.
        touched: called with the key of each item that is written or deleted.
    """

    def __init__(self, table: str) -> None:
        kinds = (ConditionalCheckFailedException, ResourceNotFoundException, TransactionCanceledException)
        self.exceptions = SimpleNamespace(ClientError=ClientError, **{each.__name__: each for each in kinds})
        self._table = table
        self._lock = threading.RLock()
        self._partitions: dict[str, _Ordered] = {}
        self._index: dict[str, _Ordered] = {}
        self._indexed: dict[_Key, tuple[str, Any]] = {}
        self._ttl: dict[_Key, int] = {}
        self._writes: Counter[str] = Counter()
        self.tokens: dict[str, None] = {}
        self.touched: Callable[[str, str], None] = lambda *_: None

    # ---- reading
    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool = False) -> Item:  # noqa: ARG002
        """Reads an item. The answer has no field `Item` if there is none."""
        with self._lock:
            kept = self._kept(self._key(TableName, Key))
        return {} if kept is None else {"Item": dict(kept.item)}

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> Item:
        """Reads items of the table, in a single request."""
        ((table, part),) = RequestItems.items()
        keys = part["Keys"]
        if not 1 <= len(keys) <= MAX_BATCH_KEYS or len({self._key(table, key) for key in keys}) < len(keys):
            _invalid(f"a batch has 1 to {MAX_BATCH_KEYS} different keys")
        found = [self.get_item(TableName=table, Key=key) for key in keys]
        return {"Responses": {table: [each["Item"] for each in found if each]}, "UnprocessedKeys": {}}

    def query(
        self,
        *,
        TableName: str,
        KeyConditionExpression: str,
        ExpressionAttributeValues: Item,
        ExpressionAttributeNames: Mapping[str, str] | None = None,
        FilterExpression: str | None = None,
        ProjectionExpression: str | None = None,
        IndexName: str | None = None,
        ConsistentRead: bool = False,
        Limit: int | None = None,
        ExclusiveStartKey: Item | None = None,
        ScanIndexForward: bool = True,
    ) -> Item:
        """Reads a page of a partition, by sort key."""
        values = ExpressionAttributeValues
        read = _read(
            KeyConditionExpression,
            FilterExpression,
            ProjectionExpression,
            _names(ExpressionAttributeNames),
            tuple(values),
        )
        with self._lock:
            self._check_table(TableName)
            indexed = IndexName is not None
            if indexed and IndexName != CHECK_INDEX:
                _invalid(f"The table does not have the specified index: {IndexName}")
            if indexed and ConsistentRead:
                _invalid("Consistent reads are not supported on global secondary indexes")
            partition = _partition_of(_INDEX_KEYS if indexed else _KEYS, read, values)
            ordered = (self._index if indexed else self._partitions).get(partition)
            if ordered is None:
                return {"Items": [], "Count": 0, "ScannedCount": 0}
            after = None if ExclusiveStartKey is None else _place(ExclusiveStartKey, indexed)
            places = _within(ordered.order, read.range, values, indexed, after if ScanIndexForward else None)
            if not ScanIndexForward:
                places = (place for place in reversed([*places]) if after is None or place < after)
            found = (ordered.kept[key] for key in places)
            return _page(found, _KEYS + _INDEX_KEYS if indexed else _KEYS, read, values, Limit)

    # ---- writing
    def put_item(self, *, TableName: str, ReturnValuesOnConditionCheckFailure: str = "NONE", **put: Any) -> Item:
        """Writes an item."""
        with self._lock:
            write = self._put(TableName=TableName, **put)
            self._refuse(write, "PutItem", ReturnValuesOnConditionCheckFailure)
            self._store(write)
        return {}

    def update_item(
        self,
        *,
        TableName: str,
        ReturnValues: str = "NONE",
        ReturnValuesOnConditionCheckFailure: str = "NONE",
        **update: Any,
    ) -> Item:
        """Changes or makes an item."""
        if ReturnValues not in ("NONE", "ALL_NEW"):
            _invalid(f"ReturnValues {ReturnValues!r} is not known here")
        with self._lock:
            write = self._update(TableName=TableName, **update)
            self._refuse(write, "UpdateItem", ReturnValuesOnConditionCheckFailure)
            self._store(write)
        return {"Attributes": dict(write.new.item)} if ReturnValues == "ALL_NEW" and write.new is not None else {}

    def delete_item(self, *, TableName: str, Key: Item, ReturnValues: str = "NONE") -> Item:
        """Deletes an item, if any."""
        if ReturnValues not in ("NONE", "ALL_OLD"):
            _invalid(f"ReturnValues {ReturnValues!r} is not known here")
        with self._lock:
            key = self._key(TableName, Key)
            old = self._kept(key)
            self._store(_Write(key, None))
        return {"Attributes": dict(old.item)} if ReturnValues == "ALL_OLD" and old is not None else {}

    def transact_write_items(
        self, *, TransactItems: Sequence[Mapping[str, Any]], ClientRequestToken: str | None = None
    ) -> Item:
        """Does all writes or none."""
        if not 1 <= len(TransactItems) <= MAX_TRANSACTION_ITEMS:
            _invalid(f"a transaction has 1 to {MAX_TRANSACTION_ITEMS} items, not {len(TransactItems)}")
        prepare: dict[str, Callable[..., _Write]] = {
            "Put": self._put,
            "Update": self._update,
            "Delete": self._delete,
            "ConditionCheck": self._check,
        }
        with self._lock:
            if ClientRequestToken is not None and ClientRequestToken in self.tokens:
                return {}
            writes = []
            for entry in TransactItems:
                ((kind, request),) = entry.items()
                writes.append(prepare[kind](**request))
            if len({write.key for write in writes}) < len(writes):
                _invalid("Transaction request cannot include multiple operations on one item")
            if sum(write.new.size_bytes for write in writes if write.new is not None) > MAX_TRANSACTION_BYTES:
                _invalid(f"a transaction has at most {MAX_TRANSACTION_BYTES} bytes")
            if any(write.refused is not None for write in writes):
                refused = {"Code": "ConditionalCheckFailed", "Message": _REFUSED}
                reasons = [{"Code": "None"} if write.refused is None else refused for write in writes]
                operation, canceled = "TransactWriteItems", TransactionCanceledException
                raise _error(canceled, operation, "canceled", CancellationReasons=reasons)
            for write, entry in zip(writes, TransactItems, strict=True):
                if "ConditionCheck" not in entry:
                    self._store(write)
            if ClientRequestToken is not None:
                self.tokens[ClientRequestToken] = None
                if len(self.tokens) > _TOKENS:
                    del self.tokens[next(iter(self.tokens))]
        return {}

    # ---- beside boto3's client
    def item(self, partition: str, sort_key: str) -> Item | None:
        """Returns the item with a key, or None."""
        with self._lock:
            kept = self._kept((partition, sort_key))
        return None if kept is None else kept.item

    def first_indexed(self) -> int | None:
        """Returns the lowest sort key in the index. Returns None if the index is empty."""
        with self._lock:
            return min((each.order[0][0] for each in self._index.values() if each.order), default=None)

    def items(self, partition: str | None = None) -> list[Item]:
        """Returns all items, or the items of a partition, by key."""
        with self._lock:
            names = sorted(self._partitions) if partition is None else [partition]
            found = [self._partitions[name] for name in names if name in self._partitions]
            return [dict(each.kept[key].item) for each in found for key in each.order]

    def item_bytes(self, attributes: Item) -> int:
        """Returns the size of the item with the key among some attributes. Returns 0 if there is no item."""
        with self._lock:
            kept = self._kept(self._key(self._table, {name: attributes[name] for name in _KEYS}))
        return 0 if kept is None else kept.size_bytes

    def writes(self, *, but: str) -> int:
        """Returns the number of writes so far, except a partition's writes."""
        return self._writes.total() - self._writes[but]

    def expire(self, now_s: int, goes: Callable[[], bool] = lambda: True) -> None:
        """Deletes items whose time to live has passed. DynamoDB does so some days late and in any order.

        Args:
            goes: returns whether to delete an item now; other items are left to a later call.
        """
        with self._lock:
            for key in [key for key, ttl_s in self._ttl.items() if ttl_s < now_s and goes()]:
                self._store(_Write(key, None))

    # ---- one write
    def _put(self, *, TableName: str, Item: Item, **conditions: Any) -> _Write:
        key = self._key(TableName, Item, exact=False)
        return self._checked(key, dict(Item), **conditions)

    def _update(self, *, TableName: str, Key: Item, UpdateExpression: str, **conditions: Any) -> _Write:
        key = self._key(TableName, Key)
        old = self._kept(key)
        item = dict(Key if old is None else old.item)
        return self._checked(key, item, UpdateExpression, **conditions)

    def _delete(self, *, TableName: str, Key: Item, **conditions: Any) -> _Write:
        return self._checked(self._key(TableName, Key), None, **conditions)

    def _check(self, *, TableName: str, Key: Item, ConditionExpression: str, **conditions: Any) -> _Write:
        return self._checked(self._key(TableName, Key), None, ConditionExpression=ConditionExpression, **conditions)

    def _checked(
        self,
        key: _Key,
        new: Item | None,
        update: str | None = None,
        *,
        ConditionExpression: str | None = None,
        ExpressionAttributeNames: Mapping[str, str] | None = None,
        ExpressionAttributeValues: Item | None = None,
    ) -> _Write:
        values = ExpressionAttributeValues or {}
        holds, clauses = _write(ConditionExpression, update, _names(ExpressionAttributeNames), tuple(values))
        if holds is not None:
            old = self._kept(key)
            item = {} if old is None else old.item
            if not holds(item, values):
                return _Write(key, None, dict(item))
        if new is None:
            return _Write(key, None)
        for clause in clauses:
            if clause.path[0] in _KEYS:
                _invalid(f"Cannot update attribute {clause.path[0]}. This attribute is part of the key")
            _apply(new, clause, values)
        for name, kind in zip(_INDEX_KEYS, "SN", strict=True):
            if kind not in new.get(name, {kind: ""}):
                _invalid(f"One or more parameter values were invalid: Type mismatch for Index Key {name}")
        return _Write(key, _measured(new))

    def _refuse(self, write: _Write, operation: str, returned: str) -> None:
        if write.refused is not None:
            item: dict[str, Any] = {"Item": write.refused} if returned == "ALL_OLD" and write.refused else {}
            raise _error(ConditionalCheckFailedException, operation, _REFUSED, **item)

    def _store(self, write: _Write) -> None:
        key, new = write.key, write.new
        self.touched(*key)
        self._writes[key[0]] += 1
        self._ttl.pop(key, None)
        if new is not None:
            self._partitions.setdefault(key[0], _Ordered()).set(key[1], new)
            if "N" in (ttl := new.item.get(TTL_ATTRIBUTE, {})):
                self._ttl[key] = int(ttl["N"])
        elif self._kept(key) is None:
            return
        else:
            self._partitions[key[0]].remove(key[1])
            if not self._partitions[key[0]].order:
                del self._partitions[key[0]]
        if key in self._indexed or (new is not None and CHECK_PARTITION_KEY in new.item):
            self._show(key)

    def _show(self, key: _Key) -> None:
        """Brings the index up to date for an item."""
        if (old := self._indexed.pop(key, None)) is not None:
            self._index[old[0]].remove(old[1])
        kept = self._kept(key)
        if kept is None or CHECK_PARTITION_KEY not in kept.item or CHECK_SORT_KEY not in kept.item:
            return
        shown = {name: kept.item[name] for name in _KEYS + _INDEX_KEYS}
        shard, place = shown[CHECK_PARTITION_KEY]["S"], _place(shown, indexed=True)
        self._index.setdefault(shard, _Ordered()).set(place, _measured(shown))
        self._indexed[key] = shard, place

    # ---- keys
    def _check_table(self, name: str) -> None:
        if name != self._table:
            raise _error(ResourceNotFoundException, "", f"Requested resource not found: Table: {name} not found")

    def _key(self, table: str, item: Item, *, exact: bool = True) -> _Key:
        self._check_table(table)
        if exact and len(item) != len(_KEYS):
            _invalid("The provided key element does not match the schema")
        try:
            key = item[PARTITION_KEY]["S"], item[SORT_KEY]["S"]
        except KeyError:
            _invalid("The provided key element does not match the schema")
        if not all(key):
            _invalid("One or more parameter values are not valid: a key attribute is empty")
        return key

    def _kept(self, key: _Key) -> _Kept | None:
        partition = self._partitions.get(key[0])
        return None if partition is None else partition.kept.get(key[1])


def _place(item: Item, indexed: bool) -> Any:
    """Returns the place of an item in the order of its partition, of the table or of the index."""
    sort_key = item[SORT_KEY]["S"]
    return (comparable(item[CHECK_SORT_KEY])[1], item[PARTITION_KEY]["S"], sort_key) if indexed else sort_key


def _partition_of(keys: tuple[str, str], read: _Read, values: Item) -> str:
    """Returns the partition that a query reads, of the table or of the index with these keys."""
    first, range_ = read.partition, read.range
    if first.path != keys[:1] or first.operator != "=":
        _invalid(f"Query condition missed key schema element: {keys[0]}")
    if range_ is not None and (range_.path != keys[1:] or range_.operator == "<>"):
        _invalid(f"Query key condition not supported: {range_}")
    partition: str | None = values[first.values[0]].get("S")
    if partition is None:
        _invalid(f"Condition parameter type does not match schema type: {keys[0]}")
    return partition


def _page(found: Iterator[_Kept], keys: Sequence[str], read: _Read, values: Item, limit: int | None) -> Item:
    """Answers with the items that a filter keeps, up to the page's end. The last item's keys tell where to go on."""
    items, scanned, size_bytes = [], 0, 0
    answer: Item = {}
    for kept in found:
        scanned += 1
        size_bytes += kept.size_bytes
        if read.filter is None or read.filter(kept.item, values):
            items.append(_projected(kept.item, read.attributes))
        if scanned == limit or size_bytes >= MAX_PAGE_BYTES:
            answer["LastEvaluatedKey"] = {name: kept.item[name] for name in keys}
            break
    return {"Items": items, "Count": len(items), "ScannedCount": scanned, **answer}


def _within(order: list[Any], wanted: Comparison | None, values: Item, numbers: bool, after: Any) -> Iterator[Any]:
    """Yields the places of an order selected by a comparison, behind `after`."""
    begin = 0 if after is None else bisect_right(order, after)
    if wanted is None:
        yield from order[begin:]
        return
    typed = [comparable(values[each]) for each in wanted.values]
    if any(kind != ("N" if numbers else "S") for kind, _ in typed) or (numbers and wanted.operator == "begins_with"):
        _invalid(f"Condition parameter type does not match schema type: {wanted}")
    bounds, holds = [bound for _, bound in typed], COMPARISONS[wanted.operator]
    if wanted.operator not in ("<", "<="):
        begin = max(begin, bisect_left(order, (bounds[0],) if numbers else bounds[0]))
    for place in order[begin:]:
        if holds(place[0] if numbers else place, bounds):
            yield place
        elif wanted.operator != ">":
            return


def _projected(item: Item, attributes: Sequence[str] | None) -> Item:
    return dict(item) if attributes is None else {name: item[name] for name in attributes if name in item}


def _apply(item: Item, clause: expressions.Update, values: Item) -> None:
    """Applies a clause of an update to an item, whose nested maps are shared with others."""
    holder: Item = item
    for name in clause.path[:-1]:
        if "M" not in holder.get(name, {}):
            _invalid("The document path provided in the update expression is invalid for update")
        inner = dict(holder[name]["M"])
        holder[name] = {"M": inner}
        holder = inner
    name = clause.path[-1]
    if clause.value is None:
        holder.pop(name, None)
    elif clause.action == "SET":
        holder[name] = values[clause.value]
    else:
        ((added_kind, added),) = values[clause.value].items()
        ((kind, old),) = holder.get(name, {added_kind: "0" if added_kind == "N" else ()}).items()
        if kind != added_kind or kind not in ("N", "NS", "SS"):
            _invalid("An operand in the update expression has an incorrect data type")
        if kind == "N":
            holder[name] = {"N": str(comparable({"N": old})[1] + comparable({"N": added})[1])}
        else:
            holder[name] = {kind: sorted({*old, *added})}


def _measured(item: Item) -> _Kept:
    """Returns an item and the item's size.

    Raises:
        ClientError: the item is too large.
    """
    size_bytes = sum(len(name.encode()) + _size(value) for name, value in item.items())
    if size_bytes > MAX_ITEM_BYTES:
        _invalid("Item size has exceeded the maximum allowed size")
    return _Kept(item, size_bytes)


def _size(wire: Mapping[str, Any]) -> int:
    ((kind, value),) = wire.items()
    if kind == "S":
        return len(value.encode())
    if kind == "B":
        return len(value)
    if kind == "N":
        if not _NUMBER.fullmatch(value):
            _invalid(f"The parameter cannot be converted to a numeric value: {value}")
        return len(value) // 2 + 2
    if kind == "M":
        return 3 + sum(len(name.encode()) + 1 + _size(each) for name, each in value.items())
    if kind == "L":
        return 3 + sum(1 + _size(each) for each in value)
    if kind in ("SS", "NS", "BS"):
        if not value:
            _invalid("One or more parameter values were invalid: An set may not be empty")
        return sum(_size({kind[0]: each}) for each in value)
    return 1


def _names(names: Mapping[str, str] | None) -> _Names:
    return () if names is None else tuple(names.items())


class _Read(NamedTuple):
    """The parsed expressions of a query.

    Attributes:
        partition, range: the comparisons of a query's keys.
    """

    partition: Comparison
    range: Comparison | None
    filter: Condition | None
    attributes: tuple[str, ...] | None


@lru_cache(1024)
def _read(keys: str, filter_: str | None, projected: str | None, names: _Names, values: tuple[str, ...]) -> _Read:
    _check_used((keys, filter_, projected), names, values)
    try:
        partition, *others = expressions.key_condition(keys, names)
        if len(others) > 1:
            _invalid(f"Query key condition not supported: {keys}")
        range_ = others[0] if others else None
        test = None if filter_ is None else expressions.condition(filter_, names)
        return _Read(partition, range_, test, None if projected is None else expressions.projection(projected, names))
    except InvalidExpression as error:
        _invalid(str(error))


@lru_cache(4096)
def _write(
    condition: str | None, update: str | None, names: _Names, values: tuple[str, ...]
) -> tuple[Condition | None, tuple[expressions.Update, ...]]:
    _check_used((condition, update), names, values)
    try:
        holds = None if condition is None else expressions.condition(condition, names)
        return holds, () if update is None else expressions.updates(update, names)
    except InvalidExpression as error:
        _invalid(str(error))


def _check_used(texts: Sequence[str | None], names: _Names, values: Sequence[str]) -> None:
    """Refuses unused names and values, as DynamoDB does."""
    whole = " ".join(text for text in texts if text)
    used = {*expressions.placeholders(whole)}
    for unused in {*(name for name, _ in names), *values} - used:
        _invalid(f"{unused} is not used in the expressions {whole!r}")
    for missing in {each for each in used if each.startswith(":")} - {*values}:
        _invalid(f"An expression attribute value used in expression is not defined: {missing}")


def _invalid(message: str) -> NoReturn:
    raise _error(ClientError, "", message, code="ValidationException")


def _error(kind: type[ClientError], operation: str, message: str, *, code: str | None = None, **fields: Any) -> Any:
    response: Any = {
        "Error": {"Code": code or kind.__name__, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        **fields,
    }
    return kind(response, operation)
