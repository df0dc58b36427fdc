"""A table that is built like Tidewheel's answers like DynamoDB, from memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from tidewheel.local import LocalTidewheel

SORT_KEYS = [f"{kind}#{number:03}" for kind in ("A", "B", "BB", "C") for number in range(100)]


def make(client: Any, name: str, index: dict[str, str]) -> None:
    """Creates a table with the keys of Tidewheel's, and an index of the same name."""
    types = {"pk": "S", "sk": "S", **{each: "N" if each == "next_check_ms" else "S" for each in index}}
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": type} for each, type in types.items()],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "checks",
                "KeySchema": [{"AttributeName": each, "KeyType": kind} for each, kind in index.items()],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def test_another_index_with_the_name_of_ours_has_its_own_items() -> None:
    with LocalTidewheel() as stack:
        made = stack.session.client("dynamodb")
        make(made, "others", {"other": "HASH"})
        for number in range(3):
            item = {"pk": {"S": "p"}, "sk": {"S": str(number)}, "other": {"S": "o"}}
            made.put_item(TableName="others", Item=item, ReturnValues="ALL_OLD")
        answer = made.query(
            TableName="others",
            IndexName="checks",
            KeyConditionExpression="other = :o",
            ExpressionAttributeValues={":o": {"S": "o"}},
            Select="COUNT",
        )
        assert answer["Count"] == 3


def test_a_key_is_made_for_a_table_that_is_encrypted_and_for_no_other() -> None:
    with LocalTidewheel() as stack:
        assert stack.session.client("kms").list_keys()["Keys"] == []
        described = stack.session.client("dynamodb").create_table(
            TableName="users",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            SSESpecification={"Enabled": True, "SSEType": "KMS"},
        )
        [key] = stack.session.client("kms").list_keys()["Keys"]
        assert described["TableDescription"]["SSEDescription"]["KMSMasterKeyArn"] == key["KeyArn"]


