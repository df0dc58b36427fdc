"""A DynamoDB client that compares each answer and refusal with the client in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tidewheel.memory.dynamodb import MemoryDynamoDBClient

_OPERATIONS = (
    "get_item",
    "batch_get_item",
    "query",
    "put_item",
    "update_item",
    "delete_item",
    "transact_write_items",
)
_FIELDS = ("Item", "Items", "Responses", "Attributes", "Count", "ScannedCount")
"""Not LastEvaluatedKey: moto names none after a last page that is full."""


class ComparedClient:
    """Passes each request to a client of moto, of DynamoDB Local or of AWS, and to a client in memory.

    Args:
        dynamodb: boto3's client, whose answers are returned.
        table: the name of its table, which is empty.
    """

    def __init__(self, dynamodb: Any, table: str) -> None:
        self.memory = MemoryDynamoDBClient(table)
        self.exceptions = dynamodb.exceptions
        for name in _OPERATIONS:
            setattr(self, name, self._comparing(name, getattr(dynamodb, name), getattr(self.memory, name)))

    def _comparing(self, name: str, ask: Callable[..., Any], ask_memory: Callable[..., Any]) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            if "IndexName" in request:
                _compare_all_pages(name, request, ask, ask_memory)
                return ask(**request)
            answer, error = _outcome(ask, request)
            remembered, refused = _outcome(ask_memory, request)
            _same(name, request, _refusal(refused), _refusal(error))
            if error is not None:
                old, expected = (dict(each.response).get("Item") for each in (refused, error))
                if expected is not None:  # moto tells no item that refuses a put
                    _same(name, request, _plain(old), _plain(expected))
                raise error
            _same(
                name,
                request,
                *({key: _field(key, each[key]) for key in _FIELDS if key in each} for each in (remembered, answer)),
            )
            return answer

        return call


def _outcome(ask: Callable[..., Any], request: Mapping[str, Any]) -> tuple[Any, Any]:
    try:
        return ask(**request), None
    except ClientError as error:
        return None, error


def _compare_all_pages(
    name: str, request: dict[str, Any], ask: Callable[..., Any], ask_memory: Callable[..., Any]
) -> None:
    """Compares the contents of all pages. Partitions and items with equal sort keys come in any order."""
    whole = {key: value for key, value in request.items() if key not in ("Limit", "ExclusiveStartKey")}
    found, remembered = ask(**whole), ask_memory(**whole)
    _same(name, whole, *(sorted(map(repr, map(_plain, each["Items"]))) for each in (remembered, found)))
    _same(name, whole, remembered["ScannedCount"], found["ScannedCount"])


def _refusal(error: Any) -> Any:
    if error is None:
        return None
    answer: Any = dict(error.response)
    return answer["Error"]["Code"], [each.get("Code") for each in answer.get("CancellationReasons", ())]


def _field(name: str, value: Any) -> Any:
    """Returns a field of an answer. A batch has its items in any order."""
    if name != "Responses":
        return _plain(value)
    return {table: sorted(map(repr, map(_plain, items))) for table, items in value.items()}


def _plain(value: Any) -> Any:
    """Returns a value with maps and sets in an order."""
    if isinstance(value, Mapping):
        return {key: sorted(each) if key in ("NS", "SS") else _plain(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _same(name: str, request: Any, remembered: Any, expected: Any) -> None:
    assert remembered == expected, f"{name}({request}): in memory {remembered}, elsewhere {expected}"
