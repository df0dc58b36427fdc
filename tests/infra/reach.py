"""Tries each policy against every call on every resource of a stack. `reach.txt` is what it finds.

The policies are those of clients, and those of the functions' and jobs' roles. A policy that reaches more, or less,
changes the file: `python -m tests.infra.reach` writes it. docs/security.md says what stays possible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.iam.access import statements_of
from tests.iam.iam_policy import Request, Statement, allowed, many
from tests.iam.iam_resources import asked
from tests.iam_requests import requests_of
from tests.infra.roles import FUNCTION_ROLES, JOB_ROLES, SCHEDULE, role_arn
from tests.infra.test_client_permissions import SHARED, World
from tests.infra.variants import DEDICATED, MINE, OTHER, local_template_of
from tidewheel.local import LocalTidewheel
from tidewheel.model import object_names
from tidewheel.model.message import MessageId
from tidewheel.model.settings import ROLE_TAG, SERVICE, STACK_TAG, SUBSCRIPTION
from tidewheel.policies import (
    CONSUMER_ACTIONS,
    SENDER_ACTIONS,
    administrator_statements,
    consumer_statements,
    sender_statements,
    viewer_statements,
)
from tidewheel.storage import table_keys

FILE = Path(__file__).with_name("reach.txt")
ROLES = (*FUNCTION_ROLES, *JOB_ROLES, SCHEDULE)
POLICIES = (
    *(f"sender {action}" for action in (*SENDER_ACTIONS, "of all", "of shared queues")),
    *(f"consumer {action}" for action in (*CONSUMER_ACTIONS, "of all")),
    *("viewer", "administrator", "administrator with dead letters"),
    *ROLES,
)
NOBODYS = "https://sqs.us-east-1.amazonaws.com/123456789012/nobodys"
ANOTHER_ACCOUNTS = "https://sqs.us-east-1.amazonaws.com/999999999999/tidewheel-orders-mail"
ASSETS = "cdk-hnb659fds-assets-123456789012-us-east-1"
PREFIXES = sorted(
    value for name, value in vars(object_names).items() if name.isupper() and isinstance(value, str) and "/" in value
)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A call.

    Attributes:
        place: where, as the file names it.
        call: service and operation.
        params: its parameters.
        how: what else tells the call from others.
    """

    place: str
    call: str
    params: dict[str, Any] = field(hash=False)
    how: str = ""

    @property
    def name(self) -> str:
        """The tried action. For a transaction, the action of the last item."""
        service, _, operation = self.call.partition(":")
        if operation == "TransactWriteItems":
            [kind] = self.params["TransactItems"][-1]
            operation = kind if kind == "ConditionCheck" else f"{kind}Item"
        return f"{service}:{operation}{self.how}"

    @cached_property
    def requests(self) -> list[Request]:
        """The IAM requests of the call, under both readings of a transaction."""
        service, _, operation = self.call.partition(":")
        return [each for request in requests_of(service, operation, self.params) for each in asked(request, operation)]


# ---- places


def partitions() -> dict[str, str]:
    """Place -> partition key."""
    found = {"SERVICE": table_keys.SERVICE, "elsewhere": "other"}
    for topic in (MINE, OTHER):
        found |= {
            f"{topic}": table_keys.topic_partition(topic),
            f"{topic} tombstones": table_keys.tombstone_partition(topic),
            f"{topic} keys": table_keys.key_partitions(topic)[3],
            f"{topic} moves": table_keys.moves_partition(topic),
            f"{topic} notes": table_keys.note_key(topic, "")[0],
            f"{topic} claims": table_keys.claim_key(topic, MessageId("x"))[0],
        }
    return found


def objects() -> dict[str, str]:
    """Place -> name of an object."""
    found = {"elsewhere": "elsewhere/x"}
    for topic in (MINE, OTHER):
        found |= {f"{prefix}{topic}/": f"{prefix}{topic}/x" for prefix in PREFIXES}
        found[f"{topic} bodies"] = f"{object_names.PAYLOADS}{topic}/2026-01-01/x"
    return found


