"""Tries each policy against every write and delete on every resource of a stack, and every attribute of the items.

REACHED is exact, so that a policy that reaches more, or less, is noticed. docs/security.md says what stays possible.
The grants of the constructs are the same statements (`test_constructs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.local_template import normalized
from tests.fuzz.good import ITEMS
from tests.iam_requests import requests_of
from tests.infra.dedicated import synthesized
from tests.infra.test_client_enforcement import session_of
from tests.infra.test_client_permissions import MINE, OTHER, SHARED, World
from tidewheel.client.queue_tags import ROLE_TAG, SERVICE, STACK_TAG, SUBSCRIPTION
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.iam_policy import Request, allowed
from tidewheel.local.emulator.iam_resources import asked
from tidewheel.model import object_names
from tidewheel.model.message import MessageId
from tidewheel.policies import (
    CONSUMER_ACTIONS,
    SENDER_ACTIONS,
    Statement,
    administrator_statements,
    consumer_statements,
    sender_statements,
    viewer_statements,
)
from tidewheel.storage import layout

READS = ("BatchGet", "Get", "List", "Query", "Scan", "ConditionCheck")
"""What the name of an action begins with that changes nothing. Receiving hides messages from others, so it counts."""
ATTRIBUTES = sorted({"unheard_of"}.union(*ITEMS.values(), *layout.CLIENT_ITEMS.values(), layout.CHECKED_BY_CLIENTS))
NOBODYS = "https://sqs.us-east-1.amazonaws.com/123456789012/nobodys"
PREFIXES = sorted(
    value for name, value in vars(object_names).items() if name.isupper() and isinstance(value, str) and "/" in value
)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A write or delete call of an attacker.

    Attributes:
        place: where, as REACHED names it.
        call: service and operation.
        params: its parameters.
    """

    place: str
    call: str
    params: dict[str, Any] = field(hash=False)

    @property
    def action(self) -> str:
        """The tested action. For a transaction, the action of the last item."""
        service, _, operation = self.call.partition(":")
        if operation == "TransactWriteItems":
            [kind] = self.params["TransactItems"][-1]
            operation = f"{kind}Item"
        return f"{service}:{operation}"


# ---- places


def partitions() -> dict[str, str]:
    """Place -> partition key."""
    found = {"SERVICE": layout.SERVICE, "elsewhere": "other"}
    for topic in (MINE, OTHER):
        found |= {
            f"{topic}": layout.topic_partition(topic),
            f"{topic} tombstones": layout.tombstone_partition(topic),
            f"{topic} keys": layout.key_partitions(topic)[3],
            f"{topic} moves": layout.moves_partition(topic),
            f"{topic} notes": layout.note_key(topic, "")[0],
            f"{topic} claims": layout.claim_key(topic, MessageId("x"))[0],
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
    sqs, settings = world.stack._emulator.session().client("sqs"), world.settings
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
    }
    for topic in (MINE, OTHER):
        found[f"{topic} ingest"] = settings.topic_queues[topic][0]
        found[f"{topic} mail"] = world.queue_url(topic)
        found[f"{topic} mail dead"] = f"{world.queue_url(topic)}-dead"
    return found


# ---- attacks


def item(partition: str, *names: str) -> dict[str, Any]:
    """A key, and attributes."""
    return {name: {"S": partition if name == "pk" else "x"} for name in ("pk", "sk", *names)}


