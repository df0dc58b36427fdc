"""Runs every flow of the service on a local stack with IAM enforced."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.iam.stack import EnforcedTidewheel
from tests.marks import topic_state
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock
from tidewheel.local.jobs import JobRunner
from tidewheel.model.message import SQS_MAX_BYTES, Message
from tidewheel.model.object_names import LEDGERS, PARKED, PLANS, REFUSED, topic_prefixes
from tidewheel.model.pack import PACK_ATTRIBUTE
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.model.subscription_state import State


@dataclass(kw_only=True)
class World:
    """A running stack with helpers for the flows.

    Attributes:
        jobs: scripts and topics of the Glue jobs that were started.
    """

    stack: EnforcedTidewheel
    jobs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def client(self) -> Tidewheel:
        """A client with all rights."""
        return self.stack.client()

    @property
    def settings(self) -> ServiceSettings:
        """The deployed service's."""
        parameter = self.stack.session.client("ssm").get_parameter(Name=parameter_name(self.stack.stack_name))
        return ServiceSettings.from_json(parameter["Parameter"]["Value"], "the parameter")

    def topic(self, name: str, *subscriptions: str, **settings: Any) -> str:
        """Makes a topic with subscriptions, "mail" if none is named."""
        self.client.create_topic(name, **{"collect_interval_s": 21_600, "retention_days": 0, **settings})
        for subscription in subscriptions or ("mail",):
            self.client.create_subscription(name, subscription, reader="tidewheel")
        return name

    def bodies(self, topic: str, subscription: str = "mail") -> list[str]:
        """Receives all available messages and returns the bodies."""
        return sorted(message.body for message in self.stack.receive(topic, subscription))

    def send_batches(self, topic: str, batches: int, each: int = 3) -> list[str]:
        """Sends batches due in one to three days, each for a separate ledger. Returns the bodies."""
        sent = []
        for batch in range(batches):
            messages = [Message(body=f"{batch}-{i}", delay=86_400 + 1_000 * batch + 40_000 * i) for i in range(each)]
            self.client.send_many(topic, messages)
            sent += [str(message.body) for message in messages]
            self.stack.advance(minutes=10)
        return sorted(sent)

    def names(self, prefix: str) -> list[str]:
        """The names of objects under a prefix."""
        listed = self.stack.session.client("s3").list_objects_v2(Bucket=self.settings.s3_bucket, Prefix=prefix)
        return [each["Key"] for each in listed.get("Contents", [])]

    def put(self, name: str) -> None:
        """Puts an unreferenced object."""
        self.stack.session.client("s3").put_object(Bucket=self.settings.s3_bucket, Key=name, Body=b"orphan")

    def invoke(self, function: str, topic: str | None = None) -> None:
        """Invokes a function asynchronously, optionally for a topic."""
        self.stack.session.client("lambda").invoke(
            FunctionName=f"{self.stack.stack_name}-{function}",
            InvocationType="Event",
            Payload=json.dumps({"topic": topic} if topic else {}).encode(),
        )
        self.stack.advance()

    def retry_damaged(self, topic: str) -> None:
        """Retries all damaged ledgers of a topic, and waits an hour."""
        found = self.client.damaged(topic)
        assert found
        for each in found:
            self.client.retry_damaged(topic, each.id)
        self.stack.advance(hours=1)

    def subscription_queue(self, topic: str) -> str:
        """URL of the queue of a topic's subscription "mail"."""
        [found] = [each for each in self.client.subscriptions(topic) if each.name == "mail"]
        return str(found.queue_url)

    def forgive(self, action: str, queue_url: str) -> None:
        """Removes expected denials of an action on a queue, where AWS may return another error."""
        name = queue_url.rpartition("/")[2]
        denials = self.stack.denials
        forgiven = [each for each in denials if (each.action, each.resource.rpartition(":")[2]) == (action, name)]
        assert forgiven
        denials[:] = [each for each in denials if each not in forgiven]

    @contextmanager
    def patched(self, **values: Any) -> Iterator[None]:
        """Replaces values by dotted name, with `__` for the dots, for a while."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in values.items():
                patch.setattr(name.replace("__", "."), value)
            yield

    @staticmethod
    def runner(jobs: list[tuple[str, str]]) -> JobRunner:
        """Returns a `JobRunner` which records the started jobs."""

        def note(job: str, arguments: dict[str, str], *, stack_name: str, endpoint_url: str, clock: Clock) -> None:
            jobs.append((job, arguments["--topic"]))

        return note


def waits_in_ledgers(world: World) -> None:
    """Uses ledgers, keys, tombstones, recurring messages and a view. Dispatch delivers small plans, and collects."""
    topic = world.topic("ledgers", live_view=1)
    client = world.client
    client.send(topic, "two hours", delay="2h")
    client.send(topic, "first", delay="1d", key="k")
    client.send(topic, "second", delay="1d", key="k", replace=True)
    gone = client.send(topic, "cancelled", delay="1d").id
    moved = client.send(topic, "moved", delay="1d").id
    client.send_recurring(topic, "daily", "daily", every="1d")
    world.stack.advance(minutes=10)
    client.cancel(topic, gone)
    client.reschedule(topic, moved, delay="30h")
    client.reschedule(topic, key="k", delay="31h")
    world.stack.advance(hours=3)
    client.update_topic(topic, live_view=0)  # with a view there is work for each sweep
    world.stack.advance(days=3)
    client.cancel_recurring(topic, "daily")
    world.stack.advance(days=2)
    assert world.bodies(topic) == ["daily"] * 4 + ["moved", "second", "two hours"]
    assert world.names(f"{LEDGERS}{topic}/") == []


def goes_direct(world: World) -> None:
    """Ingest sends messages due soon, also from a redelivered batch."""
    topic = world.topic("direct", "mail", "audit")
    world.client.send_many(topic, [Message(body="soon", delay=5), Message(body="later", delay="2h")])
    world.stack.advance(hours=3)
    assert world.bodies(topic) == world.bodies(topic, "audit") == ["later", "soon"]


def comes_twice(world: World) -> None:
    """SQS redelivers a batch. Ingest deletes the duplicate ledger and park."""
    topic = world.topic("twice")
    world.client.pause(topic, "mail")
    sqs = world.stack.session.client("sqs")
    urls = (world.settings.urgent_queue_url, world.settings.bulk_queue_url)
    for url, delay in zip(urls, (3, 7_200), strict=True):
        body = secrets.token_urlsafe(400_000)
        world.client.send(topic, body, delay=delay)
        queue = world.stack.queue(url)
        [held] = queue.everything
        attribute = {"DataType": "Binary", "BinaryValue": held.message_attributes[PACK_ATTRIBUTE]["BinaryValue"]}
        world.stack.advance(minutes=6)
        sqs.send_message(QueueUrl=url, MessageBody="again", MessageAttributes={PACK_ATTRIBUTE: attribute})
        world.stack.advance(minutes=6)
    assert len(world.names(f"{PARKED}{topic}/")) == 1
    assert len(world.names(f"{LEDGERS}{topic}/")) == 1
    world.client.resume(topic, "mail")
    world.stack.advance(hours=3)
    assert len(world.bodies(topic)) == 2


def breaks(world: World) -> None:
    """A queue is missing. Ingest and deliver park, the sweep probes, and deliver drains the restored queue."""
    topic = world.topic("broken", "mail", "audit", inline_rows=1, part_rows=2)
    url = world.subscription_queue(topic)
    sqs = world.stack.session.client("sqs")
    tags = sqs.list_queue_tags(QueueUrl=url)["Tags"]
    sqs.delete_queue(QueueUrl=url)
    for i in range(4):
        world.client.send(topic, f"{i}" + secrets.token_urlsafe(200_000), delay=7_200 + i)
    world.client.send(topic, "direct", delay=5)
    world.stack.advance(hours=3)
    assert {each.name: each.state for each in world.client.subscriptions(topic)}["mail"] is State.BROKEN
    assert world.names(f"{PARKED}{topic}/")
    # IAM cannot see tags of a queue that is gone.
    world.forgive("sqs:SendMessage", url)
    sqs.create_queue(QueueName=url.rpartition("/")[2], tags=tags)
    world.stack.advance(minutes=30)
    assert len(world.bodies(topic)) == len(world.bodies(topic, "audit")) == 5
    assert world.names(f"{PARKED}{topic}/") == []


def is_a_burst(world: World) -> None:
    """A large plan with a manifest object, and marks in several items, goes to the work queue, and is replayed."""
    topic = world.topic("burst", "mail", "audit", inline_rows=10, part_rows=50, retention_days=1)
    with world.patched(tidewheel__storage__plans__MAX_INLINE_MANIFEST_BYTES=10, tidewheel__model__marks__TOGETHER=1):
        world.client.send_many(topic, [Message(body=f"{i}", delay=7_200 + i) for i in range(200)])
        world.stack.advance(hours=3)
        assert len(world.bodies(topic)) == len(world.bodies(topic, "audit")) == 200
        assert world.names(f"{PLANS}{topic}/")
        assert world.client.replay(topic, "mail").messages >= 200
        world.stack.advance(hours=1)
        assert len(world.bodies(topic)) == 200
    world.stack.advance(days=3)
    assert world.names(f"{PLANS}{topic}/") == []


def send_plain(world: World, topic: str, body: str, **options: str) -> None:
    """Sends a message with the attributes `tidewheel.*`."""
    named: Any = {
        f"tidewheel.{name}": {"DataType": "String", "StringValue": text}
        for name, text in {"topic": topic, **options}.items()
    }
    sqs = world.stack.session.client("sqs")
    sqs.send_message(QueueUrl=world.settings.urgent_queue_url, MessageBody=body, MessageAttributes=named)


def is_plain(world: World) -> None:
    """Ingest forwards plain messages, cancels a key, and stores a body that has no room beside our header."""
    topic = world.topic("plain")
    full = "x" * (SQS_MAX_BYTES - len("tidewheel.topic") - len("String") - len(topic))
    send_plain(world, topic, full)
    world.stack.advance(minutes=1)
    assert world.bodies(topic) == [full]
    send_plain(world, topic, "later", delay="2h")
    send_plain(world, topic, "cancelled", delay="2h", key="k")
    world.stack.advance(minutes=1)
    send_plain(world, topic, "-", cancel="true", key="k")
    world.stack.advance(hours=3)
    assert world.bodies(topic) == ["later"]


def is_claimed(world: World) -> None:
    """Ingest cancels a message whose slot is sealed, for a newer one of its key, and not long afterwards."""
    topic = world.topic("claimed", claims="all")
    world.client.send(topic, "older", delay="1m", key="k")
    world.stack.advance(seconds=5)
    world.client.send(topic, "newer", delay="2m", key="k", replace=True)
    world.stack.advance(minutes=3)
    assert world.bodies(topic) == ["newer"]
    with world.patched(tidewheel__flows__delivery__cancel__LATEST_CANCEL_MS=-3_600_000):
        send_plain(world, topic, "-", key="k", cancel="true")
        world.stack.advance(minutes=1)


def is_put_off(world: World) -> None:
    """Ingest sends a message that comes at its latest time to the urgent queue."""
    topic = world.topic("put-off", claims="all")
    world.client.send(topic, "older", delay="30s", key="k", replace=True, max_wait="40s")
    world.stack.advance(seconds=15)
    world.client.send(topic, "newer", delay="30s", key="k", replace=True)
    world.stack.advance(seconds=26)
    assert world.bodies(topic) == ["newer"]


def is_refused(world: World) -> None:
    """Ingest, dispatch and deliver move permanently rejected messages to the queue of refused messages."""
    small, burst, body = world.topic("refused"), world.topic("refused-burst", inline_rows=1), "x" * 10_000
    sqs = world.stack.session.client("sqs")
    for topic in (small, burst):
        sqs.set_queue_attributes(
            QueueUrl=world.subscription_queue(topic), Attributes={"MaximumMessageSize": f"{len(body) // 2}"}
        )
    for topic, delay in ((small, "5s"), (small, "2h"), (burst, "2h"), (burst, "2h")):
        world.client.send(topic, body, delay=delay)
    world.stack.advance(hours=3)
    assert len(world.stack.queue(world.settings.refused_queue_url).everything) == 4


def lost_its_schedule(world: World) -> None:
    """The sweep invokes dispatch in place of a lost schedule, and creates schedules for messages added by clients."""
    topic = world.topic("lost")
    world.client.send(topic, "healed", delay="2h")
    world.stack.advance(minutes=10)
    world.stack.drop_schedules = True
    world.stack.advance(hours=3)
    world.stack.drop_schedules = False
    assert world.bodies(topic) == ["healed"]
    world.client.send_recurring(topic, "often", "armed", every="6h")
    world.stack.advance(hours=13)
    world.client.cancel_recurring(topic, "often")
    assert world.bodies(topic) == ["armed"] * 3


def is_merged_small(world: World) -> None:
    """The sweep starts a merge by compact, which uploads the outputs in parts."""
    topic = world.topic("merged", max_buckets=8)
    with world.patched(tidewheel__aws__s3_objects__PART_BYTES=500, moto__s3__models__S3_UPLOAD_PART_MIN_SIZE=1):
        sent = world.send_batches(topic, 12)
    assert world.stack.invocations["compact"] >= 1
    assert world.client.stats(topic).buckets < 12
    world.stack.advance(days=4)
    assert world.bodies(topic) == sent


def is_refused_a_merge(world: World) -> None:
    """A merge whose swap is refused, or whose upload fails, leaves no object behind."""
    topic = world.topic("unmerged", max_buckets=8)
    world.send_batches(topic, 7)
    before = world.names(f"{LEDGERS}{topic}/")
    world.client.update_topic(topic, max_buckets=2)
    with world.patched(tidewheel__flows__maintenance__merge__swap=lambda *_: False):
        world.invoke("compact", topic)
    assert world.names(f"{LEDGERS}{topic}/") == before
    with world.patched(
        tidewheel__aws__s3_objects__PART_BYTES=100, tidewheel__aws__s3_objects___Upload__finish=_refuses
    ):
        world.invoke("compact", topic)
    assert world.names(f"{LEDGERS}{topic}/") == before
    uploads = world.stack.session.client("s3").list_multipart_uploads(Bucket=world.settings.s3_bucket)
    assert not uploads.get("Uploads")
    assert [each.function for each in world.stack.failures] == ["compact"]
    world.stack.failures.clear()
    world.stack.advance(days=4)
    assert len(world.bodies(topic)) == 21


def _refuses(*_: object) -> None:
    raise OSError("refused")


def is_merged_large(world: World) -> None:
    """The sweep starts the Glue job for a large merge, also when compact asks it."""
    topic = world.topic("heavy", max_buckets=8)
    with world.patched(tidewheel__flows__maintenance__consider_merge__SMALL_BYTES=100):
        world.send_batches(topic, 12)
    assert ("merge_buckets", topic) in world.jobs
    world.jobs.clear()
    with world.patched(tidewheel__flows__maintenance__consider_merge__SMALL_BYTES=100):
        world.invoke("compact", topic)
        world.stack.advance(minutes=11)
    assert ("merge_buckets", topic) in world.jobs
    world.stack.advance(days=4)


def lost_a_ledger(world: World) -> None:
    """A lost object is reported as missing, not denied. Deliver notes its rows, and compact leaves the ledger out."""
    topic = world.topic("missing", max_buckets=8)
    sent = world.send_batches(topic, 7)
    name = world.names(f"{LEDGERS}{topic}/")[0]
    s3, bucket = world.stack.session.client("s3"), world.settings.s3_bucket
    kept = s3.get_object(Bucket=bucket, Key=name)["Body"].read()
    s3.delete_object(Bucket=bucket, Key=name)
    world.client.update_topic(topic, max_buckets=2)
    world.invoke("compact", topic)
    world.stack.advance(days=3)
    s3.put_object(Bucket=bucket, Key=name, Body=kept)
    world.retry_damaged(topic)
    assert world.bodies(topic) == sent


def lost_a_plan(world: World) -> None:
    """Deliver makes a plan again whose object is gone."""
    topic = world.topic("planless")
    world.client.pause(topic, "mail")
    sent = world.send_batches(topic, 3)
    with world.patched(tidewheel__storage__plans__MAX_INLINE_MANIFEST_BYTES=10):
        world.stack.advance(days=3)
    names = world.names(f"{PLANS}{topic}/")
    assert names
    for name in names:
        world.stack.session.client("s3").delete_object(Bucket=world.settings.s3_bucket, Key=name)
    with world.patched(tidewheel__storage__plans__MAX_INLINE_MANIFEST_BYTES=10):
        world.client.resume(topic, "mail")
        world.stack.advance(hours=1)
    world.stack.advance(days=1)
    assert world.bodies(topic) == sent


def is_foreign_and_large(world: World) -> None:
    """A rejected message is stored as an object if too large for the queue of refused messages."""
    before = len(world.names(REFUSED))
    for url in (world.settings.bulk_queue_url, world.settings.work_queue_url):
        world.stack.session.client("sqs").send_message(QueueUrl=url, MessageBody=secrets.token_urlsafe(786_430))
    world.stack.advance(hours=1)
    assert len(world.names(REFUSED)) == before + 2
    world.stack.failures.clear()


def is_collected_by_dispatch(world: World) -> None:
    """Dispatch collects a topic and old tombstones before the sweep does."""
    topic = world.topic("collected", collect_interval_s=3_600, claims="none", retention_days=0)
    with world.patched(tidewheel__model__tombstone__KEPT_S=0):
        world.client.cancel(topic, world.client.send(topic, "x", delay="2h").id)
    world.client.send(topic, "y", delay="3h")
    world.stack.advance(hours=3)
    for _ in range(5):
        state = topic_state(world.client, topic)
        if state.collect_at_ms is None:
            break
        world.stack.advance(milliseconds=max(0, state.collect_at_ms - world.stack.clock.now_ms()))
        world.invoke("dispatch", topic)
    assert world.bodies(topic) == ["y"]
    assert state.collect_at_ms is None


def is_paused_for_long(world: World) -> None:
    """Dispatch and the sweep renew expiring tombstones of a paused topic."""
    topic = world.topic("long", collect_interval_s=3_600)
    with world.patched(tidewheel__model__tombstone__KEPT_S=0):
        world.client.cancel(topic, world.client.send(topic, "x", delay="2h").id)
    world.client.send(topic, "y", delay="2h")
    world.client.pause(topic, "mail")
    module = "tidewheel__flows__maintenance__checkpoint__"
    with world.patched(**{f"{module}KEPT_S": 60, f"{module}_MARGIN_S": 60}):
        world.stack.advance(hours=3)
        for _ in range(2):
            collect_at_ms = topic_state(world.client, topic).collect_at_ms
            assert collect_at_ms is not None
            world.stack.advance(milliseconds=max(0, collect_at_ms - world.stack.clock.now_ms()))
            world.invoke("dispatch", topic)
        world.stack.advance(days=2)
    world.client.resume(topic, "mail")
    world.stack.advance(minutes=20)
    assert world.bodies(topic) == ["y"]


def is_deleted(world: World) -> None:
    """The sweep removes a deleted topic's schedules, items and objects."""
    topic = world.topic("deleted")
    world.client.send(topic, "x", delay="1d", key="k")
    world.client.cancel(topic, world.client.send(topic, "y", delay="1d").id)
    moved = world.client.send(topic, "z", delay="1d").id
    world.stack.advance(minutes=10)
    world.client.reschedule(topic, moved, delay="2d")
    world.stack.advance(minutes=10)
    for prefix in topic_prefixes(topic):
        world.put(f"{prefix}z")
    world.client.delete_topic(topic)
    world.stack.advance(hours=1)
    assert [name for prefix in topic_prefixes(topic) for name in world.names(prefix)] == []
    assert topic not in {each.name for each in world.client.topics()}


