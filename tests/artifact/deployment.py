"""The template's resources, made by plain API calls on whatever endpoints there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from tests.artifact.control_plane import ControlPlane
from tests.artifact.schedules import Schedules
from tests.artifact.template import REGION, Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The URLs of the services outside the harness."""

    dynamodb: str
    s3: str
    sqs: str
    access_key: str = "AKIATIDEWHEELHARNESS"
    secret_key: str = "secret"

    def client(self, service: str) -> Any:
        """Makes a client of a service."""
        return boto3.client(
            service,
            endpoint_url=getattr(self, service),
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(retries={"mode": "standard"}, s3={"addressing_style": "path"}, max_pool_connections=20),
        )


_QUEUE_ATTRIBUTES = (
    "DelaySeconds",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "VisibilityTimeout",
)
"""What changes how a queue behaves; encryption does not, and not every SQS knows it."""

_TABLE_PROPERTIES = ("AttributeDefinitions", "BillingMode", "KeySchema")


def create_resources(template: Template, endpoints: Endpoints, control: ControlPlane, schedules: Schedules) -> None:
    """Makes queues, tables, buckets, parameters and schedules, and enters their names into the template."""
    _create_queues(template, endpoints.client("sqs"))
    _create_tables(template, endpoints.client("dynamodb"))
    _create_buckets(template, endpoints.client("s3"))
    for logical_id in template.names_of_type("AWS::Lambda::Function"):
        [name] = [
            each.get("FunctionName") for found, each in template.of_type("AWS::Lambda::Function") if found == logical_id
        ]
        template.refs[logical_id] = name or template.physical_name(logical_id)
    for _, parameter in template.of_type("AWS::SSM::Parameter"):
        control.parameters[parameter["Name"]] = parameter["Value"]
    for logical_id, group in template.of_type("AWS::Scheduler::ScheduleGroup"):
        template.refs[logical_id] = group["Name"]
        schedules.create_group(group["Name"])
    for logical_id, schedule in template.of_type("AWS::Scheduler::Schedule"):
        schedules.create(schedule.get("Name") or template.physical_name(logical_id), schedule)
    for logical_id, rule in template.of_type("AWS::Events::Rule"):
        _create_rule(schedules, rule.get("Name") or template.physical_name(logical_id), rule)


def _create_queues(template: Template, sqs: Any) -> None:
    kind = "AWS::SQS::Queue"
    for logical_id in template.names_of_type(kind):
        name = template.physical_name(logical_id)[:80]
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        template.refs[logical_id] = url
        template.attributes[logical_id, "Arn"] = arn
        template.attributes[logical_id, "QueueName"] = name
    # Only now are the queues of dead letters known.
    for logical_id, properties in template.of_type(kind):
        attributes = {name: str(properties[name]) for name in _QUEUE_ATTRIBUTES if name in properties}
        if "RedrivePolicy" in properties:
            attributes["RedrivePolicy"] = _json_text(properties["RedrivePolicy"])
        sqs.set_queue_attributes(QueueUrl=template.refs[logical_id], Attributes=attributes)


def _create_tables(template: Template, dynamodb: Any) -> None:
    for logical_id, properties in template.of_type("AWS::DynamoDB::Table"):
        name = template.physical_name(logical_id)
        given = {key: properties[key] for key in _TABLE_PROPERTIES}
        indexes = [
            {key: each[key] for key in ("IndexName", "KeySchema", "Projection")}
            for each in properties.get("GlobalSecondaryIndexes", [])
        ]
        dynamodb.create_table(TableName=name, GlobalSecondaryIndexes=indexes, **given)
        if "TimeToLiveSpecification" in properties:
            dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=properties["TimeToLiveSpecification"])
        template.refs[logical_id] = name
        template.attributes[logical_id, "Arn"] = f"arn:aws:dynamodb:{REGION}:123456789012:table/{name}"


def _create_buckets(template: Template, s3: Any) -> None:
    for logical_id, properties in template.of_type("AWS::S3::Bucket"):
        name = template.physical_name(logical_id).lower()
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        if "VersioningConfiguration" in properties:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=properties["VersioningConfiguration"])
        template.refs[logical_id] = name
        template.attributes[logical_id, "Arn"] = f"arn:aws:s3:::{name}"


def _create_rule(schedules: Schedules, name: str, rule: Mapping[str, Any]) -> None:
    """Creates a schedule for an EventBridge rule with a rate, and ignores rules for events."""
    if "ScheduleExpression" in rule:
        for target in rule["Targets"]:
            schedules.create(
                f"{name}-{target['Id']}"[:64], {"ScheduleExpression": rule["ScheduleExpression"], "Target": target}
            )


def _json_text(value: Any) -> str:
    """Returns a value as JSON, and text unchanged."""
    return value if isinstance(value, str) else json.dumps(value)
