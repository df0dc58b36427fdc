"""Compares the clients' requests on the local stack with the granted statements.

A new call of the client is one entry of CALLS. What a role is given and no call there uses is in AWAITED, exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import pytest

from tests.damaged_delivery import put_damaged
from tests.iam.iam_policy import Request, allowed
from tests.iam.iam_resources import asked
from tests.iam_requests import requests_of
from tests.infra.needed_grants import matching
from tests.infra.variants import DEDICATED, MINE, OTHER, local_template_of
from tidewheel import policies
from tidewheel.client.operations.health import Problem
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.worker.consumer import Consumer
from tidewheel.client.worker.worker import Worker
from tidewheel.errors import RetryLater
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.policies import Statement, consumer_statements, sender_statements

pytestmark = pytest.mark.long

NEW = "new"
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
            client.create_topic(topic, claims="all")
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
    header = {"id": world.stack.client().send(topic, "x", delay="2d").id, "enc": 0, "sent": 1}
    attributes: Any = {"tidewheel": {"DataType": "String", "StringValue": json.dumps(header)}}
    world.stack.session.client("sqs").send_message(QueueUrl=url, MessageBody="dead", MessageAttributes=attributes)


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
    world.stack.client().update_topic(topic, retention_days=1)
    world.stack.client().send(topic, "x", delay="2h")
    world.stack.advance(hours=2, minutes=1)


def work_and_give_up(tw: Tidewheel, world: World, topic: str) -> None:
    worker, stop = Worker(tw, wait_s=0), Event()

    @worker.handles(f"{topic}/mail", reject=(KeyError,))
    def work(message: ReceivedMessage) -> None:
        stop.set()
        raise KeyError if message.attempt else RetryLater(delay=0)

    for _ in range(2):
        stop.clear()
        worker.run(stop=stop)
        world.stack.advance(seconds=2)


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
    letter = tw.dead_letters(topic, "mail")[0]
    assert tw.redrive(topic, "mail", ids=[letter.id]).messages == 1
    tw.redrive(topic, "mail")


def something_damaged(world: World, topic: str) -> None:
    """Prepares a damaged ledger, overwritten in an S3 bucket with versions."""
    something_waiting(world, topic)
    damage(world.stack, topic, "mail", 1, 2)


def damage(stack: LocalTidewheel, topic: str, subscription: str, *plans: int) -> None:
    """Overwrites a topic's last ledger in a versioned bucket. Deliveries of some plans wait for it."""
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
    for plan in plans:
        put_damaged(storage, topic, subscription, plan, object_name=bucket.object_name)


def restore_and_give_up(tw: Tidewheel, world: World, topic: str) -> None:
    assert len(tw.damaged(topic)) == 2
    tw.give_up_damaged(topic, "mail:2", "no backup")
    tw.restore_damaged(topic, "mail:1")


def recur(tw: Tidewheel, world: World, topic: str) -> None:
    tw.send_recurring(topic, "daily", "x", every="1d")
    assert len(tw.recurring(topic)) == 1
    tw.cancel_recurring(topic, "daily")


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


def by_sender(actions: tuple[Any, ...], do: Do, prepare: Prepare = nothing, *optional: str) -> Call:
    return Call(role=SENDER, actions=actions, do=do, prepare=prepare, optional=frozenset(optional))


def by_consumer(do: Do, prepare: Prepare, *more: str) -> Call:
    return Call(role=CONSUMER, actions=("receive", *more), do=do, prepare=prepare)


def by_administrator(do: Do, prepare: Prepare = nothing, *optional: str) -> Call:
    return Call(role=ADMINISTRATOR, do=do, prepare=prepare, optional=frozenset(optional))


