"""Sends requests to the table, repeats refused transactions and follows pages."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from tidewheel import deadline
from tidewheel.errors import ConcurrentModification
from tidewheel.storage.items import each_readable
from tidewheel.storage.table_keys import PARTITION_KEY, SORT_KEY, Key, slot_range
from tidewheel.storage.writes import Change, Check, Delete, Item, Put, Value, Write, expression, key_item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

ATTEMPTS = 14
THROTTLED_ATTEMPTS = 5
"""A throttled request is tried so often, by boto3 twice each, which takes at most 8 s."""
_THROTTLED_BACKOFF_S = 0.1
_BACKOFF_S = 0.02
_MAX_BACKOFF_S = 0.32
"""Maximum wait between tries. Most writes hold an item for about 10 ms, so longer waits only let other writers go first
(bench_contention).
"""
_GROWTH = 16
_LARGEST_PAGE = 10_000
"""Items that are more than the 1 MB of a page."""
_BATCH = 100
"""The most items that DynamoDB reads in a BatchGetItem."""
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
_THROTTLED = (_LOST_RACES | _RETRIED) - {
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
}
_KINDS: dict[type[Write], str] = {Put: "Put", Change: "Update", Check: "ConditionCheck", Delete: "Delete"}


class Table:
    """A DynamoDB table, through boto3's low-level client.

    Args:
        sleep: waits for some seconds between tries.
    """

    def __init__(self, client: DynamoDBClient, name: str, *, sleep: Callable[[float], None] = deadline.sleep) -> None:
        self._client = client
        self._name = name
        self._sleep = sleep

    def get(self, key: Key) -> Item | None:
        """Reads an item with a strongly consistent GetItem."""
        request = {"TableName": self._name, "Key": key_item(key), "ConsistentRead": True}
        found: Item | None = self._read(self._client.get_item, request).get("Item")
        return found

    def read(self, key: Key, decode: Callable[[Item], T]) -> T | None:
        """Reads and decodes an item. Returns None for an absent item."""
        item = self.get(key)
        return None if item is None else decode(item)

    def get_many(self, keys: Iterable[Key]) -> Iterator[Item]:
        """Reads items with strongly consistent BatchGetItems, in any order. Leaves out absent items."""
        wanted = [key_item(key) for key in keys]
        for start in range(0, len(wanted), _BATCH):
            left: list[Any] = wanted[start : start + _BATCH]
            for attempt in range(1, THROTTLED_ATTEMPTS + 1):
                request = {"RequestItems": {self._name: {"Keys": left, "ConsistentRead": True}}}
                answer = self._read(self._client.batch_get_item, request)
                yield from answer["Responses"].get(self._name, ())
                left = answer.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
                if not left:
                    break
                self._sleep(_throttled_backoff_s(attempt))
            else:
                raise ConcurrentModification("read many items", self._name, THROTTLED_ATTEMPTS)

    def read_all(
        self,
        partition: str,
        prefix: str,
        decode: Callable[[Item], T],
        unreadable: dict[str, Exception] | None = None,
        *,
        projection: str | None = None,
    ) -> list[T]:
        """Reads and decodes a partition's items whose sort key has a prefix. `unreadable` is as in `each_readable`."""
        return list(
            each_readable(self.query_prefix(partition, prefix, projection=projection), decode, prefix, unreadable)
        )

    def query(
        self,
        condition: str,
        values: Mapping[str, Value],
        *,
        projection: str | None = None,
        limit: int | None = None,
        first_page: int | None = None,
        backwards: bool = False,
    ) -> Iterator[Item]:
        """Reads items page by page. Reads are strongly consistent.

        Args:
            condition: of the keys.
            values: values of the condition.
            projection: the attributes to read. None: all.
            limit: how many items are read, in one request. None: all.
            first_page: for a caller who may stop early: the most items of the first page. Later ones grow.
            backwards: whether the last item comes first.
        """
        request: Item = {"TableName": self._name, "KeyConditionExpression": condition, "ConsistentRead": True}
        if projection is not None:
            request["ProjectionExpression"] = projection
        if backwards:
            request["ScanIndexForward"] = False
        request |= expression(f"{condition} {projection or ''}", values)
        most = limit or first_page
        while True:
            if most is not None:
                request["Limit"] = most
                most = min(_GROWTH * most, _LARGEST_PAGE)
            answer = self._read(self._client.query, request)
            yield from answer["Items"]
            after = answer.get("LastEvaluatedKey")
            if after is None or limit is not None:
                return
            request["ExclusiveStartKey"] = after

    def query_slots(
        self,
        partition: str,
        prefix: str,
        first_slot: int,
        end_slot: int | None,
        *,
        after: str | None = None,
        **how: Any,
    ) -> Iterator[Item]:
        """Reads items whose sort key begins with a prefix and a slot of [first_slot, end_slot), as `query` does.

        Args:
            after: only items behind the one with this sort key, instead of `first_slot`.
        """
        first, last = slot_range(prefix, first_slot, end_slot)
        values = {"pk": partition, "first": first if after is None else f"{after} ", "last": last}
        return self.query("pk = :pk AND sk BETWEEN :first AND :last", values, **how)

    def query_filtered(
        self,
        condition: str,
        values: Mapping[str, Value],
        wanted: Callable[[], tuple[str, Mapping[str, Value]]],
        *,
        index: str | None = None,
        most_pages: int,
    ) -> Iterator[tuple[list[Item], int]]:
        """Yields the wanted items of each page, and how many items were read. Eventually consistent.

        The table filters. Items that are not wanted cost as much as the others, but are not sent.

        Args:
            condition: of the keys.
            values: values of the condition.
            wanted: returns the filter of the next page with its values. An empty filter wants all.
            index: the index to read. None: the table.
            most_pages: after these, the query ends.
        """
        request: Item = {"TableName": self._name, "KeyConditionExpression": condition}
        if index is not None:
            request["IndexName"] = index
        for _ in range(most_pages):
            text, others = wanted()
            filtered = {"FilterExpression": text} if text else {}
            page = {**request, **filtered, **expression(f"{condition} {text}", {**values, **others})}
            answer = self._read(self._client.query, page)
            yield answer["Items"], answer["ScannedCount"]
            after = answer.get("LastEvaluatedKey")
            if after is None:
                return
            request["ExclusiveStartKey"] = after

    def query_prefix(self, partition: str, prefix: str, *, projection: str | None = None) -> Iterator[Item]:
        """Reads a partition's items whose sort key has a prefix, in the order of the keys."""
        return self.query(
            f"{PARTITION_KEY} = :pk AND begins_with({SORT_KEY}, :prefix)",
            {"pk": partition, "prefix": prefix},
            projection=projection,
        )

    def _read(self, read: Callable[..., Any], request: Item) -> Any:
        for attempt in range(1, THROTTLED_ATTEMPTS):
            try:
                return read(**request)
            except ClientError as error:
                if error.response["Error"]["Code"] not in _THROTTLED:
                    raise
            self._sleep(_throttled_backoff_s(attempt))
        return read(**request)

    def put(self, put: Put, *, action: str, topic: str) -> bool:
        """Writes an item. Returns whether the condition held."""
        done, _ = self._conditional(self._client.put_item, put.request(self._name), action, topic)
        return done

    def put_or_get(self, put: Put, *, action: str, topic: str) -> Item | None:
        """Writes an item. Returns the existing item if the condition did not hold, else None."""
        request = put.request(self._name) | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        done, found = self._conditional(self._client.put_item, request, action, topic)
        assert done or found is not None
        return found

    def change(self, change: Change, *, action: str, topic: str) -> bool:
        """Changes an item in a single request. Returns whether the condition held."""
        done, _ = self._conditional(self._client.update_item, change.request(self._name), action, topic)
        return done

    def change_and_get(self, change: Change, *, action: str, topic: str) -> tuple[bool, Item | None]:
        """Changes an item. Returns whether the condition held, and the item after the change or refusal, if any."""
        returned = {"ReturnValues": "ALL_NEW", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        request = change.request(self._name) | returned
        return self._conditional(self._client.update_item, request, action, topic)

    def change_and_read(self, change: Change, decode: Callable[[Item], T], *, action: str, topic: str) -> T | None:
        """Changes an item. Returns the new value, or None if the condition did not hold."""
        done, item = self.change_and_get(change, action=action, topic=topic)
        return decode(item) if done and item is not None else None

    def _conditional(
        self, send: Callable[..., Any], request: Item, action: str, topic: str
    ) -> tuple[bool, Item | None]:
        """Returns whether the condition held, and the item of the answer or the refusal."""

        def call() -> tuple[bool, Item | None]:
            try:
                answer = send(**request)
            except self._client.exceptions.ConditionalCheckFailedException as error:
                refused: Item = dict(error.response)
                return False, refused.get("Item")
            return True, answer.get("Attributes")

        return self._retrying(call, action, topic)

    def delete(self, key: Key, *, action: str, topic: str, returns: bool = False) -> Item | None:
        """Deletes an item if present. Returns the old item if `returns`."""
        returned: Any = "ALL_OLD" if returns else "NONE"

        def call() -> Item | None:
            answer = self._client.delete_item(TableName=self._name, Key=key_item(key), ReturnValues=returned)
            return answer.get("Attributes")

        return self._retrying(call, action, topic)

    def commit(self, writes: Sequence[Write], *, action: str, topic: str) -> bool:
        """Does all writes or none. Returns whether all conditions held. A single put or change needs no transaction."""
        match writes:
            case [Change() as alone]:
                return self.change(alone, action=action, topic=topic)
            case [Put() as only]:
                return self.put(only, action=action, topic=topic)
        return not self.transact(writes, action=action, topic=topic)

    def transact(self, writes: Sequence[Write], *, action: str, topic: str) -> list[int]:
        """Does all writes or none, with a single TransactWriteItems.

        All tries have the same token. So a transaction whose response was lost takes effect once, and the repetition
        succeeds instead of conflicting with the first try.

        Returns:
            The positions of the writes whose conditions failed; empty if all writes were done.

        Raises:
            ConcurrentModification: other transactions came first each time.
        """
        items: list[Any] = [{_KINDS[type(write)]: write.request(self._name)} for write in writes]
        token = uuid.uuid4().hex

        def call() -> list[int]:
            try:
                self._client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            except self._client.exceptions.TransactionCanceledException as error:
                cancelled: Item = dict(error.response)
                codes = [reason.get("Code") for reason in cancelled.get("CancellationReasons", ())]
                if _CONDITION not in codes:
                    raise
                return [i for i, code in enumerate(codes) if code == _CONDITION]
            return []

        return self._retrying(call, action, topic)

    def _retrying(self, call: Callable[[], T], action: str, topic: str) -> T:
        throttled = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return call()
            except ClientError as error:
                codes = _codes(error)
                if not codes or not codes <= _LOST_RACES | _RETRIED:
                    raise
                throttled += bool(codes & _THROTTLED)
            if attempt == ATTEMPTS or throttled == THROTTLED_ATTEMPTS:
                break
            self._sleep(_throttled_backoff_s(throttled) if throttled else backoff_s(attempt))
        raise ConcurrentModification(action, topic, attempt)


class StoredItems:
    """The items of a kind, in a table."""

    def __init__(self, table: Table) -> None:
        self._table = table


@contextmanager
def unless_denied() -> Iterator[None]:
    """Ends the block where the caller's policy does not allow a request."""
    try:
        yield
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("AccessDenied"):
            raise


def backoff_s(attempt: int) -> float:
    """Returns a random wait before a try. The maximum doubles with each try."""
    return random.uniform(0, min(_MAX_BACKOFF_S, _BACKOFF_S * 2**attempt))


def _throttled_backoff_s(throttled: int) -> float:
    return random.uniform(0, _THROTTLED_BACKOFF_S * 2**throttled)


def _codes(error: ClientError) -> set[str]:
    """Returns the codes of an error: for a cancelled transaction, the codes of the refused writes."""
    answer: Item = dict(error.response)
    if answer["Error"]["Code"] != "TransactionCanceledException":
        return {answer["Error"]["Code"]}
    return {
        reason["Code"] for reason in answer.get("CancellationReasons", ()) if reason.get("Code") not in ("None", None)
    }
