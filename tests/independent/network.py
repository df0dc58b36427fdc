"""Injects DynamoDB's conflicts and lost answers between botocore and a server without such faults.

DynamoDB refuses a write whose item a transaction under way has, and a transaction that meets any other write under way.
DynamoDB Local lets the second one wait. So `Network` refuses it before it is sent, with DynamoDB's own answer.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError

_SINGLE = ("PutItem", "UpdateItem", "DeleteItem")
_TRANSACTION = "TransactWriteItems"


class _Body:
    """An answer's body with urllib3's interface."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> Iterator[bytes]:
        yield self._data


@dataclass
class Network:
    """Replaces the HTTP session of a botocore client.

    Args:
        session: botocore's.
        lost: how likely an answer is lost after the server has done what was asked.
        unsent: how likely a request is lost before the server gets it.
        random: decides both.

    Attributes:
        counts: requests by operation, refusals by their error code, and what was lost.
    """

    session: Any
    lost: float = 0.0
    unsent: float = 0.0
    random: random.Random = field(default_factory=random.Random)
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: Counter[tuple[str, str]] = field(default_factory=Counter)
    _transacted: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def before(cls, client: Any, **odds: Any) -> Network:
        """Inserts a network between a boto3 client and the server."""
        network = cls(session=client._endpoint.http_session, **odds)
        client._endpoint.http_session = network
        return network

    def close(self) -> None:
        """Closes botocore's session."""
        self.session.close()

    def calm(self) -> None:
        """Loses nothing more."""
        self.lost = self.unsent = 0.0

    def send(self, request: Any) -> Any:
        """Sends a request, refuses it, or loses the request or the answer."""
        operation = request.headers["X-Amz-Target"]
        operation = (operation.decode() if isinstance(operation, bytes) else operation).rpartition(".")[2]
        keys = _written(operation, json.loads(request.body))
        with self._lock:
            self.counts[operation] += 1
            fate = self.random.random()
        if fate < self.unsent:
            raise self._lost("request lost", request)
        if met := self._begin(operation, keys):
            return self._refused(request, operation, [key in met for key in keys])
        try:
            answer = self.session.send(request)
        finally:
            self._end(operation, keys)
        if answer.status_code != 200:
            self._note(answer)
        if keys and fate > 1 - self.lost:
            raise self._lost("answer lost", request)
        return answer

    def _begin(self, operation: str, keys: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Begins a write. Returns the items in conflict with other writes, and does not begin if there are any."""
        with self._lock:
            met = set(keys) & (self._busy.keys() if operation == _TRANSACTION else self._transacted)
            if not met:
                self._busy.update(keys)
            if not met and operation == _TRANSACTION:
                self._transacted.update(keys)
            return met

    def _end(self, operation: str, keys: list[tuple[str, str]]) -> None:
        with self._lock:
            self._busy.subtract(keys)
            self._busy += Counter()
            if operation == _TRANSACTION:
                self._transacted.difference_update(keys)

    def _refused(self, request: Any, operation: str, met: list[bool]) -> AWSResponse:
        with self._lock:
            self.counts["TransactionConflict"] += 1
        code = "TransactionConflictException"
        document: dict[str, Any] = {"message": "Transaction is ongoing for the item"}
        if operation == _TRANSACTION:
            code = "TransactionCanceledException"
            document["CancellationReasons"] = [{"Code": "TransactionConflict" if each else "None"} for each in met]
        document["__type"] = f"com.amazonaws.dynamodb.v20120810#{code}"
        return AWSResponse(request.url, 400, {"x-amzn-RequestId": "none"}, _Body(json.dumps(document).encode()))

    def _note(self, answer: Any) -> None:
        document = json.loads(answer.content)
        codes = {reason.get("Code") for reason in document.get("CancellationReasons", ())} - {"None", None}
        with self._lock:
            self.counts.update(codes or {document["__type"].rpartition("#")[2].removesuffix("Exception")})

    def _lost(self, what: str, request: Any) -> Exception:
        with self._lock:
            self.counts[what] += 1
        return ConnectionClosedError(endpoint_url=request.url)


def _written(operation: str, body: Any) -> list[tuple[str, str]]:
    """Returns the keys of the items written or checked by a request."""
    if operation in _SINGLE:
        return [_key(body.get("Key") or body["Item"])]
    if operation != _TRANSACTION:
        return []
    writes = [write for item in body["TransactItems"] for write in item.values()]
    return [_key(write.get("Key") or write["Item"]) for write in writes]


def _key(item: Any) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]
