"""Compares the clients' requests on the local stack with the granted statements.

A new call of the client is one entry of CALLS. What a role is given and no call there uses is in AWAITED, exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from infra.local_template import normalized
from tests.iam_requests import requests_of
from tests.infra.dedicated import synthesized
from tests.infra.needed_grants import matching
from tidewheel import policies
from tidewheel.client.consumer import Consumer
from tidewheel.client.health import Problem
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.iam_policy import Request, allowed
from tidewheel.local.emulator.iam_resources import asked
from tidewheel.model.message import Message
from tidewheel.model.plan import Plan, PlannedSegment
from tidewheel.model.set_aside import SetAside, SetAsideKey
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.policies import Statement, consumer_statements, sender_statements

MINE, OTHER, NEW = "orders", "orders2", "new"
"""Two topics with queues of their own, of which one's name starts with the other's; and one to be created."""
SHARED = ("invoices", "letters")
SENDER, CONSUMER, ADMINISTRATOR = "sender", "consumer", "administrator"
LARGEST_MANAGED_POLICY = 6_144


class World:
    """A local stack with topics, and a log of the clients' requests."""

    def __init__(self, stack: LocalTidewheel) -> None:
        self.stack = stack
        self.notes: list[Request] = []
        self.made: dict[tuple[str, str], list[Request]] = {}
        self.sent: dict[str, str] = {}
        stack.session.events.register("before-parameter-build.*.*", self._note)
        client = stack.client()
        for topic in (MINE, OTHER, *SHARED):
            client.create_topic(topic, cancel_until="consumed")
            client.create_subscription(topic, "mail")
        parameter = stack.session.client("ssm").get_parameter(Name=parameter_name("tidewheel"))
        self.settings = ServiceSettings.from_json(parameter["Parameter"]["Value"], "the parameter")

    def _note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        for request in requests_of(model.service_model.service_name, model.name, params):
            self.notes += asked(request, model.name)

    def queue_url(self, topic: str) -> str:
        [found] = self.stack.client().subscriptions(topic)
        return found.queue_url

    def dead_letter_queues(self) -> list[str]:
        """ARNs of the dead-letter queues of the service's own queues."""
        sqs = self.stack.session.client("sqs")
        pairs = [(self.settings.urgent_queue_url, self.settings.bulk_queue_url), *self.settings.topic_queues.values()]
        urls = [*(url for pair in pairs for url in pair), self.settings.work_queue_url]
        policies = [
            sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]["RedrivePolicy"]
            for url in urls
        ]
        return [str(json.loads(policy)["deadLetterTargetArn"]) for policy in policies]


Prepare = Callable[[World, str], object]
Do = Callable[[Tidewheel, World, str], object]


def nothing(world: World, topic: str) -> None:
    """Arranges nothing."""


def something_due(world: World, topic: str) -> None:
    world.stack.client().send(topic, "due")
    world.stack.advance(seconds=2)


def something_large_due(world: World, topic: str) -> None:
    world.stack.client().send(topic, "x" * 2_000_000)
    world.stack.advance(seconds=2)


def something_waiting(world: World, topic: str) -> None:
    world.sent[topic] = world.stack.client().send(topic, "waiting", delay="2d", key="a key").id
    world.stack.advance(minutes=10)


def something_large_waiting(world: World, topic: str) -> None:
    world.sent[topic] = world.stack.client().send(topic, "x" * 2_000_000, delay="2d").id
    world.stack.advance(minutes=10)


def something_sealed(world: World, topic: str) -> None:
    world.sent[topic] = world.stack.client().send(topic, "sealed", delay="1m", key="a sealed key").id
    world.stack.advance(seconds=2)


def receive_and_delete(tw: Tidewheel, world: World, topic: str) -> None:
    tw.delete(topic, "mail", tw.receive(topic, "mail"))


def plain_consumer(tw: Tidewheel, world: World, topic: str) -> None:
    sqs = world.stack.session.client("sqs")
    url = world.queue_url(topic)
    world.notes.clear()  # it was told the queue
    for queue in ({"QueueUrl": url}, {"QueueUrl": f"{url}-dead"}):
        sqs.get_queue_attributes(**queue)
        for each in sqs.receive_message(**queue).get("Messages", []):
            sqs.change_message_visibility(**queue, ReceiptHandle=each["ReceiptHandle"], VisibilityTimeout=60)
            sqs.delete_message(**queue, ReceiptHandle=each["ReceiptHandle"])


