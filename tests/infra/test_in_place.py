"""A release updates a deployed stack in place. Each resource with data or a name keeps its logical id.

CloudFormation replaces a resource whose logical id or physical name changes. A replaced table, S3 bucket or queue is
empty. A named resource under another logical id fails with "already exists".
"""

from __future__ import annotations

import pytest

from tests.infra.resolved import PSEUDO, resolved
from tests.infra.variants import template_of

WITH_DATA = {
    "StorageTableB43FDCE7": "AWS::DynamoDB::Table",
    "StorageS3Bucket71504417": "AWS::S3::Bucket",
    "IngestionUrgentQueueFAF19DAC": "AWS::SQS::Queue",
    "IngestionUrgentQueueDeadLetters5BAEE0FC": "AWS::SQS::Queue",
    "IngestionBulkQueueE2E93971": "AWS::SQS::Queue",
    "IngestionBulkQueueDeadLetters7D763891": "AWS::SQS::Queue",
    "DeliveryWorkQueue70B789A2": "AWS::SQS::Queue",
    "DeliveryWorkQueueDeadLetters8D43A4CF": "AWS::SQS::Queue",
    "DeliveryRefusedQueue851A5F54": "AWS::SQS::Queue",
    "TimingWheelScheduleDeadLettersA9A7FA44": "AWS::SQS::Queue",
    "AlarmsTopic3A2DFEBA": "AWS::SNS::Topic",
}
"""Logical id -> type of each resource with messages, metadata or people's subscriptions. CloudFormation names them."""

NAMED = {
    "TimingWheelGroup7BC8AAB2": "<stack>",
    "Settings1CCB6159": "/tidewheel/<stack>/settings",
    "DeliveryRolesF56B2D9F": "/tidewheel/<stack>/delivery-roles",
    "IngestionIngest654091F0": "<stack>-ingest",
    "IngestionIngestLogsEC096259": "/aws/lambda/<stack>-ingest",
    "TimingWheelDispatchBC8B2942": "<stack>-dispatch",
    "TimingWheelDispatchLogs56A270CA": "/aws/lambda/<stack>-dispatch",
    "TimingWheelSweep518C41F3": "<stack>-sweep",
    "TimingWheelSweepLogs0A7F47B0": "/aws/lambda/<stack>-sweep",
    "TimingWheelSweepRule69CA0402": "<stack>-sweep",
    "DeliveryDeliverB9F0AABF": "<stack>-deliver",
    "DeliveryDeliverLogs3E339FA7": "/aws/lambda/<stack>-deliver",
    "CompactionCompact1857CFC7": "<stack>-compact",
    "CompactionCompactLogs6037E651": "/aws/lambda/<stack>-compact",
    "CompactionMergeDE394850": "<stack>-merge",
    "CompactionMergeErrorLogsAD642FEE": "/aws-glue/<stack>-merge/error",
    "CompactionMergeOutputLogs4DC7A379": "/aws-glue/<stack>-merge/output",
    "CompactionRebuildDBD1E76E": "<stack>-rebuild",
    "CompactionRebuildErrorLogsB5164CE2": "/aws-glue/<stack>-rebuild/error",
    "CompactionRebuildOutputLogs7A1875FA": "/aws-glue/<stack>-rebuild/output",
    "CompactionImport92C9FD01": "<stack>-import",
    "CompactionImportErrorLogs83E05ED6": "/aws-glue/<stack>-import/error",
    "CompactionImportOutputLogsA597D029": "/aws-glue/<stack>-import/output",
}
"""Logical id -> physical name of each named resource without an alarm."""

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
    template = template_of(variant)
    found, names = {}, {}
    for logical_id, resource in template["Resources"].items():
        name = resource.get("Properties", {}).get(NAME_OF.get(resource["Type"], ""))
        if name is not None:
            names[logical_id] = resolved(template, name).replace(PSEUDO["AWS::StackName"], "<stack>")
        elif resource["Type"] in set(WITH_DATA.values()):
            found[logical_id] = resource["Type"]
    assert (found, names) == (WITH_DATA, NAMED)


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