def fails_for_good(world: World) -> None:
    """A schedule's failing invocation ends in the dead-letter queue of the schedules after two retries."""
    scheduler: Any = world.stack.session.client("scheduler")
    settings = world.settings
    scheduler.create_schedule(
        Name="nobody-1",
        GroupName=settings.schedule_group,
        ScheduleExpression=f"at({world.stack.now():%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": settings.dispatch_arn,
            "RoleArn": settings.schedule_role_arn,
            "Input": "{}",
            "DeadLetterConfig": {"Arn": settings.schedule_dead_letter_arn},
        },
    )
    world.stack.advance(minutes=4)
    assert [world.stack.failures.pop().function for _ in range(3)] == ["dispatch"] * 3
    assert len(world.stack.queue(settings.schedule_dead_letter_arn).everything) == 1


FLOWS: dict[str, Callable[[World], None]] = {
    flow.__name__: flow
    for flow in (
        waits_in_ledgers, goes_direct, comes_twice, breaks, is_a_burst, is_refused, lost_its_schedule, is_merged_small,
        is_refused_a_merge, is_merged_large, lost_a_ledger, lost_a_plan, is_foreign_and_large, is_plain, is_claimed,
        is_put_off, is_deleted, is_collected_by_dispatch, is_paused_for_long, fails_for_good,
    )
}  # fmt: skip
"""Name -> what a topic, or a message of it, goes through."""