def on_items(world: World) -> Iterator[Attack]:
    """Puts, updates and deletions of an item, alone, in batches, and in transactions of every kind."""
    table = {"TableName": world.settings.table}
    check = {**table, "Key": item(f"T#{MINE}"), "ConditionExpression": "sealed <= :s"}
    for place, pk in partitions().items():
        name = "claimed" if place.endswith("claims") else "v"
        update = {"UpdateExpression": f"SET {name} = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}}
        for kind, params in (
            ("Put", {"Item": item(pk, "v")}),
            ("Update", {"Key": item(pk), **update}),
            ("Delete", {"Key": item(pk)}),
        ):
            yield Attack(place=place, call=f"dynamodb:{kind}Item", params={**table, **params})
            write = {kind: {**table, **params}}
            for beside in ([], [{"ConditionCheck": check}], [{"Put": {**table, "Item": item(f"T#{MINE}#TOMB", "v")}}]):
                transaction = {"TransactItems": [*beside, write]}
                yield Attack(place=place, call="dynamodb:TransactWriteItems", params=transaction)
        for request in ({"PutRequest": {"Item": item(pk)}}, {"DeleteRequest": {"Key": item(pk)}}):
            yield Attack(
                place=place, call="dynamodb:BatchWriteItem", params={"RequestItems": {world.settings.table: [request]}}
            )


def on_objects(world: World) -> Iterator[Attack]:
    """Puts and deletions of objects, and the loss of versions."""
    bucket = {"Bucket": world.settings.s3_bucket}
    for place, key in objects().items():
        named = {**bucket, "Key": key}
        for operation in ("PutObject", "CreateMultipartUpload", "DeleteObject", "AbortMultipartUpload"):
            yield Attack(place=place, call=f"s3:{operation}", params=named)
        gone = {"Objects": [{"Key": key, "VersionId": "1"}]}
        yield Attack(place=place, call="s3:DeleteObjects", params={**bucket, "Delete": gone})
    for operation in ("DeleteBucket", "PutBucketVersioning"):
        yield Attack(place="bucket", call=f"s3:{operation}", params=bucket)


ON_QUEUES = (
    *("AddPermission", "ChangeMessageVisibility", "DeleteMessage", "DeleteQueue", "PurgeQueue", "ReceiveMessage"),
    *("RemovePermission", "SendMessage", "SetQueueAttributes", "TagQueue", "UntagQueue"),
)


def on_queues(world: World) -> Iterator[Attack]:
    """Yields all changes of a queue and of messages in the queue."""
    places = queues(world)
    arns = {place: f"arn:aws:sqs:us-east-1:123456789012:{url.rpartition('/')[2]}" for place, url in places.items()}
    for place, url in places.items():
        for operation in ON_QUEUES:
            yield Attack(place=place, call=f"sqs:{operation}", params={"QueueUrl": url})
        for target, arn in arns.items():
            params = {"SourceArn": arns[place], "DestinationArn": arn}
            yield Attack(place=f"{place} to {target}", call="sqs:StartMessageMoveTask", params=params)
    for place, name in (("new", "tidewheel-new"), ("elsewhere", "new")):
        yield Attack(place=place, call="sqs:CreateQueue", params={"QueueName": name, "tags": {ROLE_TAG: SUBSCRIPTION}})


def on_others(world: World) -> Iterator[Attack]:
    """Functions, jobs, schedules and settings."""
    for function in ("ingest", "dispatch", "deliver", "sweep", "compact"):
        yield Attack(place=function, call="lambda:Invoke", params={"FunctionName": f"tidewheel-{function}"})
    target = {"Arn": world.settings.dispatch_arn, "RoleArn": world.settings.schedule_role_arn}
    for operation in ("CreateSchedule", "UpdateSchedule", "DeleteSchedule"):
        params = {"Name": f"{MINE}.1", "GroupName": world.settings.schedule_group, "Target": target}
        yield Attack(place="wheel", call=f"scheduler:{operation}", params=params)
    for operation in ("PutParameter", "DeleteParameter"):
        yield Attack(place="settings", call=f"ssm:{operation}", params={"Name": "/tidewheel/tidewheel/settings"})
    yield Attack(place="merge", call="glue:StartJobRun", params={"JobName": "tidewheel-merge"})


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with LocalTidewheel(template=normalized(synthesized(MINE, OTHER))) as stack:
        yield World(stack)


@pytest.fixture(scope="module")
def attacks(world: World) -> list[Attack]:
    return [*on_items(world), *on_objects(world), *on_queues(world), *on_others(world)]


def requests(attack: Attack) -> list[Request]:
    """Returns the IAM requests of a call, under both readings of a transaction."""
    service, _, operation = attack.call.partition(":")
    return [each for request in requests_of(service, operation, attack.params) for each in asked(request, operation)]


def reached(given: Sequence[Statement], attacks: Iterable[Attack]) -> dict[str, str]:
    """Returns the places where statements allow each action."""
    found: dict[str, dict[str, None]] = {}
    for attack in attacks:
        if all(allowed(given, each) for each in requests(attack)):
            found.setdefault(attack.action, {})[attack.place] = None
    return {action: ", ".join(places) for action, places in found.items()}


# ---- what they reach

OWN_QUEUES = "orders mail, orders mail dead"
RECEIVES = {
    **{f"sqs:{name}": OWN_QUEUES for name in ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage")},
    "sqs:SendMessage": "orders mail dead",
    "dynamodb:UpdateItem": "orders claims",
}
MARKS = "orders tombstones, orders keys"
ITEMS_OF_TOPICS = ", ".join(place for place in partitions() if place not in ("SERVICE", "elsewhere"))
STORED = ", ".join(f"{prefix}{topic}/" for topic in (MINE, OTHER) for prefix in ("ledgers/", "parked/", "plans/"))
QUEUES_OF_SUBSCRIPTIONS = f"{OWN_QUEUES}, orders2 mail, orders2 mail dead"
ADMINISTERS = {
    **{f"dynamodb:{kind}Item": ITEMS_OF_TOPICS for kind in ("Put", "Update", "Delete")},
    "s3:PutObject": STORED,
    "s3:CreateMultipartUpload": STORED,
    "s3:DeleteObject": "parked/orders/, parked/orders2/",
    "sqs:CreateQueue": "new",
    "sqs:TagQueue": f"named alike, {QUEUES_OF_SUBSCRIPTIONS}",
    "sqs:DeleteQueue": QUEUES_OF_SUBSCRIPTIONS,
    "sqs:SendMessage": "work, refused",
}
INGEST = "shared ingest, orders ingest, orders2 ingest"
REACHED: dict[str, dict[str, str]] = {
    "sender send": {"sqs:SendMessage": "orders ingest"},
    "sender plain": {"sqs:SendMessage": "orders ingest"},
    "sender cancel": {"dynamodb:PutItem": MARKS, "dynamodb:UpdateItem": "orders claims"},
    "sender reschedule": {
        "dynamodb:PutItem": f"{MARKS}, orders moves",
        "dynamodb:UpdateItem": "orders claims",
        "sqs:SendMessage": "orders ingest",
    },
    "sender look": {},
    "sender large_bodies": {},  # creates bodies, and overwrites none: test_large_bodies_attacked
    "sender of all": {
        "dynamodb:PutItem": f"{MARKS}, orders moves",
        "dynamodb:UpdateItem": "orders claims",
        "sqs:SendMessage": "orders ingest",
    },
    "sender of shared queues": {"sqs:SendMessage": "shared ingest"},
    "consumer receive": RECEIVES,
    "consumer retry_later": {**RECEIVES, "sqs:SendMessage": "orders ingest, orders mail dead"},
    "consumer redrive": {
        **RECEIVES,
        "sqs:SendMessage": OWN_QUEUES,
        "sqs:StartMessageMoveTask": "orders mail dead to orders mail, orders mail dead to orders mail dead",
    },
    "consumer of all": {
        **RECEIVES,
        "sqs:SendMessage": f"orders ingest, {OWN_QUEUES}",
        "sqs:StartMessageMoveTask": ", ".join(
            f"orders mail dead to {target}" for target in ("orders ingest", "orders mail", "orders mail dead")
        ),
    },
    "viewer": {},
    "administrator": ADMINISTERS,
    "administrator with dead letters": {
        **ADMINISTERS,
        "sqs:ReceiveMessage": "refused, dead letters of work",
        "sqs:DeleteMessage": "refused, dead letters of work",
        "sqs:ChangeMessageVisibility": "refused, dead letters of work",
        "sqs:SendMessage": "shared ingest, work, refused, orders ingest, orders2 ingest",
    },
}
"""Policy -> action -> the places of `Attack` that it reaches."""


def statements(world: World, name: str) -> list[Statement]:
    """Returns the statements of a policy by its name in REACHED."""
    role, _, action = name.partition(" ")
    actions: Any
    if role == "administrator":
        dead = world.dead_letter_queues() if action else []
        return administrator_statements(world.settings, dead_letter_queues=dead)
    if role == "viewer":
        return viewer_statements(world.settings)
    if role == "consumer":
        actions = CONSUMER_ACTIONS if action == "of all" else (action,)
        return consumer_statements(world.settings, MINE, world.queue_url(MINE), actions=actions)
    if action == "of shared queues":
        return sender_statements(world.settings, SHARED[0], actions=("send",))
    return sender_statements(world.settings, MINE, actions=SENDER_ACTIONS if action == "of all" else (action,))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REACHED)
def test_a_policy_reaches_what_is_listed_and_nothing_else(world: World, attacks: list[Attack], name: str) -> None:
    assert reached(statements(world, name), attacks) == REACHED[name]


def test_every_action_has_a_policy_here() -> None:
    of = {
        role: {name.partition(" ")[2] for name in REACHED if name.startswith(role)} for role in ("sender", "consumer")
    }
    assert set(SENDER_ACTIONS) < of["sender"] and set(CONSUMER_ACTIONS) < of["consumer"]


@pytest.mark.parametrize("name", REACHED)
def test_whatever_a_policy_lets_be_changed_is_tried(world: World, attacks: list[Attack], name: str) -> None:
    tried = {each.action for attack in attacks for each in requests(attack)}
    given = {action for statement in statements(world, name) for action in statement["Action"]}
    assert not any("*" in action for action in given)
    changing = {each for each in given if not each.partition(":")[2].startswith(READS) and not each.startswith("kms:")}
    assert changing <= tried


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("sender cancel", ("tombstone", "key")),
        ("sender reschedule", ("tombstone", "key", "move")),
        ("sender of all", ("tombstone", "key", "move")),
    ],
)
def test_a_sender_puts_no_attribute_but_those_of_its_items_and_of_its_transactions(
    world: World, name: str, kinds: tuple[str, ...]
) -> None:
    given = statements(world, name)
    found: dict[str, set[str]] = {}
    for place, pk in partitions().items():
        for attribute in ATTRIBUTES:
            params = {"TableName": world.settings.table, "Item": item(pk, attribute)}
            if all(allowed(given, each) for each in requests_of("dynamodb", "PutItem", params)):
                found.setdefault(place, set()).add(attribute)
    own = {layout.PARTITION_KEY, layout.SORT_KEY}.union(*(layout.CLIENT_ITEMS[kind] for kind in kinds))
    places = ["orders tombstones", "orders keys", *["orders moves"] * ("move" in kinds)]
    assert found == dict.fromkeys(places, own | layout.CHECKED_BY_CLIENTS)


