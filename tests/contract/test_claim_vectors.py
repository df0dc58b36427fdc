"""Tests the two writes of a claim by docs/vectors.json, which checks consumers in other languages too."""

from __future__ import annotations

import json
import shlex
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import botocore.session
import pytest
from botocore.validate import validate_parameters

from tests.contract.builders import a_state
from tests.docs.recipe import ROOT
from tidewheel.client.worker.claiming import Claimed, claim
from tidewheel.clock import ManualClock
from tidewheel.cost.figures import ASSUMED
from tidewheel.flows.delivery.cancel import cancel_late
from tidewheel.memory import MemoryDynamoDBClient, MemoryObjects
from tidewheel.model.message import MessageId
from tidewheel.model.received import ReceivedMessage, parse_received
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import tombstone
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

TABLE = "service"
VECTORS: dict[str, list[dict[str, Any]]] = json.loads((ROOT / "docs" / "vectors.json").read_text())
MODEL = botocore.session.get_session().get_service_model("dynamodb").operation_model("UpdateItem")
OUTCOMES = {Claimed.MINE: "claimed", Claimed.CANCELLED: "refused", Claimed.SPENT: "dead-letter queue"}


def named(vector: dict[str, Any]) -> str:
    return str(vector["name"])


class World:
    """A table with a topic and perhaps a claim, which remembers the writes of claims."""

    def __init__(self, vector: dict[str, Any]) -> None:
        self.dynamodb = MemoryDynamoDBClient(TABLE)
        self.asked: list[dict[str, Any]] = []
        self.storage = Storage(Table(cast("Any", self), TABLE), MemoryObjects())
        self.state = a_state(vector["topic"], settings=TopicSettings(claims="all"))
        self.storage.topic_states.create(self.state)
        self.key = {"pk": {"S": f"T#{vector['topic']}#CLAIM#{id_of(vector)}"}, "sk": {"S": "CLAIM"}}
        if vector["before"]:
            self.dynamodb.put_item(TableName=TABLE, Item=self.key | vector["before"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dynamodb, name)

    def update_item(self, **request: Any) -> Any:
        self.asked.append(request)
        validate_parameters(request, MODEL.input_shape)
        return self.dynamodb.update_item(**request)

    @property
    def item(self) -> dict[str, Any]:
        item = self.dynamodb.get_item(TableName=TABLE, Key=self.key).get("Item", {})
        return {name: value for name, value in item.items() if name not in self.key}


def id_of(vector: dict[str, Any]) -> MessageId:
    return MessageId(vector["id"] if "id" in vector else json.loads(vector["header"])["id"])


def received(vector: dict[str, Any]) -> ReceivedMessage:
    header = {"DataType": "String", "StringValue": vector["header"]}
    counted = {"ApproximateReceiveCount": str(vector["receives"])}
    raw = {"MessageId": "m", "ReceiptHandle": "r", "Body": "x", "MessageAttributes": {"tidewheel": header}}
    return parse_received(raw | {"Attributes": counted})


def expected(vector: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"TableName": TABLE, **vector["request"]}] if vector["request"] else []


@pytest.mark.parametrize("vector", VECTORS["claims"], ids=named)
def test_a_claim_makes_the_request_of_its_vector(vector: dict[str, Any]) -> None:
    world = World(vector)
    message = received(vector)
    core: Any = SimpleNamespace(
        connection=SimpleNamespace(storage=world.storage),
        clock=ManualClock(vector["now_ms"]),
        begun={(vector["topic"], vector["subscription"]): (True, inf, message.claim)},  # it was said before
    )
    outcome = claim(core, vector["topic"], vector["subscription"], message, vector["now_ms"])
    assert (world.asked, OUTCOMES[outcome], world.item) == (expected(vector), vector["outcome"], vector["after"])


@pytest.mark.parametrize("vector", VECTORS["cancels"], ids=named)
def test_a_late_cancel_makes_the_request_of_its_vector(vector: dict[str, Any]) -> None:
    world, to = World(vector), vector.get("to")
    wanted = tombstone(id_of(vector), world.state.slot_ms, vector["now_ms"], to=to and MessageId(to))
    found = cancel_late(world.storage, world.state, wanted, vector["now_ms"])
    outcome = "refused" if found.to != to or not found.cancelled else "cancelled"
    assert (world.asked, outcome, world.item) == (expected(vector), vector["outcome"], vector["after"])


def test_the_claim_of_a_message_takes_about_the_bytes_that_a_bill_assumes() -> None:
    world = World(VECTORS["claims"][1])
    index_bytes = 100  # DynamoDB's own for each item that it stores
    assert world.dynamodb.item_bytes(world.key) + index_bytes == pytest.approx(ASSUMED["claim_bytes"], rel=0.1)


def test_the_command_of_the_page_claims_as_the_first_vector() -> None:
    page = (ROOT / "docs" / "other-languages.md").read_text(encoding="utf-8").replace("\\\n", "")
    command = shlex.split(next(each for each in page.splitlines() if each.startswith("aws dynamodb update-item")))
    options = dict(zip(command[3::2], command[4::2], strict=True))
    vector = VECTORS["claims"][0]
    header = json.loads(vector["header"])
    filled = {
        name: value.replace("<id>", header["id"])
        .replace("<claim>", header["claim"])
        .replace("<now>", str(vector["due_ms"] // 1000))
        .replace("<28 days after now>", str(vector["due_ms"] // 1000 + 28 * 86_400))
        for name, value in options.items()
    }
    world = World(vector)
    names, values = (json.loads(filled[f"--expression-attribute-{each}"]) for each in ("names", "values"))
    world.dynamodb.update_item(
        TableName=TABLE,
        Key=json.loads(filled["--key"]),
        UpdateExpression=filled["--update-expression"],
        ConditionExpression=filled["--condition-expression"],
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
    )
    assert world.item == vector["after"]


def test_the_vectors_have_every_outcome() -> None:
    assert {each["outcome"] for each in VECTORS["claims"]} == set(OUTCOMES.values())
    assert {each["outcome"] for each in VECTORS["cancels"]} == {"cancelled", "refused"}
