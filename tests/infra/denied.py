"""Calls forbidden to the service's roles, and the check of IAM's denials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.infra.roles import (
    COMPACT,
    DELIVER,
    DISPATCH,
    FUNCTION_ROLES,
    IMPORT,
    INGEST,
    JOB_ROLES,
    MERGE,
    REBUILD,
    SWEEP,
)
from tidewheel.local import LocalTidewheel
from tidewheel.model.settings import ServiceSettings

ALL = (*FUNCTION_ROLES, *JOB_ROLES)


@dataclass(frozen=True, kw_only=True)
class Denied:
    """A call forbidden to some roles.

    Attributes:
        roles: who is tried; all functions and jobs by default.
        call: service and method of boto3's client.
        params: its parameters; {T}, {S3} and so on stand for names of the stack.
        action: what the denial must name.
    """

    call: str
    params: dict[str, Any]
    action: str
    roles: tuple[str, ...] = ALL

    @property
    def service(self) -> str:
        """The called AWS service."""
        return self.call.partition(".")[0]


def item(partition: str, sort_key: str = "STATE") -> dict[str, Any]:
    """A key of the table."""
    return {"pk": {"S": partition}, "sk": {"S": sort_key}}


def but(*roles: str) -> tuple[str, ...]:
    """All functions and jobs but these."""
    return tuple(role for role in ALL if role not in roles)


LEDGER, PARK, PLAN = "ledgers/orders/x", "parked/orders/mail/x", "plans/orders/1-a.json.z"
PAYLOAD, IMPORTED, CHECKPOINT = "payloads/orders/2026-01-01/x", "imports/orders/x", "checkpoints/orders/x"
SERVICE, KEY, TOMB, TOPIC = "SERVICE", "T#orders#KEY#00", "T#orders#TOMB", "T#orders"
CLAIM = "T#orders#CLAIM#x"


def objects(method: str, action: str, name: str, roles: tuple[str, ...]) -> Denied:
    """Returns a call for one object of the service's S3 bucket."""
    return Denied(call=f"s3.{method}", params={"Bucket": "{S3}", "Key": name}, action=f"s3:{action}", roles=roles)


def items(method: str, action: str, partition: str, roles: tuple[str, ...]) -> Denied:
    """Returns a call for one item of the service's table."""
    named = {"Item" if method == "put_item" else "Key": item(partition, "x")}
    return Denied(
        call=f"dynamodb.{method}", params={"TableName": "{T}", **named}, action=f"dynamodb:{action}", roles=roles
    )


def sends(queue: str, roles: tuple[str, ...] = ALL) -> Denied:
    """A message to a queue."""
    return Denied(
        call="sqs.send_message", params={"QueueUrl": queue, "MessageBody": "x"}, action="sqs:SendMessage", roles=roles
    )


FOREIGN_TABLE = "arn:aws:dynamodb:us-east-1:999999999999:table/{T}"
SCHEDULE_OF_ITS_OWN = {
    "Name": "mine",
    "ScheduleExpression": "at(2030-01-01T00:00:00)",
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "Target": {"Arn": "{DISPATCH}", "RoleArn": "{SCHEDULE_ROLE}"},
}
ANOTHER_ROLE = {"Arn": "{DISPATCH}", "RoleArn": "{INGEST_ROLE}"}

