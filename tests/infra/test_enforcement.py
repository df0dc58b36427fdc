"""IAM enforced: every flow of the service works under the roles of the template, and the roles allow no more than that.

`EXPLAINED` holds, with its reason, each grant that no flow here needs: what AWS itself does with a role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.local_template import Template, normalized
from tests.infra.enforced import FLOWS, World
from tests.infra.roles import COMPACT, DELIVER, DISPATCH, FUNCTION_ROLES, INGEST, SCHEDULE, SENDERS, SWEEP
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.access import Denial, Grant, grants_of

ROLES = (*FUNCTION_ROLES, SCHEDULE)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Grants that no flow needs, and why they are given."""

    roles: tuple[str, ...]
    actions: str
    where: str
    why: str


EXPLAINED = (
    Rule(roles=FUNCTION_ROLES, actions="logs:*", where="log-group:*", why="Lambda writes the logs"),
    Rule(roles=FUNCTION_ROLES, actions="xray:Put*", where="*", why="Lambda's X-Ray daemon sends the traces"),
    Rule(
        roles=(DISPATCH, COMPACT, SWEEP),
        actions="sqs:SendMessage",
        where="TimingWheelScheduleDeadLetters",
        why="Lambda puts asynchronous calls there that failed for good",
    ),
    Rule(
        roles=SENDERS,
        actions="sqs:SendMessage",
        where="DeliveryRefusedQueue",
        why="CloudFormation names it; it need not begin as the queues of subscriptions do",
    ),
    Rule(roles=(DISPATCH, DELIVER), actions="sqs:SendMessage", where="DeliveryWorkQueue", why="likewise"),
)


@dataclass(kw_only=True)
class Ran:
    """What came of one flow."""

    error: BaseException | None = None
    failures: list[Any] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)


@dataclass(kw_only=True)
class Enforced:
    """The stack after all flows, still open.

    Attributes:
        ran: what came of each flow.
        needed: the grants without which some request of some flow is denied.
    """

    world: World
    ran: dict[str, Ran]
    needed: set[Grant]

    def role_arn(self, role: str) -> str:
        """The ARN of the role with a logical id."""
        return role_arn(self.world.stack, role)

    def shown(self, grant: Grant) -> str:
        """Where a grant is for, without what is random in names."""
        settings = self.world.settings
        where = grant.resource.rpartition(":")[2] if "log-group" not in grant.resource else "log-group:its own"
        where = where.replace(settings.s3_bucket, "S3").replace(settings.table, "T")
        return re.sub(r"^tidewheel-(\w+)[0-9A-F]{8}-\w+$", r"\1", where)


def role_arn(stack: LocalTidewheel, role: str) -> str:
    """The ARN of the deployed role with a logical id."""
    roles = stack.session.client("iam").list_roles(MaxItems=1000)["Roles"]
    [found] = [each["Arn"] for each in roles if f"-{role}" in each["RoleName"]]
    return str(found)


def run(world: World, name: str) -> Ran:
    """Runs a flow and notes what came of it."""
    ran = Ran()
    stack, before = world.stack, len(world.stack.denials)
    stack.failures.clear()
    try:
        FLOWS[name](world)
    except Exception as error:
        ran.error = error
    ran.failures, ran.denials = list(stack.failures), stack.denials[before:]
    return ran


@pytest.fixture(scope="module")
def enforced(template: Template) -> Iterator[Enforced]:
    """All flows, one after the other."""
    jobs: list[tuple[str, str]] = []
    with LocalTidewheel(template=normalized(template), enforce_iam=True, job_runner=World.runner(jobs)) as stack:
        world = World(stack=stack, jobs=jobs)
        ran = {name: run(world, name) for name in FLOWS}
        assert stack._emulator.access is not None
        yield Enforced(world=world, ran=ran, needed=set(stack._emulator.access.needed))


# ---- what is needed is allowed


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_does_its_work_under_its_own_roles_and_nothing_is_denied(enforced: Enforced, name: str) -> None:
    ran = enforced.ran[name]
    assert ran.denials == []
    assert [str(each.error) for each in ran.failures] == []
    if ran.error is not None:
        raise ran.error


# ---- what is allowed is needed


@pytest.mark.parametrize("role", ROLES)
def test_each_grant_of_a_role_is_needed_by_some_flow_or_explained(enforced: Enforced, role: str) -> None:
    rules = [rule for rule in EXPLAINED if role in rule.roles]
    unexplained = [
        f"{grant.action} on {enforced.shown(grant)} {grant.conditions}"
        for grant in grants_of(enforced.role_arn(role)) - enforced.needed
        if not any(explains(rule, grant, enforced.shown(grant)) for rule in rules)
    ]
    assert unexplained == []


