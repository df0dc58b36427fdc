"""Counts what a local stack asks of AWS, and estimates the units that AWS would bill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

ItemBytes = Callable[[str, dict[str, Any]], int]

_SQS_CHUNK_BYTES = 64 * 1024
_WRITE_UNIT_BYTES = 1024
_READ_UNIT_BYTES = 4096
_S3_PUT_CLASS = ("Put", "Copy", "Post", "List", "CreateMultipart", "UploadPart", "CompleteMultipart")
_STARTS = {("lambda", "Invoke"), ("glue", "StartJobRun")}
_S3_FREE = ("Delete", "AbortMultipart")


def _unknown(_table: str, _key: dict[str, Any]) -> int:
    return 0


class Requests(Counter[str]):
    """Requests by "service.Operation", such as "dynamodb.TransactWriteItems"; `units` by kind of bill.

    Counted: calls by the stack's own functions and by `stack.client()`, function invocations ("lambda.Invoke"),
    schedules fired ("scheduler.Invoke"), job runs ("glue.StartJobRun"), and the polls of event source mappings, one
    ReceiveMessage and one DeleteMessageBatch an invocation. Not counted: what the local runtime does for itself, what
    a job does, and empty polls.

    Units, all estimates: "dynamodb.write", "dynamodb.read" (twice as many in transactions; an item of the wake index
    is one more), "sqs.request" (64 KiB each), "s3.put", "s3.get" (by request class), "lambda.invocation",
    "scheduler.invocation", "glue.run".
    """

    def __init__(self, item_bytes: ItemBytes | None = None) -> None:
        super().__init__()
        self.units: Counter[str] = Counter()
        self._item_bytes = item_bytes or (_unknown)

    def observe(self, service: str, operation: str, request: dict[str, Any], response_bytes: int) -> None:
        """Counts one call. What starts a function or a job is counted when that runs, and costs nothing itself."""
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

    def invoked(self, *, by_schedule: bool = False, received_bytes: int | None = None, deleted: bool = False) -> None:
        """Counts one function invocation and what brought it about.

        Args:
            by_schedule: a schedule fired it.
            received_bytes: an event source mapping received that much for it.
            deleted: the mapping deleted messages afterwards.
        """
        self["lambda.Invoke"] += 1
        self.units["lambda.invocation"] += 1
        if by_schedule:
            self["scheduler.Invoke"] += 1
            self.units["scheduler.invocation"] += 1
        if received_bytes is not None:
            self["sqs.ReceiveMessage"] += 1
            self.units["sqs.request"] += chunks(received_bytes)
        if deleted:
            self["sqs.DeleteMessageBatch"] += 1
            self.units["sqs.request"] += 1

    def ran_job(self) -> None:
        """Counts one run of a Glue job."""
        self["glue.StartJobRun"] += 1
        self.units["glue.run"] += 1

    def _observe_table(self, operation: str, request: dict[str, Any], response_bytes: int) -> None:
        if operation in ("PutItem", "UpdateItem", "DeleteItem"):
            self.units["dynamodb.write"] += self._write_units(request)
        elif operation == "TransactWriteItems":
            for entry in request["TransactItems"]:
                self.units["dynamodb.write"] += 2 * sum(self._write_units(part) for part in entry.values())
        elif operation == "BatchWriteItem":
            for table, entries in request["RequestItems"].items():
                for entry in entries:
                    part = next(iter(entry.values()))
                    self.units["dynamodb.write"] += self._write_units({"TableName": table, **part})
        elif operation in ("GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"):
            units = max(1, -(-response_bytes // _READ_UNIT_BYTES))
            if operation == "TransactGetItems":
                units = 2 * max(units, len(request["TransactItems"]))
            elif operation == "BatchGetItem":
                units = max(units, sum(len(part["Keys"]) for part in request["RequestItems"].values()))
            elif not request.get("ConsistentRead"):
                units = units / 2  # type: ignore[assignment]
            self.units["dynamodb.read"] += units

    def _write_units(self, part: dict[str, Any]) -> int:
        item: dict[str, Any] = part.get("Item") or {}
        size = self._item_bytes(part["TableName"], item or part.get("Key") or {})
        size = size or len(json.dumps(item))
        in_index = "look_at_ms" in item or "look_at_ms" in json.dumps(part.get("ExpressionAttributeNames") or {})
        in_index = in_index or "look_at_ms" in (part.get("UpdateExpression") or "")
        return max(1, -(-size // _WRITE_UNIT_BYTES)) + in_index


def chunks(payload_bytes: int) -> int:
    """Requests that SQS bills for a payload."""
    return max(1, -(-payload_bytes // _SQS_CHUNK_BYTES))