def something_dead(world: World, topic: str) -> None:
    url = f"{world.queue_url(topic)}-dead"
    world.stack.session.client("sqs").send_message(QueueUrl=url, MessageBody="dead")


def all_dead(world: World, topic: str) -> None:
    sqs = world.stack.session.client("sqs")
    named: Any = {"tidewheel.topic": {"DataType": "String", "StringValue": topic}}
    for arn in world.dead_letter_queues():
        url = sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="dead", MessageAttributes=named)
    urgent_arn = f"arn:aws:sqs:us-east-1:123456789012:{world.settings.urgent_queue_url.rpartition('/')[2]}"
    document = {"queue_arn": urgent_arn, "attributes": named, "body": "x", "sqs_message_id": "1", "sent_at_ms": 1}
    s3 = world.stack.session.client("s3")
    s3.put_object(Bucket=world.settings.s3_bucket, Key="refused/1.json", Body=json.dumps(document).encode())
    reference = json.dumps({"queue_arn": urgent_arn, "object_name": "refused/1.json"})
    sqs.send_message(QueueUrl=world.settings.refused_queue_url, MessageBody=reference)


def something_delivered(world: World, topic: str) -> None:
    world.stack.client().update_topic(topic, retention_s=86_400)
    world.stack.client().send(topic, "x", delay="2h")
    world.stack.advance(hours=2, minutes=1)


def retry_and_give_up(tw: Tidewheel, world: World, topic: str) -> None:
    for attempts in (2, 1):
        consumer = Consumer(tw, topic, "mail", max_attempts=attempts)
        consumer.retry_later(consumer.receive(max_messages=1)[0])
        if attempts == 2:
            something_due(world, topic)


def retry_once(tw: Tidewheel, world: World, topic: str) -> None:
    consumer = Consumer(tw, topic, "mail")
    consumer.retry_later(consumer.receive(max_messages=1)[0])


def redrive(tw: Tidewheel, world: World, topic: str) -> None:
    tw.redrive(topic, "mail")


def something_damaged(world: World, topic: str) -> None:
    """Prepares a damaged ledger, overwritten in an S3 bucket with versions."""
    something_waiting(world, topic)
    set_aside(world.stack, topic, "mail", "restore", "give-up")