SEND, CANCEL, MOVE, LOOK = ("send",), ("send", "cancel"), ("reschedule",), ("look",)
LARGE = ("large_bodies",)
TWO = [Message(body="x", delay=delay_s) for delay_s in (0, 7200)]
QUEUES = "sqs:GetQueueAttributes"
FILTERS: tuple[Any, ...] = ({"kind": ["a"]}, None)
CALLS = {
    "send": by_sender(SEND, lambda tw, w, t: tw.send(t, "later", delay="2d")),
    "send with a key": by_sender(SEND, lambda tw, w, t: tw.send(t, "x", key="k", replace=True)),
    "send_many": by_sender(SEND, lambda tw, w, t: tw.send_many(t, TWO)),
    "send a large body": by_sender(SEND + LARGE, lambda tw, w, t: tw.send(t, "x" * 2_000_000)),
    "cancel by id": by_sender(CANCEL, lambda tw, w, t: tw.cancel(t, w.sent[t]), something_waiting),
    "cancel by key": by_sender(CANCEL, lambda tw, w, t: tw.cancel(t, key="a key"), something_waiting),
    "cancel_many": by_sender(CANCEL, lambda tw, w, t: tw.cancel_many(t, [w.sent[t]]), something_waiting),
    "cancel by id of a sealed message": by_sender(CANCEL, lambda tw, w, t: tw.cancel(t, w.sent[t]), something_sealed),
    "cancel by key of a sealed message": by_sender(
        CANCEL, lambda tw, w, t: tw.cancel(t, key="a sealed key"), something_sealed
    ),
    "reschedule": by_sender(MOVE, lambda tw, w, t: tw.reschedule(t, w.sent[t], delay="3d"), something_waiting),
    "reschedule by key": by_sender(MOVE, lambda tw, w, t: tw.reschedule(t, key="a key", delay="3d"), something_waiting),
    "reschedule a large body": by_sender(
        MOVE + LARGE, lambda tw, w, t: tw.reschedule(t, w.sent[t], delay="3d"), something_large_waiting
    ),
    "get": by_sender(LOOK, lambda tw, w, t: tw.get(t, w.sent[t]), something_waiting),
    "peek": by_sender(LOOK, lambda tw, w, t: tw.peek(t), something_waiting),
    "find by a prefix": by_sender(LOOK, lambda tw, w, t: list(tw.find(t, key_prefix="a ")), something_waiting),
    "stats": by_sender(LOOK, lambda tw, w, t: tw.stats(t), nothing, QUEUES),
    "health of a topic": by_sender(LOOK, look_for_health, nothing, QUEUES),
    "ledgers": by_sender(LOOK, lambda tw, w, t: tw.ledgers(t)),
    "read a large body": by_sender(LOOK + LARGE, lambda tw, w, t: tw.read_body(tw.peek(t)[0]), something_large_waiting),
    "receive": by_consumer(receive_and_delete, something_due),
    "receive with plain boto3": by_consumer(plain_consumer, something_due),
    "receive a large body": by_consumer(receive_and_delete, something_large_due),
    "Worker": by_consumer(work_and_give_up, something_large_due, "retry_later"),
    "Consumer.receive": by_consumer(lambda tw, w, t: Consumer(tw, t, "mail").receive(), something_large_due),
    "Consumer.retry_later": by_consumer(retry_and_give_up, something_due, "retry_later"),
    "Consumer.retry_later of a large body": by_consumer(retry_once, something_large_due, "retry_later"),
    "dead_letters": by_consumer(lambda tw, w, t: tw.dead_letters(t, "mail"), something_dead),
    "redrive": by_consumer(redrive, something_dead, "redrive"),
    "create_topic": by_administrator(lambda tw, w, t: tw.create_topic(NEW)),
    "create and delete a subscription": by_administrator(subscribe_and_leave),
    "update_topic": by_administrator(lambda tw, w, t: tw.update_topic(t, max_buckets=32)),
    "purge": by_administrator(lambda tw, w, t: tw.purge(t), something_waiting),
    "replay": by_administrator(lambda tw, w, t: tw.replay(t, "mail"), something_delivered),
    "recurring": by_administrator(recur, nothing, "sqs:SendMessage"),
    "delete_topic": by_administrator(
        lambda tw, w, t: tw.delete_topic("old", delete_queues=True), lambda w, t: w.stack.client().create_topic("old")
    ),
    "set_filter": by_administrator(lambda tw, w, t: [tw.set_filter(t, "mail", each) for each in FILTERS]),
    "list": by_administrator(lambda tw, w, t: [tw.subscriptions(each.name) for each in tw.topics()]),
    "peek of an administrator": by_administrator(lambda tw, w, t: tw.peek(t), something_waiting),
    "stats of an administrator": by_administrator(lambda tw, w, t: tw.stats(t)),
    "redrive of the service": by_administrator(lambda tw, w, t: tw.redrive_service(), all_dead),
    "refused": by_administrator(lambda tw, w, t: tw.refused(), all_dead),
    "health": by_administrator(lambda tw, w, t: look_for_health(tw, w, None)),
    "damaged": by_administrator(restore_and_give_up, something_damaged),
    "pause and resume": by_administrator(pause_and_resume, something_waiting),
}
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
        url = world.queue_url(topic)
        return consumer_statements(world.settings, topic, url, subscription="mail", actions=call.actions or ())
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
    with LocalTidewheel(template=local_template_of(DEDICATED)) as stack:
        yield World(stack)


# ---- the statements and the calls


@pytest.mark.parametrize("name", CALLS)
def test_every_request_of_a_call_is_allowed(world: World, name: str) -> None:
    given_ = statements(world, CALLS[name], MINE)
    denied = {each for each in made(world, name, MINE) if not allowed(given_, each)}
    assert {each.action for each in denied} <= CALLS[name].optional, denied


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