DENIED = {
    # The table: never whole, never as such, never another's.
    "delete the table": Denied(
        call="dynamodb.delete_table", params={"TableName": "{T}"}, action="dynamodb:DeleteTable"
    ),
    "scan the table": Denied(call="dynamodb.scan", params={"TableName": "{T}"}, action="dynamodb:Scan"),
    "read another account's table": Denied(
        call="dynamodb.get_item", params={"TableName": FOREIGN_TABLE, "Key": item(TOPIC)}, action="dynamodb:GetItem"
    ),
    "read another table": Denied(
        call="dynamodb.get_item", params={"TableName": "other", "Key": item(TOPIC)}, action="dynamodb:GetItem"
    ),
    "write in batches": Denied(
        call="dynamodb.batch_write_item",
        params={"RequestItems": {"{T}": [{"PutRequest": {"Item": item(TOPIC)}}]}},
        action="dynamodb:BatchWriteItem",
    ),
    "query the index of checks": Denied(
        call="dynamodb.query",
        params={
            "TableName": "{T}",
            "IndexName": "checks",
            "KeyConditionExpression": "check_shard = :w",
            "ExpressionAttributeValues": {":w": {"S": "W#00"}},
        },
        action="dynamodb:Query",
        roles=but(SWEEP),
    ),
    # Partitions.
    "forge a tombstone": items("put_item", "PutItem", TOMB, but(DISPATCH, INGEST, REBUILD, SWEEP)),
    "lift a cancellation": items("delete_item", "DeleteItem", TOMB, but(DISPATCH, SWEEP)),
    "put a key": items("put_item", "PutItem", KEY, but(INGEST, REBUILD)),
    "delete a key": items("delete_item", "DeleteItem", KEY, but(SWEEP)),
    "claim a message": items("update_item", "UpdateItem", CLAIM, but(INGEST)),
    "read a key": items("get_item", "GetItem", KEY, but(INGEST)),
    "delete an item of a topic": items("delete_item", "DeleteItem", TOPIC, (INGEST, IMPORT)),
    "put an item of a topic": items("put_item", "PutItem", TOPIC, (SWEEP,)),
    "claim the daily work": items("update_item", "UpdateItem", SERVICE, but(SWEEP)),
    "put an item outside of all partitions": items("put_item", "PutItem", "other", ALL),
    "put a tombstone inside a transaction": Denied(
        call="dynamodb.transact_write_items",
        params={"TransactItems": [{"Put": {"TableName": "{T}", "Item": item(TOMB)}}]},
        action="dynamodb:PutItem",
        roles=but(DISPATCH, INGEST, REBUILD, SWEEP),
    ),
    # Objects: by prefix.
    "write a ledger": objects("put_object", "PutObject", LEDGER, (DISPATCH, DELIVER, SWEEP)),
    "read a ledger": objects("get_object", "GetObject", LEDGER, (INGEST, SWEEP)),
    "delete a ledger": objects("delete_object", "DeleteObject", LEDGER, (DELIVER,)),
    "write a plan": objects("put_object", "PutObject", PLAN, but(DISPATCH, REBUILD)),
    "write a park": objects("put_object", "PutObject", PARK, but(INGEST, DELIVER)),
    "read a park": objects("get_object", "GetObject", PARK, but(DELIVER)),
    "read a large body": objects("get_object", "GetObject", PAYLOAD, ALL),
    "replace a large body": objects("put_object", "PutObject", PAYLOAD, but(INGEST)),
    "read what is to be imported": objects("get_object", "GetObject", IMPORTED, but(IMPORT)),
    "write a checkpoint": objects("put_object", "PutObject", CHECKPOINT, but(DISPATCH, SWEEP, REBUILD)),
    "write elsewhere": objects("put_object", "PutObject", "mine/x", ALL),
    "read another S3 bucket": Denied(
        call="s3.get_object", params={"Bucket": "other", "Key": LEDGER}, action="s3:GetObject"
    ),
    "copy a ledger out": Denied(
        call="s3.copy_object",
        params={"Bucket": "other", "Key": "x", "CopySource": {"Bucket": "{S3}", "Key": LEDGER}},
        action="s3:PutObject",
        roles=(COMPACT, DISPATCH, DELIVER, *JOB_ROLES),
    ),
    "delete many ledgers": Denied(
        call="s3.delete_objects",
        params={"Bucket": "{S3}", "Delete": {"Objects": [{"Key": LEDGER}]}},
        action="s3:DeleteObject",
        roles=(DELIVER,),
    ),
    # Queues.
    "send to a subscription": sends("{MAIL}", (SWEEP, COMPACT, *JOB_ROLES)),
    "put a pack into an ingest queue": sends("{URGENT}", but(INGEST)),
    "put a job into the work queue": sends("{WORK}", (COMPACT, *JOB_ROLES)),
    "forge a dead letter of the service": sends("{DEAD}"),
    "forge a dead letter of a subscription": sends("{MAIL}-dead"),
    "send to a queue that is only named like the service's": sends("{LOOKALIKE}"),
    "send to a queue of a service whose name begins like this one's": sends("{NEIGHBOUR}"),
    "send to a queue that is nobody's": sends("https://sqs.us-east-1.amazonaws.com/123456789012/foreign"),
    "send to another account": sends("https://sqs.us-east-1.amazonaws.com/999999999999/tidewheel-orders-mail"),
    "read a subscription's queue": Denied(
        call="sqs.receive_message", params={"QueueUrl": "{MAIL}"}, action="sqs:ReceiveMessage"
    ),
    "read the work queue": Denied(
        call="sqs.receive_message", params={"QueueUrl": "{WORK}"}, action="sqs:ReceiveMessage", roles=but(DELIVER)
    ),
    "empty a queue": Denied(call="sqs.purge_queue", params={"QueueUrl": "{MAIL}"}, action="sqs:PurgeQueue"),
    "change a queue": Denied(
        call="sqs.set_queue_attributes",
        params={"QueueUrl": "{MAIL}", "Attributes": {}},
        action="sqs:SetQueueAttributes",
    ),
    # The wheel.
    "make a schedule outside of the group": Denied(
        call="scheduler.create_schedule",
        params={**SCHEDULE_OF_ITS_OWN, "GroupName": "default"},
        action="scheduler:CreateSchedule",
    ),
    "pass another role": Denied(
        call="scheduler.create_schedule",
        params={**SCHEDULE_OF_ITS_OWN, "GroupName": "{GROUP}", "Target": ANOTHER_ROLE},
        action="iam:PassRole",
        roles=(INGEST, DISPATCH, SWEEP, IMPORT),
    ),
    "make a schedule": Denied(
        call="scheduler.create_schedule",
        params={**SCHEDULE_OF_ITS_OWN, "GroupName": "{GROUP}"},
        action="scheduler:CreateSchedule",
        roles=(DELIVER, COMPACT, MERGE, REBUILD),
    ),
    "delete a schedule": Denied(
        call="scheduler.delete_schedule",
        params={"GroupName": "{GROUP}", "Name": "orders.1"},
        action="scheduler:DeleteSchedule",
        roles=but(SWEEP),
    ),
    "change a schedule": Denied(
        call="scheduler.update_schedule",
        params={**SCHEDULE_OF_ITS_OWN, "Name": "orders.1", "GroupName": "{GROUP}"},
        action="scheduler:UpdateSchedule",
    ),
    # Functions, jobs, settings, rights.
    "invoke ingest": Denied(
        call="lambda.invoke", params={"FunctionName": "tidewheel-ingest"}, action="lambda:InvokeFunction"
    ),
    "invoke dispatch": Denied(
        call="lambda.invoke", params={"FunctionName": "{DISPATCH}"}, action="lambda:InvokeFunction", roles=but(SWEEP)
    ),
    "start a merge": Denied(
        call="glue.start_job_run",
        params={"JobName": "tidewheel-merge"},
        action="glue:StartJobRun",
        roles=but(SWEEP),
    ),
    "start a rebuild": Denied(
        call="glue.start_job_run", params={"JobName": "tidewheel-rebuild"}, action="glue:StartJobRun"
    ),
    "read a parameter": Denied(
        call="ssm.get_parameter",
        params={"Name": "/tidewheel/tidewheel/settings"},
        action="ssm:GetParameter",
        roles=FUNCTION_ROLES,
    ),
    "read another parameter": Denied(
        call="ssm.get_parameter", params={"Name": "/tidewheel/other/settings"}, action="ssm:GetParameter"
    ),
    "change the settings": Denied(
        call="ssm.put_parameter",
        params={"Name": "/tidewheel/tidewheel/settings", "Value": "{}"},
        action="ssm:PutParameter",
    ),
    "give itself rights": Denied(
        call="iam.put_role_policy",
        params={"RoleName": "mine", "PolicyName": "all", "PolicyDocument": "{}"},
        action="iam:PutRolePolicy",
    ),
    "become another role": Denied(
        call="sts.assume_role", params={"RoleArn": "{INGEST_ROLE}", "RoleSessionName": "me"}, action="sts:AssumeRole"
    ),
}