@pytest.mark.parametrize("name", ["sender cancel", "sender of all"])
def test_under_the_second_reading_alone_a_sender_reaches_its_topic_without_the_index_of_checks(
    world: World, attacks: list[Attack], name: str
) -> None:
    given = statements(world, name)

    def may(partition: str, attribute: str) -> bool:
        table = {"TableName": world.settings.table}
        puts = [{"Put": {**table, "Item": item(each, attribute)}} for each in (f"T#{MINE}#TOMB", partition)]
        asked = requests_of("dynamodb", "TransactWriteItems", {"TransactItems": puts})
        return all(allowed(given, each) for each in asked if len(dict(each.context)["dynamodb:LeadingKeys"]) == 2)

    assert may(f"T#{MINE}", "v") and may(f"T#{MINE}", "sealed")
    assert not any(may(f"T#{MINE}", each) for each in ("check_shard", "next_check_ms", "generation"))
    beyond = {place: pk for place, pk in partitions().items() if not place.startswith(f"{MINE} ") and place != MINE}
    assert [place for place, pk in beyond.items() if may(pk, "v")] == []


# ---- attacks that were seen


def test_a_sender_with_cancel_cannot_put_an_item_into_the_index_of_checks(world: World) -> None:
    dynamodb = session_of(world, statements(world, "sender cancel")).client("dynamodb")
    forged = item(f"T#{MINE}#TOMB", "check_shard") | {"next_check_ms": {"N": "0"}}
    with pytest.raises(ClientError, match="dynamodb:PutItem"):
        dynamodb.put_item(TableName=world.settings.table, Item=forged)
    with pytest.raises(ClientError, match="dynamodb:PutItem"):
        put = {"Put": {"TableName": world.settings.table, "Item": forged}}
        dynamodb.transact_write_items(TransactItems=[put])


