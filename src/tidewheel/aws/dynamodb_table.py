"""Requests to the table: conditional changes as values, retries of what lost a race, pages.

Expressions name attributes as they are, or as `#name` where DynamoDB reserves the word.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from tidewheel.aws.table_layout import PARTITION_KEY, SORT_KEY, Key
from tidewheel.errors import Contended

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]
"""An item as the low-level client gives and takes it: {"sealed": {"N": "17"}, ...}."""
Value = int | str | bytes | frozenset[int] | Mapping[str, int] | Sequence[str]

T = TypeVar("T")

ATTEMPTS = 8
_BACKOFF_S = 0.02
_CONDITION = "ConditionalCheckFailed"
_LOST_RACES = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
_RETRIED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_NAME = re.compile(r"#(\w+)")


def attribute(value: Value) -> dict[str, Any]:
    """Returns a value as DynamoDB types it; a set must not be empty."""
    match value:
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case frozenset():
            return {"NS": [str(each) for each in sorted(value)]}
        case Mapping():
            return {"M": {name: attribute(each) for name, each in value.items()}}
        case _:
            return {"L": [attribute(each) for each in value]}


def item_of(key: Key, fields: Mapping[str, Value | None]) -> Item:
    """Returns an item with the fields that are not None."""
    item: Item = {PARTITION_KEY: {"S": key[0]}, SORT_KEY: {"S": key[1]}}
    for name, value in fields.items():
        if value is not None:
            item[name] = attribute(value)
    return item


def _key(key: Key) -> Item:
    return item_of(key, {})


def _expression(text: str, values: Mapping[str, Value]) -> Item:
    """Returns the request's names and values of some expressions."""
    found: Item = {}
    if names := _NAME.findall(text):
        found["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
    if values:
        found["ExpressionAttributeValues"] = {f":{name}": attribute(each) for name, each in values.items()}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """An item written whole."""

    item: Item
    if_absent: bool = False

    def request(self, table: str) -> Item:
        """Returns the parameters of PutItem, or of a transaction's Put."""
        request: Item = {"TableName": table, "Item": self.item}
        if self.if_absent:
            request["ConditionExpression"] = f"attribute_not_exists({PARTITION_KEY})"
        return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A conditional change of one item.

    Attributes:
        sets: paths and their new values; None removes one.
        adds: what is added to numbers and sets.
        condition: an expression.
        values: what the condition's `:names` stand for.
    """

    key: Key
    condition: str
    sets: Mapping[str, Value | None] = field(default_factory=dict)
    adds: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)

    def request(self, table: str) -> Item:
        """Returns the parameters of UpdateItem, or of a transaction's Update."""
        values = dict(self.values)
        sets, removes, adds = [], [], []
        for i, (path, value) in enumerate(self.sets.items()):
            if value is None:
                removes.append(path)
            else:
                values[f"set{i}"] = value
                sets.append(f"{path} = :set{i}")
        for i, (path, value) in enumerate(self.adds.items()):
            values[f"add{i}"] = value
            adds.append(f"{path} :add{i}")
        clauses = [
            f"{word} {', '.join(clause)}"
            for word, clause in (("SET", sets), ("REMOVE", removes), ("ADD", adds))
            if clause
        ]
        update = " ".join(clauses)
        return {
            "TableName": table,
            "Key": _key(self.key),
            "UpdateExpression": update,
            "ConditionExpression": self.condition,
            **_expression(f"{update} {self.condition}", values),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition on an item that a transaction leaves as it is."""

    key: Key
    condition: str
    values: Mapping[str, Value]

    def request(self, table: str) -> Item:
        """Returns the parameters of a transaction's ConditionCheck."""
        return {
            "TableName": table,
            "Key": _key(self.key),
            "ConditionExpression": self.condition,
            **_expression(self.condition, self.values),
        }


Write = Put | Change | Check
_KINDS: dict[type[Write], str] = {Put: "Put", Change: "Update", Check: "ConditionCheck"}


class Table:
    """One table, through boto3's low-level client.

    Args:
        page_size: items that a page of a query holds at most; None: as many as fit into its megabyte.
        sleep: waits for some seconds between tries.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        name: str,
        *,
        page_size: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._name = name
        self._page_size = page_size
        self._sleep = sleep

    def get(self, key: Key) -> Item | None:
        """Reads one item: one strongly consistent GetItem."""
        answer = self._client.get_item(TableName=self._name, Key=_key(key), ConsistentRead=True)
        return answer.get("Item")

    def query(
        self,
        condition: str,
        values: Mapping[str, Value],
        *,
        index: str | None = None,
        projection: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Reads items page by page: strongly consistent, unless from an index."""
        request: Item = {"KeyConditionExpression": condition}
        if index is None:
            request["ConsistentRead"] = True
        else:
            request["IndexName"] = index
        if projection is not None:
            request["ProjectionExpression"] = projection
        request |= _expression(f"{condition} {projection or ''}", values)
        return self._pages(self._client.query, request, limit)

    def query_prefix(self, partition: str, prefix: str, *, projection: str | None = None) -> Iterator[Item]:
        """Reads the items of a partition whose sort key starts with a prefix, in the order of the keys."""
        return self.query(
            f"{PARTITION_KEY} = :pk AND begins_with({SORT_KEY}, :prefix)",
            {"pk": partition, "prefix": prefix},
            projection=projection,
        )

    def scan(self, condition: str, values: Mapping[str, Value]) -> Iterator[Item]:
        """Reads the whole table and returns the items that satisfy a condition (eventually consistent)."""
        return self._pages(self._client.scan, {"FilterExpression": condition, **_expression(condition, values)}, None)

    def _pages(self, read: Callable[..., Any], request: Item, limit: int | None) -> Iterator[Item]:
        request = {"TableName": self._name, **request}
        if limit is not None or self._page_size is not None:
            request["Limit"] = limit or self._page_size
        while True:
            answer = read(**request)
            yield from answer["Items"]
            after = answer.get("LastEvaluatedKey")
            if after is None or limit is not None:
                return
            request["ExclusiveStartKey"] = after

    def put(self, put: Put, *, action: str, topic: str) -> bool:
        """Writes an item; returns whether its condition held."""

        def call() -> bool:
            try:
                self._client.put_item(**put.request(self._name))
            except self._client.exceptions.ConditionalCheckFailedException:
                return False
            return True

        return self._retrying(call, action, topic)

    def update(self, change: Change, *, action: str, topic: str, returns: bool = False) -> tuple[bool, Item | None]:
        """Changes an item in one request.

        Args:
            returns: whether to return the item, as it is after the change or after a refusal.

        Returns:
            Whether the condition held, and the item, None if there is none (or it was not asked for).
        """
        request = change.request(self._name)
        if returns:
            request |= {"ReturnValues": "ALL_NEW", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}

        def call() -> tuple[bool, Item | None]:
            try:
                answer = self._client.update_item(**request)
            except self._client.exceptions.ConditionalCheckFailedException as error:
                refused: Item = dict(error.response)
                return False, refused.get("Item")
            return True, answer.get("Attributes")

        return self._retrying(call, action, topic)

    def delete(self, key: Key, *, action: str, topic: str, returns: bool = False) -> Item | None:
        """Deletes an item, whether it is there or not; returns it as it was if `returns`."""
        returned: Any = "ALL_OLD" if returns else "NONE"

        def call() -> Item | None:
            answer = self._client.delete_item(TableName=self._name, Key=_key(key), ReturnValues=returned)
            return answer.get("Attributes")

        return self._retrying(call, action, topic)

    def transact(self, writes: Sequence[Write], *, action: str, topic: str) -> list[int]:
        """Does all writes or none, with one TransactWriteItems.

        boto3 gives each call a token of its own, so a request that it sends twice takes effect once. A call that
        this method repeats has not taken effect, but for a TransactionInProgress: then a condition may fail on the
        call's own work, and the caller, who reads again, finds it done.

        Returns:
            The positions of the writes whose conditions failed: none if all was done.

        Raises:
            Contended: other transactions came first each time.
        """
        items: list[Any] = [{_KINDS[type(write)]: write.request(self._name)} for write in writes]

        def call() -> list[int]:
            try:
                self._client.transact_write_items(TransactItems=items)
            except self._client.exceptions.TransactionCanceledException as error:
                cancelled: Item = dict(error.response)
                codes = [reason.get("Code") for reason in cancelled.get("CancellationReasons", ())]
                if _CONDITION not in codes:
                    raise
                return [i for i, code in enumerate(codes) if code == _CONDITION]
            return []

        return self._retrying(call, action, topic)

    def _retrying(self, call: Callable[[], T], action: str, topic: str) -> T:
        for attempt in range(ATTEMPTS):
            if attempt:
                self._sleep(random.uniform(0, _BACKOFF_S * 2**attempt))
            try:
                return call()
            except ClientError as error:
                if not _lost_a_race(error):
                    raise
        raise Contended(action, topic, ATTEMPTS)


def _lost_a_race(error: ClientError) -> bool:
    answer: Item = dict(error.response)
    if answer["Error"]["Code"] == "TransactionCanceledException":
        codes = {reason.get("Code") for reason in answer.get("CancellationReasons", ())}
        return bool(codes & _LOST_RACES) and codes <= _LOST_RACES | {"None", None}
    return answer["Error"]["Code"] in _RETRIED
