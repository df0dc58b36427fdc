"""Moving from Redis, Pulsar, RocketMQ and EventBridge Scheduler loses and duplicates nothing, despite crashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.behaviour.test_eventbridge_schedules import Here
from tests.docs.recipe import ROOT, Service, load
from tidewheel.cli.main import app

EXAMPLES = ROOT / "examples"

# ---- from Redis


class SortedSet:
    """A sorted set with redis-py's interface. `on_zrem` runs before each ZREM."""

    def __init__(self, members: dict[str, float], on_zrem: Callable[[str], None] = lambda member: None) -> None:
        self.members = dict(members)
        self.on_zrem = on_zrem

    def zrangebyscore(
        self, name: str, min: float, max: str, start: int, num: int, withscores: bool
    ) -> Sequence[tuple[bytes, float]]:
        assert (name, max, withscores) == ("delayed", "+inf", True)
        found = sorted((score, member) for member, score in self.members.items() if score >= min)
        return [(member.encode(), score) for score, member in found][start : start + num]

    def zrem(self, name: str, *values: bytes) -> int:
        assert name == "delayed"
        for value in values:
            self.on_zrem(value.decode())
        return sum(self.members.pop(value.decode(), None) is not None for value in values)


class Broken(Exception):
    """The connection is gone."""


def redis_of(service: Service, hours: Sequence[int]) -> SortedSet:
    """Returns a set with a member for each hour."""
    return SortedSet({f"job {hour}": (service.start + timedelta(hours=hour)).timestamp() for hour in hours})


def test_a_sorted_set_is_moved_in_pages_and_what_is_due_before_the_cut_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, service = load("from_redis"), Service()
    monkeypatch.setattr(recipe, "PAGE", 3)
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    redis = redis_of(service, range(1, 12))
    assert recipe.migrate(service.tw, redis, "delayed", service.start + timedelta(hours=3)) == 9
    assert set(redis.members) == {"job 1", "job 2"}
    came = service.arrivals(recipe.TOPIC, recipe.SUBSCRIPTION, minutes=13 * 60)
    assert [(minute, message.body) for minute, message in came] == [(hour * 60, f"job {hour}") for hour in range(3, 12)]