@pytest.mark.parametrize("role", ROLES)
def test_no_explanation_is_left_over(enforced: Enforced, role: str) -> None:
    unneeded = grants_of(enforced.role_arn(role)) - enforced.needed
    for rule in EXPLAINED:
        if role in rule.roles:
            assert any(explains(rule, grant, enforced.shown(grant)) for grant in unneeded), (role, rule)


def explains(rule: Rule, grant: Grant, where: str) -> bool:
    """Whether a rule is about a grant."""
    return fnmatchcase(grant.action, rule.actions) and fnmatchcase(where, rule.where)


# ---- what is not allowed is denied


@dataclass(frozen=True, kw_only=True)
class Denied:
    """A call that some roles must not be able to make.

    Attributes:
        roles: who is tried; all functions by default.
        call: service and method of boto3's client.
        params: its parameters; {T}, {S3} and so on stand for names of the stack.
        action: what the denial must name.
    """

    call: str
    params: dict[str, Any]
    action: str
    roles: tuple[str, ...] = FUNCTION_ROLES


def item(partition: str, sort_key: str = "FENCE") -> dict[str, Any]:
    """A key of the table."""
    return {"pk": {"S": partition}, "sk": {"S": sort_key}}


def but(*roles: str) -> tuple[str, ...]:
    """All functions but these."""
    return tuple(role for role in FUNCTION_ROLES if role not in roles)


LEDGER, PARK, PLAN = "ledgers/orders/x", "parked/orders/mail/x", "plans/orders/1-a.json.z"
PAYLOAD, IMPORTED, CHECKPOINT = "payloads/orders/2026-01-01/x", "imports/orders/x", "checkpoints/orders/x"
SERVICE, KEY, TOMB, TOPIC = "SERVICE", "T#orders#KEY#00", "T#orders#TOMB", "T#orders"


def objects(method: str, action: str, name: str, roles: tuple[str, ...]) -> Denied:
    """A call for one object of the service's S3 bucket."""
    return Denied(call=f"s3.{method}", params={"Bucket": "{S3}", "Key": name}, action=f"s3:{action}", roles=roles)


def items(method: str, action: str, partition: str, roles: tuple[str, ...]) -> Denied:
    """A call for one item of the service's table."""
    named = {"Item" if method == "put_item" else "Key": item(partition, "x")}
    return Denied(
        call=f"dynamodb.{method}", params={"TableName": "{T}", **named}, action=f"dynamodb:{action}", roles=roles
    )


