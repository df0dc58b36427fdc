"""Counts a local stack's requests to AWS, and estimates the billed units."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tidewheel.storage.table_keys import CHECK_SORT_KEY, PARTITION_KEY, SORT_KEY

ItemBytes = Callable[[str, dict[str, Any]], int]

_SQS_CHUNK_BYTES = 64 * 1024
_WRITE_UNIT_BYTES = 1024
_READ_UNIT_BYTES = 4096
_RECEIVED_AT_ONCE = 10
"""Limit of messages in a ReceiveMessage or DeleteMessageBatch."""
_S3_PUT_CLASS = ("Put", "Copy", "Post", "List", "CreateMultipart", "UploadPart", "CompleteMultipart")
_STARTS = {("lambda", "Invoke"), ("glue", "StartJobRun")}
_S3_FREE = ("Delete", "AbortMultipart")


class Requests(Counter[str]):
    """Counts requests by "service.Operation", such as "dynamodb.TransactWriteItems". `units` counts billed units.

    Counted: calls by the stack's functions and clients, function invocations ("lambda.Invoke"),
    schedules fired ("scheduler.Invoke"), job runs ("glue.StartJobRun"), and the polls of event source mappings, with
    one ReceiveMessage and one DeleteMessageBatch for ten messages. With the real clock, requests at the endpoint are
    counted, too. Not counted: the local runtime's own requests, with the virtual clock those of jobs, and empty polls.

    Units, all estimates: "dynamodb.write" (twice as many in transactions), "dynamodb.read", "sqs.request" (64 KiB
    each), "s3.put", "s3.get" (by request class), "lambda.invocation", "scheduler.invocation", "glue.run". An item
    that enters or leaves the index of checks costs one more write; an item whose place in the index changes costs two.
    """

    def __init__(self, item_bytes: ItemBytes = lambda _, __: 0) -> None:
        super().__init__()
        self.units: Counter[str] = Counter()
        self._item_bytes = item_bytes
        self._indexed: set[tuple[str, str, str]] = set()

    def observe(self, service: str, operation: str, request: dict[str, Any], response_bytes: int) -> None:
        """Counts a call. Calls that start a function or job are counted when it runs."""
        if (service, operation) in _STARTS:
            return
        self[f"{service}.{operation}"] += 1
        if service == "sqs":
            body = request["body"] or b""
            self.units["sqs.request"] += chunks(max(len(body), response_bytes))
        elif service == "s3":
            if not operation.startswith(_S3_FREE):
                self.units["s3.put" if operation.startswith(_S3_PUT_CLASS) else "s3.get"] += 1
        elif service == "dynamodb":
            self._observe_table(operation, json.loads(request["body"] or b"{}"), response_bytes)

    def invoked(self, *, by_schedule: bool = False, received: Sequence[int] = (), deleted: int = 0) -> None:
        """Counts a function invocation and its trigger.

        Args:
            by_schedule: a schedule fired it.
            received: bytes of each message that an event source mapping received for it.
            deleted: messages that the mapping deleted afterwards.
        """
        self["lambda.Invoke"] += 1
        self.units["lambda.invocation"] += 1
        if by_schedule:
            self["scheduler.Invoke"] += 1
            self.units["scheduler.invocation"] += 1
        for first in range(0, len(received), _RECEIVED_AT_ONCE):
            self["sqs.ReceiveMessage"] += 1
            self.units["sqs.request"] += chunks(sum(received[first : first + _RECEIVED_AT_ONCE]))
        if deleted:
            batches = -(-deleted // _RECEIVED_AT_ONCE)
            self["sqs.DeleteMessageBatch"] += batches
            self.units["sqs.request"] += batches

    def ran_job(self) -> None:
        """Counts a run of a Glue job."""
        self["glue.StartJobRun"] += 1
        self.units["glue.run"] += 1

    def _observe_table(self, operation: str, request: dict[str, Any], response_bytes: int) -> None:
        if operation in ("PutItem", "UpdateItem", "DeleteItem"):
            self.units["dynamodb.write"] += self._write_units(request) + self._index_units(request)
        elif operation == "TransactWriteItems":
            for entry in request["TransactItems"]:
                [(verb, part)] = entry.items()
                # The index is updated later, outside the transaction.
                index_units = 0 if verb == "ConditionCheck" else self._index_units(part)
                self.units["dynamodb.write"] += 2 * self._write_units(part) + index_units
        elif operation == "BatchGetItem":  # of small items
            keys = sum(len(part["Keys"]) for part in request["RequestItems"].values())
            self.units["dynamodb.read"] += max(keys, -(-response_bytes // _READ_UNIT_BYTES))
        elif operation in ("GetItem", "Query", "Scan"):
            units = max(1, -(-response_bytes // _READ_UNIT_BYTES))
            self.units["dynamodb.read"] += units if request.get("ConsistentRead") else units / 2  # type: ignore[assignment]

    def _write_units(self, part: dict[str, Any]) -> int:
        item: dict[str, Any] = part.get("Item") or {}
        size = self._item_bytes(part["TableName"], item or part.get("Key") or {})
        size = size or len(json.dumps(item))
        return max(1, -(-size // _WRITE_UNIT_BYTES))

    def _index_units(self, part: dict[str, Any]) -> int:
        """Returns the writes to the index of checks for a put, update or delete.

        Leaving a place costs one write, and taking a place another.
        """
        named: dict[str, Any] = part.get("Item") or part["Key"]
        if not named.keys() >= {PARTITION_KEY, SORT_KEY}:  # of a user's table
            return 0
        item = (part["TableName"], *(next(iter(named[name].values())) for name in (PARTITION_KEY, SORT_KEY)))
        before = item in self._indexed
        if "UpdateExpression" in part:
            sets, removes = _clauses(part)
            if CHECK_SORT_KEY not in sets and CHECK_SORT_KEY not in removes:
                return 0
            after = CHECK_SORT_KEY in sets
        else:
            after = CHECK_SORT_KEY in (part.get("Item") or {})
        (self._indexed.add if after else self._indexed.discard)(item)
        return before + after


def _clauses(update: dict[str, Any]) -> tuple[str, str]:
    """Returns the clauses SET and REMOVE of an update, with the attributes' own names."""
    expression: str = update["UpdateExpression"]
    for placeholder, name in (update.get("ExpressionAttributeNames") or {}).items():
        expression = expression.replace(placeholder, name)
    sets, _, removes = expression.partition("REMOVE ")
    return sets, removes.partition("ADD ")[0]


def chunks(payload_bytes: int) -> int:
    """Returns the number of requests that SQS bills for a payload."""
    return max(1, -(-payload_bytes // _SQS_CHUNK_BYTES))