def queues(world: World) -> dict[str, str]:
    """Place -> URL of a queue."""
    sqs, settings = world.stack._emulator.wire.session().client("sqs"), world.settings
    urls = sqs.list_queues(QueueNamePrefix="tidewheel-")["QueueUrls"]
    [lost_schedules] = [url for url in urls if "ScheduleDeadLetters" in url]
    tags = {STACK_TAG: "tidewheel-eu", ROLE_TAG: SUBSCRIPTION}
    neighbours = sqs.create_queue(QueueName="tidewheel-eu-orders-mail", tags=tags)["QueueUrl"]
    found = {
        "shared ingest": settings.urgent_queue_url,
        "work": settings.work_queue_url,
        "refused": settings.refused_queue_url,
        "dead letters of work": sqs.get_queue_url(QueueName=world.dead_letter_queues()[-1].rpartition(":")[2])[
            "QueueUrl"
        ],
        "lost schedules": lost_schedules,
        "named alike": sqs.create_queue(QueueName="tidewheel-named-alike")["QueueUrl"],
        "tagged as the service's": sqs.create_queue(
            QueueName="tidewheel-tagged", tags={STACK_TAG: "tidewheel", ROLE_TAG: SERVICE}
        )["QueueUrl"],
        "neighbour's": neighbours,
        "nobody's": NOBODYS,
        "another account's": ANOTHER_ACCOUNTS,
    }
    for topic in (MINE, OTHER):
        found[f"{topic} ingest"] = settings.topic_queues[topic][0]
        found[f"{topic} mail"] = world.queue_url(topic)
        found[f"{topic} mail dead"] = f"{world.queue_url(topic)}-dead"
    return found


# ---- attempts


def item(partition: str, *names: str) -> dict[str, Any]:
    """A key, and attributes."""
    return {name: {"S": partition if name == "pk" else "x"} for name in ("pk", "sk", *names)}