def set_aside(stack: LocalTidewheel, topic: str, subscription: str, *ids: str) -> None:
    """Overwrites a topic's last ledger in a versioned bucket, and sets the ledger aside under each id."""
    connection = stack.client().core.connection
    storage, s3_bucket = connection.storage, connection.settings.s3_bucket
    s3 = stack.session.client("s3")
    bucket = storage.buckets.all(topic)[-1]
    s3.put_bucket_versioning(Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.copy_object(
        Bucket=s3_bucket,
        Key=bucket.object_name,
        CopySource={"Bucket": s3_bucket, "Key": bucket.object_name},
        MetadataDirective="REPLACE",
    )
    stack.advance(seconds=1)  # moto lists versions of the same moment in any order
    s3.put_object(Bucket=s3_bucket, Key=bucket.object_name, Body=b"rubbish")
    stack.advance(seconds=1)
    segment = PlannedSegment(object_name=bucket.object_name, segment=bucket.segments[0], due_rows=1)
    for id in ids:
        storage.set_aside.put(
            SetAside(
                key=SetAsideKey(topic=topic, subscription=subscription, generation="s1", id=id),
                plan=Plan(topic=topic, first_slot=1, end_slot=2, segments=(segment,)),
                ranges=((0, 0, 1),),
                start=0,
                reason="damaged",
                first_seen_ms=0,
                next_check_ms=None,
            )
        )


def restore_and_give_up(tw: Tidewheel, world: World, topic: str) -> None:
    assert len(tw.damaged(topic)) == 2
    tw.give_up_damaged(topic, "mail:give-up", "no backup")
    tw.restore_damaged(topic, "mail:restore")


def recur(tw: Tidewheel, world: World, topic: str) -> None:
    tw.send_recurring(topic, "daily", "x", every="1d")
    assert len(tw.recurring(topic)) == 1
    tw.cancel_recurring(topic, "daily")


def all_listed(world: World, topic: str) -> None:
    nothing_listed(world, topic)
    world.stack.client().topics()


def nothing_listed(world: World, topic: str) -> None:
    """Prepares a list of topics that lacks some."""
    world.stack.advance(minutes=6)
    listed = world.stack.client().core.connection.storage.topic_list
    listed.unmark()
    listed.remove(topic)


def look_for_health(tw: Tidewheel, world: World, topic: str | None) -> None:
    """Fails if something cannot be read. A sender cannot read the queues of subscriptions."""
    unread = [each for each in tw.health(topic) if each.problem is Problem.NOT_READABLE]
    assert not [each.what for each in unread if topic is None or each.subscription is None]


def pause_and_resume(tw: Tidewheel, world: World, topic: str) -> None:
    tw.pause(topic, "mail")
    tw.resume(topic, "mail")


def subscribe_and_leave(tw: Tidewheel, world: World, topic: str) -> None:
    tw.create_subscription(topic, "later")
    tw.delete_subscription(topic, "later", delete_queue=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the client, with the caller's role and actions.

    Attributes:
        role, actions: whose statements, and for which actions; None: the administrator's.
        do: makes the call with a new client, so that nothing is known from before.
        prepare: arranges what it needs; not counted.
        optional: actions that the client can do without.
    """

    role: str
    do: Do
    actions: tuple[Any, ...] | None = None
    prepare: Prepare = nothing
    optional: frozenset[str] = field(default=frozenset())


SEND, CANCEL = ("send",), ("send", "cancel")
CALLS = {
    "send": Call(role=SENDER, actions=SEND, do=lambda tw, w, t: tw.send(t, "later", delay="2d")),
    "send with a key": Call(role=SENDER, actions=SEND, do=lambda tw, w, t: tw.send(t, "x", key="k", replace=True)),
    "send_many": Call(
        role=SENDER,
        actions=SEND,
        do=lambda tw, w, t: tw.send_many(t, [Message(body="x", delay=s) for s in (0, 7200)]),
    ),
    "send a large body": Call(
        role=SENDER, actions=("send", "large_bodies"), do=lambda tw, w, t: tw.send(t, "x" * 2_000_000)
    ),
    "cancel by id": Call(
        role=SENDER, actions=CANCEL, prepare=something_waiting, do=lambda tw, w, t: tw.cancel(t, w.sent[t])
    ),
    "cancel by key": Call(
        role=SENDER, actions=CANCEL, prepare=something_waiting, do=lambda tw, w, t: tw.cancel(t, key="a key")
    ),
    "cancel_many": Call(
        role=SENDER, actions=CANCEL, prepare=something_waiting, do=lambda tw, w, t: tw.cancel_many(t, [w.sent[t]])
    ),
    "cancel by id of a sealed message": Call(
        role=SENDER, actions=CANCEL, prepare=something_sealed, do=lambda tw, w, t: tw.cancel(t, w.sent[t])
    ),
    "cancel by key of a sealed message": Call(
        role=SENDER, actions=CANCEL, prepare=something_sealed, do=lambda tw, w, t: tw.cancel(t, key="a sealed key")
    ),
    "reschedule": Call(
        role=SENDER,
        actions=("reschedule",),
        prepare=something_waiting,
        do=lambda tw, w, t: tw.reschedule(t, w.sent[t], delay="3d"),
    ),
    "reschedule by key": Call(
        role=SENDER,
        actions=("reschedule",),
        prepare=something_waiting,
        do=lambda tw, w, t: tw.reschedule(t, key="a key", delay="3d"),
    ),
    "reschedule a large body": Call(
        role=SENDER,
        actions=("reschedule", "large_bodies"),
        prepare=something_large_waiting,
        do=lambda tw, w, t: tw.reschedule(t, w.sent[t], delay="3d"),
    ),
    "get": Call(role=SENDER, actions=("look",), prepare=something_waiting, do=lambda tw, w, t: tw.get(t, w.sent[t])),
    "peek": Call(role=SENDER, actions=("look",), prepare=something_waiting, do=lambda tw, w, t: tw.peek(t)),
    "find by a prefix": Call(
        role=SENDER,
        actions=("look",),
        prepare=something_waiting,
        do=lambda tw, w, t: list(tw.find(t, key_prefix="a ")),
    ),
    "stats": Call(
        role=SENDER,
        actions=("look",),
        do=lambda tw, w, t: tw.stats(t),
        optional=frozenset({"sqs:GetQueueAttributes"}),
    ),
    "health of a topic": Call(
        role=SENDER,
        actions=("look",),
        do=look_for_health,
        optional=frozenset({"sqs:GetQueueAttributes"}),
    ),
    "ledgers": Call(role=SENDER, actions=("look",), do=lambda tw, w, t: tw.ledgers(t)),
    "read a large body": Call(
        role=SENDER,
        actions=("look", "large_bodies"),
        prepare=something_large_waiting,
        do=lambda tw, w, t: tw.read_body(tw.peek(t)[0]),
    ),
    "receive": Call(role=CONSUMER, actions=("receive",), prepare=something_due, do=receive_and_delete),
    "receive with plain boto3": Call(role=CONSUMER, actions=("receive",), prepare=something_due, do=plain_consumer),
    "receive a large body": Call(
        role=CONSUMER, actions=("receive",), prepare=something_large_due, do=receive_and_delete
    ),
    "Consumer.receive": Call(
        role=CONSUMER,
        actions=("receive",),
        prepare=something_large_due,
        do=lambda tw, w, t: Consumer(tw, t, "mail").receive(),
    ),
    "Consumer.retry_later": Call(
        role=CONSUMER, actions=("receive", "retry_later"), prepare=something_due, do=retry_and_give_up
    ),
    "Consumer.retry_later of a large body": Call(
        role=CONSUMER, actions=("receive", "retry_later"), prepare=something_large_due, do=retry_once
    ),
    "dead_letters": Call(
        role=CONSUMER, actions=("receive",), prepare=something_dead, do=lambda tw, w, t: tw.dead_letters(t, "mail")
    ),
    "redrive": Call(role=CONSUMER, actions=("receive", "redrive"), prepare=something_dead, do=redrive),
    "create_topic": Call(role=ADMINISTRATOR, do=lambda tw, w, t: tw.create_topic(NEW)),
    "create and delete a subscription": Call(role=ADMINISTRATOR, do=subscribe_and_leave),
    "update_topic": Call(role=ADMINISTRATOR, do=lambda tw, w, t: tw.update_topic(t, max_buckets=32)),
    "purge": Call(role=ADMINISTRATOR, prepare=something_waiting, do=lambda tw, w, t: tw.purge(t)),
    "replay": Call(role=ADMINISTRATOR, prepare=something_delivered, do=lambda tw, w, t: tw.replay(t, "mail")),
    "recurring": Call(role=ADMINISTRATOR, do=recur, optional=frozenset({"sqs:SendMessage"})),
    "delete_topic": Call(
        role=ADMINISTRATOR,
        prepare=lambda w, t: w.stack.client().create_topic("old"),
        do=lambda tw, w, t: tw.delete_topic("old", delete_queues=True),
    ),
    "set_filter": Call(role=ADMINISTRATOR, do=lambda tw, w, t: tw.set_filter(t, "mail", None)),
    "list": Call(role=ADMINISTRATOR, prepare=all_listed, do=lambda tw, w, t: tw.topics()),
    "list after an upgrade": Call(
        role=ADMINISTRATOR,
        prepare=nothing_listed,
        do=lambda tw, w, t: [tw.subscriptions(each.name) for each in tw.topics()],
    ),
    "peek of an administrator": Call(role=ADMINISTRATOR, prepare=something_waiting, do=lambda tw, w, t: tw.peek(t)),
    "stats of an administrator": Call(role=ADMINISTRATOR, do=lambda tw, w, t: tw.stats(t)),
    "redrive of the service": Call(role=ADMINISTRATOR, prepare=all_dead, do=lambda tw, w, t: tw.redrive_service()),
    "refused": Call(role=ADMINISTRATOR, prepare=all_dead, do=lambda tw, w, t: tw.refused()),
    "health": Call(role=ADMINISTRATOR, do=lambda tw, w, t: look_for_health(tw, w, None)),
    "damaged": Call(role=ADMINISTRATOR, prepare=something_damaged, do=restore_and_give_up),
    "pause and resume": Call(role=ADMINISTRATOR, prepare=something_waiting, do=pause_and_resume),
}
ONE_TOPIC = [name for name, call in CALLS.items() if call.role != ADMINISTRATOR]

AWAITED = {
    SENDER: set(),
    CONSUMER: set(),
    ADMINISTRATOR: {"s3:DeleteObject on S3/parked/*", "s3:PutObject on S3/payloads/*"},
}
"""What each role is given for calls that CALLS does not have yet."""


def statements(world: World, call: Call, topic: str) -> list[Statement]:
    """Returns the caller's statements for a topic."""
    if call.role == SENDER:
        return sender_statements(world.settings, topic, actions=call.actions or ())
    if call.role == CONSUMER:
        return consumer_statements(world.settings, topic, world.queue_url(topic), actions=call.actions or ())
    return policies.administrator_statements(world.settings, dead_letter_queues=world.dead_letter_queues())


def made(world: World, name: str, topic: str) -> list[Request]:
    """Makes a call of CALLS once per topic, and returns the requests."""
    if (name, topic) not in world.made:
        CALLS[name].prepare(world, topic)
        world.notes.clear()
        CALLS[name].do(world.stack.client(), world, topic)
        world.made[name, topic] = list(world.notes)
    return world.made[name, topic]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with LocalTidewheel(template=normalized(synthesized(MINE, OTHER))) as stack:
        yield World(stack)


# ---- the statements and the calls


@pytest.mark.parametrize("name", CALLS)
def test_every_request_of_a_call_is_allowed(world: World, name: str) -> None:
    given_ = statements(world, CALLS[name], MINE)
    denied = {each for each in made(world, name, MINE) if not allowed(given_, each)}
    assert {each.action for each in denied} <= CALLS[name].optional, denied


@pytest.mark.parametrize("name", ONE_TOPIC)
def test_no_request_of_the_same_call_on_another_topic_is_allowed_but_reading_the_settings(
    world: World, name: str
) -> None:
    given_ = statements(world, CALLS[name], MINE)
    found = {each.action for each in made(world, name, OTHER) if allowed(given_, each)}
    assert found <= {"ssm:GetParameter", *policies.KMS_ACTIONS}


@pytest.mark.parametrize("role", [SENDER, CONSUMER, ADMINISTRATOR])
def test_nothing_that_is_given_is_unused(world: World, role: str) -> None:
    calls = {name: call for name, call in CALLS.items() if call.role == role}
    requests = {each for name in calls for each in made(world, name, MINE)}
    actions = {SENDER: policies.SENDER_ACTIONS, CONSUMER: policies.CONSUMER_ACTIONS}.get(role)
    unused = set()
    for statement in statements(world, replace(next(iter(calls.values())), actions=actions), MINE):
        used = {each.action for each in requests if matching([statement], each)}
        unused |= {f"{action} on {shown(world, statement)}" for action in set(statement["Action"]) - used}
    assert unused == AWAITED[role]


def shown(world: World, statement: Statement) -> str:
    """Returns a statement's first resource, with stable names."""
    name = str(statement["Resource"][0]).rpartition(":")[2]
    return name.replace(world.settings.s3_bucket, "S3").replace(world.settings.table, "T")


def test_without_queues_of_its_own_a_sender_may_send_to_every_topic_that_has_none(world: World) -> None:
    mine, other = SHARED
    assert policies.shares_queues(world.settings, mine) and not policies.shares_queues(world.settings, MINE)
    given_ = statements(world, CALLS["send"], mine)
    assert all(allowed(given_, each) for each in made(world, "send", mine))
    found = {each.action for each in made(world, "send", other) if allowed(given_, each)}
    assert found == {"ssm:GetParameter", "sqs:SendMessage", *policies.KMS_ACTIONS}
    found = {each.action for each in made(world, "send", MINE) if allowed(given_, each)}
    assert found == {"ssm:GetParameter", *policies.KMS_ACTIONS}


@pytest.mark.parametrize("name", CALLS)
def test_the_key_may_be_used_through_the_services_that_a_call_uses_and_not_otherwise(world: World, name: str) -> None:
    given_ = statements(world, CALLS[name], MINE)
    uses = {each for each in made(world, name, MINE) if each.action in policies.KMS_ACTIONS}
    # A queue that a client makes has SQS's own key.
    assert bool(uses) is (name != "receive with plain boto3")
    assert {each.resource for each in uses} <= {world.settings.encryption_key_arn}
    for use in uses:
        assert allowed(given_, use)
        assert not allowed(given_, replace(use, context=()))
        assert not allowed(given_, replace(use, resource=f"{use.resource}x"))


def test_cancelling_and_rescheduling_are_the_only_calls_with_a_transaction_over_several_partitions(
    world: World,
) -> None:
    def together(request: Request) -> bool:
        return len(dict(request.context).get(policies.LEADING_KEYS, ())) > 1

    found = {name for name in CALLS if any(together(each) for each in made(world, name, MINE))}
    assert found == {
        "cancel by id",
        "cancel by id of a sealed message",
        "cancel by key",
        "cancel by key of a sealed message",
        "cancel_many",
        "reschedule",
        "reschedule by key",
        "reschedule a large body",
    }


def test_a_policy_of_all_actions_for_two_topics_fits_into_a_managed_policy(world: World) -> None:
    both = sender_statements(world.settings, MINE) + sender_statements(world.settings, OTHER)
    assert len(json.dumps(policies.policy_document(both), separators=(",", ":"))) < LARGEST_MANAGED_POLICY
