"""The emulated table answers like DynamoDB, and a query reads only the items in its range."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType

from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator import REGION

SORT_KEYS = [f"{kind}#{number:03}" for kind in ("A", "B", "BB", "C") for number in range(100)]


@pytest.fixture
def client() -> Iterator[Any]:
    with LocalTidewheel() as stack:
        made = stack.session.client("dynamodb")
        made.create_table(
            TableName="mine",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk", "other")],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "checks",
                    "KeySchema": [{"AttributeName": "other", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        for sort_key in reversed(SORT_KEYS):  # not in their order
            made.put_item(TableName="mine", Item={"pk": {"S": "p"}, "sk": {"S": sort_key}, "other": {"S": "o"}})
        made.put_item(TableName="mine", Item={"pk": {"S": "q"}, "sk": {"S": "B#000"}})
        yield made


def found(client: Any, condition: str, **values: str) -> list[str]:
    answer = client.query(
        TableName="mine",
        KeyConditionExpression=f"pk = :p AND {condition}",
        ExpressionAttributeValues={":p": {"S": "p"}, **{f":{name}": {"S": each} for name, each in values.items()}},
    )
    return [item["sk"]["S"] for item in answer["Items"]]


def test_each_comparison_of_sort_keys_finds_what_dynamodb_finds(client: Any) -> None:
    client.delete_item(TableName="mine", Key={"pk": {"S": "p"}, "sk": {"S": "B#050"}})
    client.delete_item(TableName="mine", Key={"pk": {"S": "p"}, "sk": {"S": "absent"}})
    keys = [each for each in SORT_KEYS if each != "B#050"]
    assert found(client, "begins_with(sk, :a)", a="B#") == [each for each in keys if each.startswith("B#")]
    assert found(client, "begins_with(sk, :a)", a="B") == [each for each in keys if each.startswith("B")]
    assert found(client, "begins_with(sk, :a)", a="D") == []
    assert found(client, "sk BETWEEN :a AND :b", a="B#049", b="BB#001") == [
        each for each in keys if "B#049" <= each <= "BB#001"
    ]
    assert found(client, "sk BETWEEN :a AND :b", a="0", b="~") == keys
    assert found(client, "sk < :a", a="A#002") == ["A#000", "A#001"]
    assert found(client, "sk >= :a", a="C#098") == ["C#098", "C#099"]
    assert found(client, "sk = :a", a="C#098") == ["C#098"]


def test_a_query_looks_at_no_items_outside_its_range(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    compare = DynamoType.compare

    def counted(self: DynamoType, *args: Any) -> bool:
        looked_at.append(self.value)
        return compare(self, *args)

    monkeypatch.setattr(DynamoType, "compare", counted)
    assert len(found(client, "begins_with(sk, :a)", a="C#09")) == 10
    assert len(looked_at) <= 25  # by the range, and once more by moto


def test_a_copied_table_has_the_same_items_in_the_same_order(client: Any) -> None:
    table = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables["mine"]
    table.items = copy.deepcopy(table.items)  # as a restore does
    client.put_item(TableName="mine", Item={"pk": {"S": "p"}, "sk": {"S": "B#0505"}})
    assert found(client, "begins_with(sk, :a)", a="B#05")[:3] == ["B#050", "B#0505", "B#051"]


def test_another_index_with_the_name_of_ours_has_its_own_items(client: Any) -> None:
    answer = client.query(
        TableName="mine",
        IndexName="checks",
        KeyConditionExpression="other = :o",
        ExpressionAttributeValues={":o": {"S": "o"}},
        Select="COUNT",
    )
    assert answer["Count"] == len(SORT_KEYS)