def sends(queue: str, roles: tuple[str, ...] = FUNCTION_ROLES) -> Denied:
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
    "query the index wake": Denied(
        call="dynamodb.query",
        params={
            "TableName": "{T}",
            "IndexName": "wake",
            "KeyConditionExpression": "wake_shard = :w",
            "ExpressionAttributeValues": {":w": {"S": "W#00"}},
        },
        action="dynamodb:Query",
        roles=but(SWEEP),
    ),
    # Partitions.
    "forge a tombstone": items("put_item", "PutItem", TOMB, but(INGEST)),
    "lift a cancellation": items("delete_item", "DeleteItem", TOMB, but(DISPATCH, SWEEP)),
    "put a key": items("put_item", "PutItem", KEY, but(INGEST)),
    "delete a key": items("delete_item", "DeleteItem", KEY, but(SWEEP)),
    "read a key": items("get_item", "GetItem", KEY, FUNCTION_ROLES),
    "delete an item of a topic": items("delete_item", "DeleteItem", TOPIC, (INGEST,)),
    "put an item of a topic": items("put_item", "PutItem", TOPIC, (SWEEP,)),
    "claim the daily work": items("update_item", "UpdateItem", SERVICE, but(SWEEP)),
    "put an item outside of all partitions": items("put_item", "PutItem", "other", FUNCTION_ROLES),
    "put a tombstone inside a transaction": Denied(
        call="dynamodb.transact_write_items",
        params={"TransactItems": [{"Put": {"TableName": "{T}", "Item": item(TOMB)}}]},
        action="dynamodb:PutItem",
        roles=but(INGEST),
    ),
    # Objects: by prefix.
    "write a ledger": objects("put_object", "PutObject", LEDGER, but(INGEST, COMPACT)),
    "read a ledger": objects("get_object", "GetObject", LEDGER, (INGEST, SWEEP)),
    "delete a ledger": objects("delete_object", "DeleteObject", LEDGER, (DELIVER,)),
    "write a plan": objects("put_object", "PutObject", PLAN, but(DISPATCH)),
    "write a park": objects("put_object", "PutObject", PARK, but(INGEST, DELIVER)),
    "read a park": objects("get_object", "GetObject", PARK, but(DELIVER)),
    "read a large body": objects("get_object", "GetObject", PAYLOAD, FUNCTION_ROLES),
    "replace a large body": objects("put_object", "PutObject", PAYLOAD, FUNCTION_ROLES),
    "read what is to be imported": objects("get_object", "GetObject", IMPORTED, FUNCTION_ROLES),
    "write a checkpoint": objects("put_object", "PutObject", CHECKPOINT, but(DISPATCH, SWEEP)),
    "write elsewhere": objects("put_object", "PutObject", "mine/x", FUNCTION_ROLES),
    "read another S3 bucket": Denied(
        call="s3.get_object", params={"Bucket": "other", "Key": LEDGER}, action="s3:GetObject"
    ),
    "copy a ledger out": Denied(
        call="s3.copy_object",
        params={"Bucket": "other", "Key": "x", "CopySource": {"Bucket": "{S3}", "Key": LEDGER}},
        action="s3:PutObject",
        roles=(COMPACT, DISPATCH, DELIVER),
    ),
    "delete many ledgers": Denied(
        call="s3.delete_objects",
        params={"Bucket": "{S3}", "Delete": {"Objects": [{"Key": LEDGER}]}},
        action="s3:DeleteObject",
        roles=(DELIVER,),
    ),
    # Queues.
    "send to a subscription": sends("{MAIL}", (SWEEP, COMPACT)),
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
        roles=(INGEST, DISPATCH, SWEEP),
    ),
    "make a schedule": Denied(
        call="scheduler.create_schedule",
        params={**SCHEDULE_OF_ITS_OWN, "GroupName": "{GROUP}"},
        action="scheduler:CreateSchedule",
        roles=(DELIVER, COMPACT),
    ),
    "delete a schedule": Denied(
        call="scheduler.delete_schedule",
        params={"GroupName": "{GROUP}", "Name": "sweep"},
        action="scheduler:DeleteSchedule",
        roles=but(SWEEP),
    ),
    "change the sweep's schedule": Denied(
        call="scheduler.update_schedule",
        params={**SCHEDULE_OF_ITS_OWN, "Name": "sweep", "GroupName": "{GROUP}"},
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
        roles=but(SWEEP, COMPACT),
    ),
    "start a rebuild": Denied(
        call="glue.start_job_run", params={"JobName": "tidewheel-rebuild"}, action="glue:StartJobRun"
    ),
    "read a parameter": Denied(
        call="ssm.get_parameter", params={"Name": "/tidewheel/tidewheel/settings"}, action="ssm:GetParameter"
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
CASES = [(name, role) for name, denied in DENIED.items() for role in denied.roles]


@pytest.mark.parametrize(("name", "role"), CASES)
def test_what_a_role_may_not_do_is_denied_by_name(enforced: Enforced, name: str, role: str) -> None:
    denied, world = DENIED[name], enforced.world
    session = world.stack._emulator.core_session(role_arn=enforced.role_arn(role))
    service, method = denied.call.split(".")
    before = len(world.stack.denials)
    with pytest.raises(ClientError) as refused:
        getattr(session.create_client(service), method)(**filled(enforced, denied.params))
    error = refused.value.response["Error"]
    assert error["Code"] in ("AccessDenied", "AccessDeniedException")
    assert f"is not authorized to perform: {denied.action} on resource: " in error["Message"]
    [noted] = world.stack.denials[before:]
    assert (noted.action, noted.message) == (denied.action, error["Message"])
    assert f"-{role}" in noted.role and noted.resource in error["Message"]


def filled(enforced: Enforced, value: Any) -> Any:
    """Parameters with the names of the stack in them."""
    if isinstance(value, dict):
        return {filled(enforced, key): filled(enforced, each) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(enforced, each) for each in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    settings = enforced.world.settings
    names = {
        "{DISPATCH}": settings.dispatch_arn,
        "{GROUP}": settings.schedule_group,
        "{INGEST_ROLE}": enforced.role_arn(INGEST),
        "{MAIL}": enforced.world.subscription_queue("ledgers"),
        "{S3}": settings.s3_bucket,
        "{SCHEDULE_ROLE}": settings.schedule_role_arn,
        "{T}": settings.table,
        "{WORK}": settings.work_queue_url,
    }
    for name, found in names.items():
        value = value.replace(name, found)
    return value


def test_the_schedules_role_invokes_nothing_but_dispatch_and_sweep(enforced: Enforced) -> None:
    emulator = enforced.world.stack._emulator
    for function in ("ingest", "deliver", "compact"):
        arn = f"arn:aws:lambda:us-east-1:123456789012:function:tidewheel-{function}"
        with pytest.raises(PermissionError, match="lambda:InvokeFunction"):
            emulator.check_invocation(enforced.role_arn(SCHEDULE), arn)
