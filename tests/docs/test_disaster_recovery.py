"""Runs the recovery procedures of docs/disaster-recovery.md on the local stack."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.docs.shell import commands
from tests.flows.alone import local_engine
from tidewheel.aws.service import Service
from tidewheel.errors import InvalidValue
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.settings import ServiceSettings, TopicSettings, parameter_name

pytestmark = pytest.mark.long

TOPIC, READER = "orders", "billing"
Item = dict[str, Any]


def service_of(stack: LocalTidewheel) -> Service:
    text = stack.session.client("ssm").get_parameter(Name=parameter_name(stack.stack_name))["Parameter"]["Value"]
    return Service.of(ServiceSettings.from_json(text, "ssm"), stack.session, stack.clock)


def dry_run(stack: LocalTidewheel) -> RebuildReport:
    service = service_of(stack)
    return audit(service, TOPIC, local_engine(service))


def rebuilt(stack: LocalTidewheel, **options: Any) -> RebuildReport:
    service = service_of(stack)
    return rebuild(service, TOPIC, local_engine(service), lease_s=60, **options)


def send(stack: LocalTidewheel, name: str, delays_h: range) -> Counter[str]:
    bodies = [f"{name} {hours}" for hours in delays_h]
    messages = [Message(body=body, delay=f"{hours}h") for body, hours in zip(bodies, delays_h, strict=True)]
    stack.client().send_many(TOPIC, messages)
    stack.advance(minutes=10)
    return Counter(bodies)


def received(stack: LocalTidewheel) -> Counter[str]:
    return Counter(message.body for message in stack.receive(TOPIC, READER))


def outputs(stack: LocalTidewheel) -> dict[str, str]:
    [found] = stack.session.client("cloudformation").describe_stacks(StackName=stack.stack_name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}


def table_of(stack: LocalTidewheel) -> str:
    return outputs(stack)["TableName"]


def items(stack: LocalTidewheel) -> list[Item]:
    pages = stack.session.client("dynamodb").get_paginator("scan").paginate(TableName=table_of(stack))
    return [item for page in pages for item in page["Items"]]


def replace_items(stack: LocalTidewheel, restored: list[Item]) -> None:
    """Simulates the deletion of a table and the restoration of another under the same name."""
    dynamodb, table = stack.session.client("dynamodb"), table_of(stack)
    for item in items(stack):
        dynamodb.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})
    for item in restored:
        dynamodb.put_item(TableName=table, Item=item)


@contextmanager
def begun() -> Iterator[LocalTidewheel]:
    with LocalTidewheel() as stack:
        client = stack.client()
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, READER)
        yield stack


def test_a_restored_table_and_a_rebuild_lose_nothing_that_came_after_the_point() -> None:
    with begun() as stack:
        early = send(stack, "before", range(2, 40, 3))
        stack.client().pause(TOPIC, READER)
        stack.client().send(TOPIC, "parked", delay="1m")
        stack.advance(minutes=5)
        point = items(stack)
        late = send(stack, "after", range(20, 60, 3))
        replace_items(stack, point)
        found = dry_run(stack)
        assert found.orphaned, "the ledgers that came later are in no table"
        with pytest.raises(InvalidValue, match="has an index"):
            rebuilt(stack)
        rebuilt(stack, replace_index=True)
        assert dry_run(stack).agrees
        stack.client().resume(TOPIC, READER)
        stack.advance(days=4)
        assert received(stack) == early + late + Counter(["parked"])


def test_a_table_made_by_the_command_is_the_stacks_table_and_takes_a_rebuild() -> None:
    found = commands("aws dynamodb create-table", quoted=False)
    [command] = [each for each in found if each.document.stem == "disaster-recovery"]
    words = dict(zip(command.words[3::2], command.words[4::2], strict=True))
    with begun() as stack:
        sent = send(stack, "kept", range(2, 60, 7))
        stack.advance(hours=1)
        dynamodb, table = stack.session.client("dynamodb"), table_of(stack)
        before = dynamodb.describe_table(TableName=table)["Table"]
        for item in items(stack):
            dynamodb.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})
        dynamodb.create_table(
            TableName="made-by-hand",
            BillingMode=words["--billing-mode"],
            AttributeDefinitions=json.loads(words["--attribute-definitions"]),
            KeySchema=json.loads(words["--key-schema"]),
            GlobalSecondaryIndexes=json.loads(words["--global-secondary-indexes"]),
        )
        made = dynamodb.describe_table(TableName="made-by-hand")["Table"]
        assert sorted(map(str, made["AttributeDefinitions"])) == sorted(map(str, before["AttributeDefinitions"]))
        assert made["KeySchema"] == before["KeySchema"]
        [old], [new] = before["GlobalSecondaryIndexes"], made["GlobalSecondaryIndexes"]
        assert all(old[name] == new[name] for name in ("IndexName", "KeySchema", "Projection"))
        rebuilt(stack, settings=TopicSettings())
        client = stack.client()
        client.create_subscription(TOPIC, READER, initial_position="earliest")
        stack.advance(days=4)
        assert received(stack) == sent


def test_a_deleted_object_comes_back_with_its_delete_marker_gone() -> None:
    with begun() as stack:
        s3, bucket = stack.session.client("s3"), outputs(stack)["S3BucketName"]
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        sent = send(stack, "deleted", range(2, 30, 5))
        [key] = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix="ledgers/orders/")["Contents"]]
        s3.delete_object(Bucket=bucket, Key=key)
        assert dry_run(stack).missing == (key,)
        markers = s3.list_object_versions(Bucket=bucket, Prefix="ledgers/orders/")["DeleteMarkers"]
        [version] = [each["VersionId"] for each in markers if each["IsLatest"]]
        s3.delete_object(Bucket=bucket, Key=key, VersionId=version)
        assert dry_run(stack).agrees
        stack.advance(days=2)
        assert received(stack) == sent


def test_in_another_region_all_that_waited_is_delivered() -> None:
    with begun() as stack:
        sent = send(stack, "moved", range(2, 60, 4))
        stack.advance(hours=1)
        s3, bucket = stack.session.client("s3"), outputs(stack)["S3BucketName"]
        listed = s3.list_objects_v2(Bucket=bucket, Prefix="ledgers/")["Contents"]
        replica = {each["Key"]: s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in listed}
        now = stack.now()
    with LocalTidewheel(start=now.astimezone(UTC)) as other:
        s3, bucket = other.session.client("s3"), outputs(other)["S3BucketName"]
        for key, body in replica.items():
            s3.put_object(Bucket=bucket, Key=key, Body=body)
        rebuilt(other, settings=TopicSettings())
        other.client().create_subscription(TOPIC, READER, initial_position="earliest")
        other.advance(days=4)
        assert received(other) == sent
        assert other.failures == []


def test_the_documents_point_in_time_is_one_that_aws_takes() -> None:
    [command] = [each for each in commands("aws dynamodb restore-table-to-point-in-time") if each.line is not None]
    words = list(command.words)
    when = words[words.index("--restore-date-time") + 1]
    assert datetime.fromisoformat(when).tzinfo is not None, shlex.join(words)