@pytest.fixture(scope="module", params=["in the process", "over HTTP"])
def service(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of this process's stack, which answers some operations without moto, or another program's client."""
    with LocalTidewheel() as stack:
        if request.param == "in the process":
            yield stack.session.client("dynamodb")
        else:
            session = boto3.Session(aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1")
            yield session.client("dynamodb", endpoint_url=stack.endpoint_url)


@pytest.fixture
def client(service: Any) -> Iterator[Any]:
    """A client, and the table `mine`."""
    others = {*service.list_tables()["TableNames"]}
    make(service, "mine", {"check_shard": "HASH", "next_check_ms": "RANGE"})
    keys = [("q", "B#000"), *(("p", sort_key) for sort_key in reversed(SORT_KEYS))]  # not in their order
    puts = [{"Put": {"TableName": "mine", "Item": {"pk": {"S": pk}, "sk": {"S": sk}}}} for pk, sk in keys]
    for first in range(0, len(puts), 100):
        service.transact_write_items(TransactItems=puts[first : first + 100])
    yield service
    for name in {*service.list_tables()["TableNames"]} - others:
        service.delete_table(TableName=name)


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


def test_a_read_that_memory_does_not_know_is_answered_from_a_copy(client: Any) -> None:
    backwards = client.query(
        TableName="mine",
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": {"S": "p"}},
        ScanIndexForward=False,
    )
    assert [each["sk"]["S"] for each in backwards["Items"]] == SORT_KEYS[::-1]
    keys = [{"pk": {"S": "p"}, "sk": {"S": sort_key}} for sort_key in ("A#000", "absent")]
    answer = client.batch_get_item(RequestItems={"mine": {"Keys": keys}})
    assert [each["sk"]["S"] for each in answer["Responses"]["mine"]] == ["A#000"]
    client.delete_item(TableName="mine", Key=keys[0])
    assert client.batch_get_item(RequestItems={"mine": {"Keys": keys}})["Responses"]["mine"] == []


def test_a_write_that_memory_does_not_know_is_refused(client: Any) -> None:
    with pytest.raises(client.exceptions.ClientError, match="not emulated for Tidewheel's table"):
        client.put_item(TableName="mine", Item={"pk": {"S": "p"}, "sk": {"S": "A#000"}}, ReturnValues="ALL_OLD")
    with pytest.raises(client.exceptions.ClientError, match="not emulated for Tidewheel's table"):
        client.execute_statement(Statement="DELETE FROM \"mine\" WHERE pk = 'p' AND sk = 'A#000'")


def test_a_backup_holds_the_items_and_a_restored_table_has_them(client: Any) -> None:
    backup = client.create_backup(TableName="mine", BackupName="backup")["BackupDetails"]["BackupArn"]
    client.delete_item(TableName="mine", Key={"pk": {"S": "q"}, "sk": {"S": "B#000"}})
    client.restore_table_from_backup(TargetTableName="then", BackupArn=backup)
    client.restore_table_to_point_in_time(SourceTableName="mine", TargetTableName="now", UseLatestRestorableTime=True)
    counts = [client.scan(TableName=each)["Count"] for each in ("then", "now", "mine")]
    assert counts == [len(SORT_KEYS) + 1, len(SORT_KEYS), len(SORT_KEYS)]


def test_bytes_and_refusals_come_as_from_dynamodb(client: Any) -> None:
    key = {"pk": {"S": "p"}, "sk": {"S": "A#000"}}
    client.put_item(TableName="mine", Item={**key, "data": {"B": b"\x00\xff"}})
    assert client.get_item(TableName="mine", Key=key)["Item"]["data"] == {"B": b"\x00\xff"}
    absent = {"ConditionExpression": "attribute_not_exists(pk)"}
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as refused:
        client.put_item(TableName="mine", Item=key, ReturnValuesOnConditionCheckFailure="ALL_OLD", **absent)
    assert refused.value.response["Item"]["data"] == {"B": b"\x00\xff"}
    with pytest.raises(client.exceptions.TransactionCanceledException) as cancelled:
        client.transact_write_items(TransactItems=[{"Put": {"TableName": "mine", "Item": key, **absent}}])
    assert [each["Code"] for each in cancelled.value.response["CancellationReasons"]] == ["ConditionalCheckFailed"]


def test_tables_of_users_are_written_and_read_by_any_keys(client: Any) -> None:
    client.create_table(
        TableName="users",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName="users", Item={"id": {"S": "a"}})
    client.batch_write_item(RequestItems={"users": [{"PutRequest": {"Item": {"id": {"S": "b"}}}}]})
    ours = {"Keys": [{"pk": {"S": "q"}, "sk": {"S": "B#000"}}]}
    both = client.batch_get_item(RequestItems={"users": {"Keys": [{"id": {"S": "b"}}]}, "mine": ours})["Responses"]
    assert {name: len(found) for name, found in both.items()} == {"users": 1, "mine": 1}
    with pytest.raises(client.exceptions.ClientError, match="not emulated for Tidewheel's table"):
        writes = [("users", {"id": {"S": "c"}}), ("mine", {"pk": {"S": "p"}, "sk": {"S": "x"}})]
        client.transact_write_items(TransactItems=[{"Put": {"TableName": name, "Item": item}} for name, item in writes])


def test_a_table_named_by_its_arn_is_read_and_a_write_to_it_is_not_lost(client: Any) -> None:
    arn = client.describe_table(TableName="mine")["Table"]["TableArn"]
    assert client.scan(TableName=arn, Select="COUNT")["Count"] == len(SORT_KEYS) + 1
    with pytest.raises(client.exceptions.ClientError, match="not emulated for Tidewheel's table"):
        client.put_item(TableName=arn, Item={"pk": {"S": "p"}, "sk": {"S": "A#000"}})


def test_an_expression_that_memory_does_not_know_is_read_by_moto(client: Any) -> None:
    values = {":p": {"S": "q"}, ":s": {"S": "B#000"}}
    condition = "(pk = :p AND sk = :s)"  # as boto3's resources write it
    answer = client.query(TableName="mine", KeyConditionExpression=condition, ExpressionAttributeValues=values)
    assert answer["Count"] == 1


@pytest.mark.parametrize(
    ("update", "value"),
    [
        ("SET a = :v SET b = :v", {"S": "x"}),
        ("SET a = :v REMOVE a", {"S": "x"}),
        ("ADD a :v", {"S": "x"}),
        ("SET a = :v", {"N": "x"}),
        ("SET next_check_ms = :v", {"S": "x"}),
    ],
)
def test_an_update_that_dynamodb_refuses_changes_nothing(client: Any, update: str, value: Any) -> None:
    key = {"pk": {"S": "q"}, "sk": {"S": "B#000"}}
    with pytest.raises(client.exceptions.ClientError, match="ValidationException"):
        client.update_item(TableName="mine", Key=key, UpdateExpression=update, ExpressionAttributeValues={":v": value})
    assert client.get_item(TableName="mine", Key=key)["Item"] == key