def test_an_administrator_deletes_no_queue_of_the_service_nor_tags_it_as_a_subscriptions(world: World) -> None:
    sqs = session_of(world, statements(world, "administrator with dead letters")).client("sqs")
    places = queues(world)
    for place in set(places) - {f"{topic} mail{end}" for topic in (MINE, OTHER) for end in ("", " dead")}:
        with pytest.raises(ClientError, match="sqs:DeleteQueue"):
            sqs.delete_queue(QueueUrl=places[place])
        if place != "named alike":
            with pytest.raises(ClientError, match="sqs:TagQueue"):
                sqs.tag_queue(QueueUrl=places[place], Tags={STACK_TAG: "tidewheel", ROLE_TAG: SUBSCRIPTION})


def test_a_subscription_whose_queue_would_have_the_name_of_a_queue_of_the_service_gets_another(world: World) -> None:
    client, work = world.stack.client(), world.settings.work_queue_url
    topic, _, name = work.rpartition("/")[2].removeprefix("tidewheel-").partition("-")
    client.create_topic(topic)
    url = client.create_subscription(topic, name).queue_url
    assert url != work and url.startswith(f"{work}-")
    client.delete_topic(topic, delete_queues=True)
    assert work in world.stack._emulator.session().client("sqs").list_queues(QueueNamePrefix="tidewheel-")["QueueUrls"]