@pytest.mark.parametrize("wait_minutes", [0, 30], ids=["at once", "later"])
def test_a_migration_that_dies_and_is_run_again_loses_nothing_and_sends_nothing_twice(wait_minutes: int) -> None:
    recipe, service = load("from_redis"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    redis = redis_of(service, range(3, 12))
    cut = service.start + timedelta(hours=2)

    def dies(member: str) -> None:
        if member == "job 7":
            raise Broken

    redis.on_zrem = dies
    with pytest.raises(Broken):
        recipe.migrate(service.tw, redis, "delayed", cut)
    service.stack.advance(minutes=wait_minutes)
    redis.on_zrem = lambda member: None
    assert recipe.migrate(service.tw, redis, "delayed", cut) == 5  # 3 to 6 were removed before
    came = service.arrivals(recipe.TOPIC, recipe.SUBSCRIPTION, minutes=13 * 60)
    assert [message.body for _, message in came] == [f"job {hour}" for hour in range(3, 12)]


def test_what_is_removed_or_given_another_time_during_a_migration_stays_so() -> None:
    recipe, service = load("from_redis"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    redis = redis_of(service, [5, 6, 7])

    def others(member: str) -> None:
        redis.on_zrem = lambda member: None
        recipe.remove(service.tw, redis, "delayed", "job 6")
        recipe.add(service.tw, redis, "delayed", "job 7", service.start + timedelta(hours=9))

    redis.on_zrem = others  # between the migration's sending and its ZREM
    assert recipe.migrate(service.tw, redis, "delayed", service.start + timedelta(hours=2)) == 1
    came = service.arrivals(recipe.TOPIC, recipe.SUBSCRIPTION, minutes=12 * 60)
    assert [(minute, message.body) for minute, message in came] == [(5 * 60, "job 5"), (9 * 60, "job 7")]


@pytest.mark.parametrize("removed", [False, True])
def test_a_member_that_was_moved_or_removed_before_its_page_was_sent_stays_so(removed: bool) -> None:
    recipe, service = load("from_redis"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    redis = redis_of(service, [5])
    stale = SortedSet(redis.members)  # a page that was read before
    if removed:
        recipe.remove(service.tw, redis, "delayed", "job 5")
    else:
        recipe.add(service.tw, redis, "delayed", "job 5", service.start + timedelta(hours=9))
    stale.on_zrem = lambda member: stale.members.clear()
    assert recipe.migrate(service.tw, stale, "delayed", service.start + timedelta(hours=2)) == 0
    came = service.arrivals(recipe.TOPIC, recipe.SUBSCRIPTION, minutes=12 * 60)
    assert [(minute, message.body) for minute, message in came] == ([] if removed else [(9 * 60, "job 5")])


class Kafka:
    """A producer with confluent_kafka's interface."""

    def __init__(self, error: object = None) -> None:
        self.error = error
        self.records: list[tuple[str, bytes, str]] = []
        self._callbacks: list[Callable[[object, object], None]] = []

    def produce(self, topic: str, value: bytes, key: str, on_delivery: Callable[[object, object], None]) -> None:
        self.records.append((topic, value, key))
        self._callbacks.append(on_delivery)

    def flush(self) -> int:
        for callback in self._callbacks:
            callback(self.error, object())
        self._callbacks.clear()
        return 0


def test_what_kafka_did_not_take_comes_again_and_what_it_took_does_not() -> None:
    recipe, service = load("from_redis"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    receipt = service.tw.send(recipe.TOPIC, "job 1")
    service.stack.advance(seconds=1)
    assert recipe.forward(service.tw, Kafka(error="no leader"), "jobs", 0) == 0
    service.stack.advance(minutes=1)
    kafka = Kafka()
    assert recipe.forward(service.tw, kafka, "jobs", 0) == 1
    assert kafka.records == [("jobs", b"job 1", receipt.id)]
    service.stack.advance(minutes=10)
    assert recipe.forward(service.tw, kafka, "jobs", 0) == 0


# ---- from Pulsar


class PulsarMessage:
    """A message with pulsar-client's interface."""

    def __init__(self, entry: int, due: datetime) -> None:
        self.entry, self.due = entry, due

    def data(self) -> bytes:
        return f"job {self.entry}".encode()

    def properties(self) -> dict[str, str]:
        return {"due": self.due.isoformat(), "kind": "job"}

    def message_id(self) -> str:
        return f"(9,{self.entry},-1,-1)"


class Reader:
    """A reader from the earliest message with pulsar-client's interface, and an optional crash."""

    def __init__(self, messages: Sequence[PulsarMessage], dies_after: int | None = None) -> None:
        self.left = list(messages)
        self.dies_after = dies_after

    def has_message_available(self) -> bool:
        return bool(self.left)

    def read_next(self) -> PulsarMessage:
        if self.dies_after == 0:
            raise Broken
        if self.dies_after is not None:
            self.dies_after -= 1
        return self.left.pop(0)


def pulsar_due(message: PulsarMessage) -> datetime:
    return datetime.fromisoformat(message.properties()["due"])


def test_each_delayed_message_of_pulsars_is_worked_on_once_however_often_the_migration_dies() -> None:
    recipe, service = load("from_pulsar"), Service()
    service.make(recipe.TOPIC, "workers")
    cut = service.start + timedelta(hours=4)
    messages = [PulsarMessage(hour, service.start + timedelta(hours=hour)) for hour in (9, 1, 5, 4, 3, 7)]
    with pytest.raises(Exception, match="were not sent"):
        recipe.migrate(service.tw, Reader(messages, dies_after=3), pulsar_due, cut, service.stack.now())
    service.stack.advance(minutes=40)
    assert recipe.migrate(service.tw, Reader(messages), pulsar_due, cut, service.stack.now()) == 4
    came = service.arrivals(recipe.TOPIC, "workers", minutes=10 * 60)
    assert [(minute, message.body) for minute, message in came] == [(hour * 60, f"job {hour}") for hour in (4, 5, 7, 9)]
    assert sorted(each.entry for each in messages if recipe.stays(each, pulsar_due, cut)) == [1, 3]
    with pytest.raises(ValueError, match="has passed"):
        recipe.migrate(service.tw, Reader(messages), pulsar_due, cut, service.stack.now())


# ---- from RocketMQ


@pytest.mark.parametrize(
    ("properties", "delay_ms"),
    [
        ({}, 0),
        ({"DELAY": "0"}, 0),
        ({"DELAY": "1"}, 1_000),
        ({"DELAY": "18"}, 7_200_000),
        ({"DELAY": "99"}, 7_200_000),
        ({"DELAY": "3", "TIMER_DELAY_SEC": "60"}, 10_000),
        ({"DELAY": "0", "TIMER_DELAY_SEC": "172800"}, 172_800_000),
        ({"TIMER_DELAY_SEC": "60", "TIMER_DELAY_MS": "5"}, 60_000),
        ({"TIMER_DELAY_MS": "90500"}, 90_500),
        ({"TIMER_DELIVER_MS": "1767229200000"}, 3_600_000),
        ({"TIMER_DELIVER_MS": "5"}, 0),
    ],
)
def test_a_message_is_due_when_rocketmqs_broker_would_deliver_it(properties: dict[str, str], delay_ms: int) -> None:
    recipe, service = load("from_rocketmq"), Service()
    recipe.create_topic(service.tw, "orders")
    receipt = recipe.send(service.tw, "orders", b"hello", properties)
    assert receipt.deliver_at_ms - round(service.start.timestamp() * 1000) == delay_ms


def test_a_brokers_own_table_of_levels_is_taken_as_it_is() -> None:
    recipe, service = load("from_rocketmq"), Service()
    recipe.create_topic(service.tw, "orders", "1m 1h 3d")
    recipe.subscribe(service.tw, "orders", "billing")
    for level in (1, 2, 3, 4):
        recipe.send(service.tw, "orders", f"level {level}".encode(), {"DELAY": str(level)})
    came = service.arrivals("orders", "billing", minutes=3 * 1440 + 1)
    assert [minute for minute, _ in came] == [1, 60, 3 * 1440, 3 * 1440]


def test_a_consumer_group_gets_its_tags_and_what_is_sent_twice_comes_once() -> None:
    recipe, service = load("from_rocketmq"), Service()
    recipe.create_topic(service.tw, "orders")
    recipe.subscribe(service.tw, "orders", "billing", "paid || refunded")
    recipe.subscribe(service.tw, "orders", "audit")
    for tag in ("paid", "shipped", "refunded", "paid"):
        properties = {"DELAY": "5", "TAGS": tag, "KEYS": "order-17", "UNIQ_KEY": f"7F000001-{tag}"}
        recipe.send(service.tw, "orders", tag.encode(), properties)
    came = service.arrivals("orders", "billing", minutes=5)
    assert sorted(message.body for _, message in came) == ["paid", "refunded"]
    assert came[0][1].attributes["KEYS"] == "order-17"
    audited = service.stack.receive("orders", "audit")
    assert sorted(message.body for message in audited) == ["paid", "refunded", "shipped"]


def test_reconsume_later_waits_as_rocketmq_does_and_ends_after_sixteen_retries() -> None:
    recipe, service = load("from_rocketmq"), Service()
    recipe.create_topic(service.tw, "orders")
    consumer = recipe.subscribe(service.tw, "orders", "billing")
    recipe.send(service.tw, "orders", b"hello", {})
    tries: list[float] = []
    for _ in range(5 * 3600):
        service.stack.advance(seconds=1)
        for message in consumer.receive():
            tries.append((service.stack.now() - service.start).total_seconds())
            consumer.retry_later(message)
    waits = [later - earlier for earlier, later in pairwise(tries)]
    assert waits == [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    assert len(tries) == 17 and service.tw.stats("orders").dead == 1


# ---- from EventBridge Scheduler


@pytest.mark.parametrize("moved", ["before", "after"])
def test_a_group_of_schedules_moves_with_what_was_deleted_or_changed_meanwhile(tmp_path: Path, moved: str) -> None:
    recipe, service = load("from_eventbridge_scheduler", EXAMPLES), Service()
    service.make("reminders", "mailer")
    scheduler = AwsScheduler(service.stack.now())
    scheduler.put("kept", hours=5)
    scheduler.put("soon", hours=1)
    scheduler.put("deleted", hours=5)
    scheduler.put("moved", hours=5)
    scheduler.put("tick", expression="rate(1 hour)")
    scheduler.put("stopped", expression="rate(1 hour)")
    cut, path = service.start + timedelta(hours=3), tmp_path / "schedules.jsonl"
    recipe.export(scheduler, "jobs", path)
    for name in ("deleted", "moved", "stopped"):
        scheduler.delete_schedule(GroupName="jobs", Name=name)
    service.tw.cancel("reminders", key="jobs/deleted")
    if moved == "before":
        service.tw.send("reminders", "moved", key="jobs/moved", delay="4h", replace=True)
    taken = imported(service, path, cut) + imported(service, path, cut)
    assert {line.split("\t")[0] for line in taken} == {
        "jobs/kept",
        "jobs/deleted",
        "jobs/moved",
        "jobs/stopped",
        "jobs/tick",
    }
    if moved == "after":
        service.stack.advance(seconds=1)
        service.tw.send("reminders", "moved", key="jobs/moved", delay=4 * 3600 - 1, replace=True)
    move = (service.tw, "reminders", scheduler, "jobs", taken)
    service.stack.advance(minutes=6)
    assert recipe.cancel_deleted(*move, service.stack.now(), cut) == ["jobs/deleted", "jobs/moved", "jobs/stopped"]
    recipe.remove(scheduler, "jobs", taken)
    recipe.remove(scheduler, "jobs", taken)
    assert list(recipe.names(scheduler, "jobs")) == ["soon"], "EventBridge fires it"
    came = service.arrivals("reminders", "mailer", minutes=5 * 60)
    assert sorted((minute, message.body) for minute, message in came) == [
        (180, "tick"), (240, "moved"), (240, "tick"), (300, "kept"), (300, "tick"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="has passed"):
        recipe.cancel_deleted(*move, service.stack.now(), cut)


class AwsScheduler:
    """The used methods of boto3's client "scheduler", with the answers of AWS's documentation."""

    class exceptions:
        class ResourceNotFoundException(Exception):
            """No such schedule."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.schedules: dict[str, dict[str, Any]] = {}

    def put(self, name: str, *, hours: int = 0, expression: str | None = None) -> None:
        at = (self.now + timedelta(hours=hours)).replace(tzinfo=None).isoformat(timespec="seconds")
        self.schedules[name] = {
            "CreationDate": self.now,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "GroupName": "jobs",
            "Name": name,
            "ScheduleExpression": expression or f"at({at})",
            "State": "ENABLED",
            "Target": {"Arn": "arn:aws:sqs:us-east-1:123456789012:jobs", "Input": name, "RoleArn": "role"},
        }

    def get_paginator(self, name: str) -> AwsScheduler:
        assert name == "list_schedules"
        return self

    def paginate(self, GroupName: str) -> list[dict[str, Any]]:
        assert GroupName == "jobs"
        return [{"Schedules": [{"Name": name}]} for name in self.schedules]

    def get_schedule(self, GroupName: str, Name: str) -> dict[str, Any]:
        if (GroupName, Name in self.schedules) != ("jobs", True):
            raise self.exceptions.ResourceNotFoundException
        return self.schedules[Name]

    def delete_schedule(self, GroupName: str, Name: str) -> None:
        self.get_schedule(GroupName, Name)
        del self.schedules[Name]


def imported(service: Service, path: Path, cut: datetime) -> list[str]:
    """Returns the lines of `tidewheel import`."""
    arguments = ["import", "reminders", str(path), "--format", "eventbridge-schedules", "--from", cut.isoformat()]
    return CliRunner().invoke(app, arguments, obj=Here(made=service.tw)).stdout.splitlines()