def on_items(world: World) -> Iterator[Attempt]:
    """Reads and writes of an item, alone, in batches, and in transactions of every kind."""
    name = world.settings.table
    table = {"TableName": name}
    check = {**table, "Key": item(f"T#{MINE}"), "ConditionExpression": "sealed <= :s"}
    for place, pk in partitions().items():
        attribute = "claimed" if place.endswith("claims") else "v"
        update = {"UpdateExpression": f"SET {attribute} = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}}
        for kind, params in (
            ("Put", {"Item": item(pk, "v")}),
            ("Update", {"Key": item(pk), **update}),
            ("Delete", {"Key": item(pk)}),
        ):
            yield Attempt(place=place, call=f"dynamodb:{kind}Item", params={**table, **params})
            write = {kind: {**table, **params}}
            for beside in ([], [{"ConditionCheck": check}], [{"Put": {**table, "Item": item(f"T#{MINE}#TOMB", "v")}}]):
                transaction = {"TransactItems": [*beside, write]}
                yield Attempt(place=place, call="dynamodb:TransactWriteItems", params=transaction)
        checked = {"TransactItems": [{"ConditionCheck": {**check, "Key": item(pk)}}]}
        yield Attempt(place=place, call="dynamodb:TransactWriteItems", params=checked)
        for request in ({"PutRequest": {"Item": item(pk)}}, {"DeleteRequest": {"Key": item(pk)}}):
            yield Attempt(place=place, call="dynamodb:BatchWriteItem", params={"RequestItems": {name: [request]}})
        yield Attempt(place=place, call="dynamodb:GetItem", params={**table, "Key": item(pk)})
        yield Attempt(place=place, call="dynamodb:BatchGetItem", params={"RequestItems": {name: {"Keys": [item(pk)]}}})
        of_partition = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": pk}}}
        yield Attempt(place=place, call="dynamodb:Query", params={**table, **of_partition})
    yield from on_tables(table)


def on_tables(table: dict[str, str]) -> Iterator[Attempt]:
    """Calls on the whole table, on its index, and on other tables."""
    for operation in ("Scan", "DeleteTable", "UpdateTable"):
        yield Attempt(place="table", call=f"dynamodb:{operation}", params=table)
    index = {"IndexName": "checks", "KeyConditionExpression": "check_shard = :w"}
    shard = {"ExpressionAttributeValues": {":w": {"S": "W#00"}}}
    yield Attempt(place="index of checks", call="dynamodb:Query", params={**table, **index, **shard})
    foreign = f"arn:aws:dynamodb:us-east-1:999999999999:table/{table['TableName']}"
    for place, other in (("another table", "other"), ("another account's table", foreign)):
        params = {"TableName": other, "Key": item(f"T#{MINE}")}
        yield Attempt(place=place, call="dynamodb:GetItem", params=params)


def on_objects(world: World) -> Iterator[Attempt]:
    """Reads, puts and deletions of objects, lists, and the loss of versions."""
    bucket = {"Bucket": world.settings.s3_bucket}
    places = {place: {**bucket, "Key": key} for place, key in objects().items()}
    others = {"another S3 bucket": {"Bucket": "other", "Key": "ledgers/orders/x"}}
    others["assets"] = {"Bucket": ASSETS, "Key": "x"}
    for place, named in (places | others).items():
        for operation in ("GetObject", "PutObject", "CreateMultipartUpload", "DeleteObject", "AbortMultipartUpload"):
            yield Attempt(place=place, call=f"s3:{operation}", params=named)
        for operation in ("PutObject", "CompleteMultipartUpload"):
            yield Attempt(place=place, call=f"s3:{operation}", params={**named, "IfNoneMatch": "*"}, how=" as new")
        copied = {**named, "CopySource": {**bucket, "Key": named["Key"]}}
        yield Attempt(place=place, call="s3:CopyObject", params=copied)
        yield Attempt(place=place, call="s3:GetObject", params={**named, "VersionId": "1"}, how=" of a version")
        gone = {"Bucket": named["Bucket"], "Delete": {"Objects": [{"Key": named["Key"], "VersionId": "1"}]}}
        yield Attempt(place=place, call="s3:DeleteObjects", params=gone)
    for operation in ("ListObjectsV2", "ListObjectVersions"):
        for place in (*PREFIXES, ""):
            params = {**bucket, "Prefix": f"{place}{MINE}/" if place else ""}
            yield Attempt(place=place or "bucket", call=f"s3:{operation}", params=params)
    for operation in ("DeleteBucket", "PutBucketVersioning"):
        yield Attempt(place="bucket", call=f"s3:{operation}", params=bucket)


ON_QUEUES = (
    *("AddPermission", "ChangeMessageVisibility", "DeleteMessage", "DeleteQueue", "PurgeQueue", "ReceiveMessage"),
    *("RemovePermission", "SendMessage", "SetQueueAttributes", "TagQueue", "UntagQueue"),
    *("GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues", "ListQueueTags"),
)


def on_queues(world: World) -> Iterator[Attempt]:
    """Reads and changes of a queue and of messages in the queue."""
    places = queues(world)
    arns = {place: f"arn:aws:sqs:us-east-1:{':'.join(url.split('/')[-2:])}" for place, url in places.items()}
    for place, url in places.items():
        for operation in ON_QUEUES:
            yield Attempt(place=place, call=f"sqs:{operation}", params={"QueueUrl": url})
        for target, arn in arns.items():
            params = {"SourceArn": arns[place], "DestinationArn": arn}
            yield Attempt(place=f"{place} to {target}", call="sqs:StartMessageMoveTask", params=params)
    for place, name in (("new", "tidewheel-new"), ("elsewhere", "new")):
        yield Attempt(place=place, call="sqs:CreateQueue", params={"QueueName": name, "tags": {ROLE_TAG: SUBSCRIPTION}})


def on_others(world: World) -> Iterator[Attempt]:
    """Functions, jobs, schedules and settings."""
    settings = world.settings
    for function in ("ingest", "dispatch", "deliver", "sweep", "compact"):
        yield Attempt(place=function, call="lambda:Invoke", params={"FunctionName": f"tidewheel-{function}"})
    target = {"Arn": settings.dispatch_arn, "RoleArn": settings.schedule_role_arn}
    stronger = {"Arn": settings.dispatch_arn, "RoleArn": role_arn(world.stack, SCHEDULE).replace("Schedule", "Sweep")}
    for place, group, given in (
        ("wheel", settings.schedule_group, target),
        ("another group", "default", target),
        ("wheel with another role", settings.schedule_group, stronger),
    ):
        params = {"Name": f"{MINE}.1", "GroupName": group}
        for operation in ("CreateSchedule", "UpdateSchedule"):
            yield Attempt(place=place, call=f"scheduler:{operation}", params={**params, "Target": given})
        for operation in ("GetSchedule", "DeleteSchedule", "ListSchedules"):
            yield Attempt(place=place, call=f"scheduler:{operation}", params=params)
    for name in ("settings", "delivery-roles"):
        for operation in ("GetParameter", "PutParameter", "DeleteParameter"):
            yield Attempt(place=name, call=f"ssm:{operation}", params={"Name": f"/tidewheel/tidewheel/{name}"})
    yield Attempt(place="another's", call="ssm:GetParameter", params={"Name": "/tidewheel/other/settings"})
    for job in ("merge", "rebuild", "import"):
        yield Attempt(place=job, call="glue:StartJobRun", params={"JobName": f"tidewheel-{job}"})


def attempts(world: World) -> list[Attempt]:
    """Returns all attempts."""
    return [*on_items(world), *on_objects(world), *on_queues(world), *on_others(world)]


# ---- what policies reach


def statements(world: World, name: str) -> list[Statement]:
    """Returns the statements of a policy."""
    role, _, action = name.partition(" ")
    actions: Any
    if name in ROLES:
        return statements_of(role_arn(world.stack, name).rpartition("/")[2])
    if role == "administrator":
        dead = world.dead_letter_queues() if action else []
        return administrator_statements(world.settings, dead_letter_queues=dead)
    if role == "viewer":
        return viewer_statements(world.settings)
    if role == "consumer":
        actions = CONSUMER_ACTIONS if action == "of all" else (action,)
        return consumer_statements(world.settings, MINE, world.queue_url(MINE), subscription="mail", actions=actions)
    if action == "of shared queues":
        return sender_statements(world.settings, SHARED[0], actions=("send",))
    actions = SENDER_ACTIONS if action == "of all" else (action,)
    return sender_statements(world.settings, MINE, actions=actions)


def reach(world: World, tried: list[Attempt], name: str) -> str:
    """Returns the places where a policy allows each action, and the policy's grants of actions that are not tried."""
    given = statements(world, name)
    places: dict[str, dict[str, None]] = {}
    for each in tried:
        if all(allowed(given, request) for request in each.requests):
            places.setdefault(each.name, {})[each.place] = None
    lines = [f"{action}: {', '.join(found)}" for action, found in sorted(places.items())]
    known = {request.action for each in tried for request in each.requests}
    return "".join(f"{line}\n" for line in [*lines, *sorted(untried(world, given, known))])


def untried(world: World, given: list[Statement], known: set[str]) -> Iterator[str]:
    """Returns grants of actions that no attempt has, and of keys, with stable names."""
    for statement in given:
        for action in many(statement["Action"]):
            if action not in known or action.startswith("kms:"):
                grant = f"{action} on {', '.join(sorted(many(statement['Resource'])))}"
                if "Condition" in statement:
                    grant += f" if {json.dumps(statement['Condition'], sort_keys=True)}"
                shown = grant.replace(str(world.settings.encryption_key_arn), "the key")
                yield re.sub(r"-[0-9a-f]{12}\b", "", shown)


def sections() -> dict[str, str]:
    """Returns the file's sections by the policies' names."""
    parts = FILE.read_text(encoding="utf-8").split("\n[")
    return {name.removeprefix("["): text for name, _, text in (part.partition("]\n") for part in parts)}


def main() -> None:
    """Writes the file."""
    with LocalTidewheel(template=local_template_of(DEDICATED)) as stack:
        world = World(stack)
        tried = attempts(world)
        FILE.write_text("\n".join(f"[{name}]\n{reach(world, tried, name)}" for name in POLICIES), encoding="utf-8")


if __name__ == "__main__":
    main()
