"""A release updates a deployed stack in place. Each resource with data or a name keeps its logical id.

CloudFormation replaces a resource whose logical id or physical name changes. A replaced table, S3 bucket or queue is
empty. A named resource under another logical id fails with "already exists".
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.resolved import PSEUDO, resolved
from tests.infra.variants import template_of

FILE = Path(__file__).with_name("in_place.txt")
"""Logical id and physical name of each resource that has a name. Logical id and type of each other resource with
messages, metadata or people's subscriptions, which CloudFormation names."""
WITH_DATA = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::SNS::Topic"}
NAME_OF = {
    "AWS::DynamoDB::Table": "TableName",
    "AWS::Events::Rule": "Name",
    "AWS::Glue::Job": "Name",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::SSM::Parameter": "Name",
    "AWS::Scheduler::ScheduleGroup": "Name",
}
"""Type -> the property with the physical name, of which each change is a replacement."""


@pytest.mark.parametrize("variant", ["development", "production"])
def test_each_resource_with_data_or_a_name_keeps_its_logical_id_and_its_name(variant: str) -> None:
    template, found = template_of(variant), set()
    for logical_id, resource in template["Resources"].items():
        name = resource.get("Properties", {}).get(NAME_OF.get(resource["Type"], ""))
        if name is not None:
            found.add(f"{logical_id} {resolved(template, name).replace(PSEUDO['AWS::StackName'], '<stack>')}")
        elif resource["Type"] in WITH_DATA:
            found.add(f"{logical_id} {resource['Type']}")
    assert found == set(FILE.read_text(encoding="utf-8").splitlines())


def test_the_tables_keys_and_its_index_stay() -> None:
    table = template_of("production")["Resources"]["StorageTableB43FDCE7"]["Properties"]
    assert [(each["AttributeName"], each["KeyType"]) for each in table["KeySchema"]] == [
        ("pk", "HASH"),
        ("sk", "RANGE"),
    ]
    [index] = table["GlobalSecondaryIndexes"]
    assert index == {
        "IndexName": "checks",
        "KeySchema": [
            {"AttributeName": "check_shard", "KeyType": "HASH"},
            {"AttributeName": "next_check_ms", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    assert types == {"pk": "S", "sk": "S", "check_shard": "S", "next_check_ms": "N"}
