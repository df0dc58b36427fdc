"""Conflicts and lost answers as seen by botocore and the adapter."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.contract.aws_resources import client
from tests.independent.network import Network, _Body


@dataclass
class Server:
    """A server that accepts every request, and calls `during` in the middle of a request."""

    during: Callable[[], None] = lambda: None
    bodies: list[Any] = field(default_factory=list)

    def send(self, request: Any) -> AWSResponse:
        self.bodies.append(json.loads(request.body))
        self.during()
        return AWSResponse(request.url, 200, {}, _Body(b"{}"))


def connected(server: Server, **odds: float) -> tuple[Any, Network]:
    dynamodb = client("dynamodb", retries={"mode": "standard", "total_max_attempts": 3})
    network = Network.before(dynamodb, **odds)
    network.session = server
    return dynamodb, network


def put(dynamodb: Any, key: str) -> None:
    dynamodb.put_item(TableName="t", Item=an_item(key))


def transact(dynamodb: Any, *keys: str) -> None:
    dynamodb.transact_write_items(TransactItems=[{"Put": {"TableName": "t", "Item": an_item(key)}} for key in keys])


def an_item(key: str) -> dict[str, Any]:
    return {"pk": {"S": "T#orders"}, "sk": {"S": key}}


def beside(server: Server, first: Callable[[], None], second: Callable[[], None]) -> None:
    """Makes the second call while the first is under way."""
    errors: list[Exception] = []

    def during() -> None:
        server.during = lambda: None
        thread = threading.Thread(target=caught)
        thread.start()
        thread.join()

    def caught() -> None:
        try:
            second()
        except Exception as error:
            errors.append(error)

    server.during = during
    first()
    if errors:
        raise errors[0]


def test_a_transaction_that_meets_another_is_cancelled_with_a_conflict() -> None:
    server = Server()
    dynamodb, network = connected(server)
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as error:
        beside(server, lambda: transact(dynamodb, "a", "b"), lambda: transact(dynamodb, "c", "b"))
    codes = [reason["Code"] for reason in error.value.response["CancellationReasons"]]
    assert codes == ["None", "TransactionConflict"]
    assert (len(server.bodies), network.counts["TransactionConflict"]) == (1, 1)
    transact(dynamodb, "c", "b")
    assert len(server.bodies) == 2


def test_a_write_that_meets_a_transaction_is_refused_and_the_other_way_round() -> None:
    server = Server()
    dynamodb, _ = connected(server)
    with pytest.raises(ClientError, match="TransactionConflictException"):
        beside(server, lambda: transact(dynamodb, "a"), lambda: put(dynamodb, "a"))
    with pytest.raises(ClientError, match="TransactionCanceledException"):
        beside(server, lambda: put(dynamodb, "a"), lambda: transact(dynamodb, "a"))
    assert len(server.bodies) == 2


def test_a_transaction_whose_answer_is_lost_comes_again_with_the_same_token() -> None:
    server = Server()
    dynamodb, network = connected(server, lost=1.0)
    with pytest.raises(ConnectionClosedError):
        transact(dynamodb, "a")
    assert len(server.bodies) == 3
    assert len({body["ClientRequestToken"] for body in server.bodies}) == 1
    assert network.counts["answer lost"] == 3


def test_a_request_that_is_lost_never_comes_to_the_server() -> None:
    server = Server()
    dynamodb, network = connected(server, unsent=1.0)
    with pytest.raises(ConnectionClosedError):
        put(dynamodb, "a")
    assert (server.bodies, network.counts["request lost"]) == ([], 3)