DENIED_TO_DECLARE = {
    # It has the items of topics, and nothing else: no messages, no queues, no schedules, no code.
    **{
        name: DENIED[name]
        for name in (
            "scan the table",
            "delete the table",
            "write in batches",
            "query the index of checks",
            "claim the daily work",
            "put an item outside of all partitions",
            "read a park",
            "write a park",
            "write a ledger",
            "read a ledger",
            "delete a ledger",
            "read a large body",
            "send to a subscription",
            "put a pack into an ingest queue",
            "put a job into the work queue",
            "read a subscription's queue",
            "empty a queue",
            "change a queue",
            "make a schedule",
            "change a schedule",
            "invoke dispatch",
            "start a merge",
            "read another parameter",
            "give itself rights",
        )
    },
    "delete a queue": Denied(call="sqs.delete_queue", params={"QueueUrl": "{MAIL}"}, action="sqs:DeleteQueue"),
    "change the settings": Denied(
        call="ssm.put_parameter", params={"Name": "{SETTINGS}", "Value": "{}"}, action="ssm:PutParameter"
    ),
}
"""What the function behind declared topics must not be able to do."""


def names_of(settings: ServiceSettings) -> dict[str, str]:
    """Returns the values of the placeholders in the calls' parameters."""
    return {
        "{DISPATCH}": settings.dispatch_arn,
        "{GROUP}": settings.schedule_group,
        "{S3}": settings.s3_bucket,
        "{SCHEDULE_ROLE}": settings.schedule_role_arn,
        "{T}": settings.table,
        "{URGENT}": settings.urgent_queue_url,
        "{WORK}": settings.work_queue_url,
    }


def check_denied(stack: LocalTidewheel, client: Any, denied: Denied, *, names: Mapping[str, str], role: str) -> None:
    """Makes a forbidden call and checks the error's action and resource.

    Args:
        client: Has the role's rights.
        names: What stands for names in parameters, and the names.
        role: The role's logical id less its hash.
    """
    call, params = getattr(client, denied.call.partition(".")[2]), _filled(denied.params, names)
    before = len(stack.denials)
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    assert error["Code"] in ("AccessDenied", "AccessDeniedException")
    assert f"is not authorized to perform: {denied.action} on resource: " in error["Message"]
    [noted] = stack.denials[before:]
    assert (noted.action, noted.message) == (denied.action, error["Message"])
    assert f"-{role}" in noted.role and noted.resource in error["Message"]


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    """Returns parameters with the placeholders replaced."""
    if isinstance(value, dict):
        return {_filled(key, names): _filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    for name, found in names.items():
        value = value.replace(name, found)
    return value
