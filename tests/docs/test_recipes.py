"""Each recipe keeps its promise, on the service in memory and in virtual time."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tidewheel import InvalidValue, Tidewheel
from tidewheel.local import MemoryTidewheel

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPES = ROOT / "examples" / "recipes"
RECURRING = ROOT / "examples" / "recurring.py"


def load(name: str, folder: Path = RECIPES) -> ModuleType:
    """Imports a recipe."""
    spec = spec_from_file_location(f"recipe_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Service:
    """A service in memory, and when each message of a subscription came."""

    def __init__(self) -> None:
        self.stack = MemoryTidewheel()
        self.tw: Tidewheel = self.stack.client()
        self.start = self.stack.now()

    def make(self, topic: str, subscription: str) -> None:
        self.tw.create_topic(topic)
        self.tw.create_subscription(topic, subscription)

    def minutes(self) -> int:
        """How long it has run."""
        return (self.stack.now() - self.start) // timedelta(minutes=1)

    def arrivals(self, topic: str, subscription: str, *, minutes: int) -> list[tuple[int, Any]]:
        """Minute and body of what comes within the next minutes."""
        found = []
        for _ in range(minutes):
            self.stack.advance(minutes=1)
            found += [(self.minutes(), message) for message in self.stack.receive(topic, subscription)]
        assert self.stack.failures == []
        return found


@pytest.mark.parametrize("path", [*sorted(RECIPES.glob("*.py")), RECURRING], ids=lambda path: path.stem)
def test_every_recipe_runs_and_shows_something(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


# ---- reminders


def test_reminders_come_a_day_and_an_hour_before_the_appointment_wherever_it_was_moved() -> None:
    recipe, service = load("reminders"), Service()
    service.make(recipe.TOPIC, "mailer")
    for hours in (90, 40, 60):
        recipe.book(service.tw, "dentist", service.start + timedelta(hours=hours), service.start)
    came = service.arrivals(recipe.TOPIC, "mailer", minutes=100 * 60)
    assert [minute for minute, _ in came] == [36 * 60, 59 * 60]
    calendar = {"dentist": service.start + timedelta(hours=60)}
    assert all(recipe.is_wanted(message, calendar) for _, message in came)
    assert not any(recipe.is_wanted(message, {}) for _, message in came)


def test_a_reminder_whose_time_has_passed_is_not_sent_and_the_one_before_a_move_is_called_back() -> None:
    recipe, service = load("reminders"), Service()
    service.make(recipe.TOPIC, "mailer")
    recipe.book(service.tw, "dentist", service.start + timedelta(hours=60), service.start)
    recipe.book(service.tw, "dentist", service.start + timedelta(hours=6), service.start)
    assert [minute for minute, _ in service.arrivals(recipe.TOPIC, "mailer", minutes=70 * 60)] == [5 * 60]


def test_no_reminder_comes_of_what_was_called_off() -> None:
    recipe, service = load("reminders"), Service()
    service.make(recipe.TOPIC, "mailer")
    recipe.book(service.tw, "dentist", service.start + timedelta(hours=60), service.start)
    service.stack.advance(hours=40)
    assert len(service.stack.receive(recipe.TOPIC, "mailer")) == 1
    recipe.call_off(service.tw, "dentist")
    assert service.arrivals(recipe.TOPIC, "mailer", minutes=30 * 60) == []


# ---- order time-out


@pytest.fixture
def db() -> sqlite3.Connection:
    """A shop's table of orders."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
    return connection


def state(db: sqlite3.Connection, order: int) -> str:
    return str(db.execute("SELECT state FROM orders WHERE id = ?", (order,)).fetchone()[0])


def test_the_time_out_of_a_paid_order_never_comes(db: sqlite3.Connection) -> None:
    recipe, service = load("order_timeout"), Service()
    recipe.set_up(service.tw)
    recipe.place(service.tw, db, 1)
    service.stack.advance(minutes=11)
    assert recipe.pay(service.tw, db, 1)
    assert service.arrivals(recipe.TOPIC, "orders", minutes=60) == []
    assert state(db, 1) == "paid"


def test_an_order_that_is_not_paid_is_closed_after_a_quarter_of_an_hour(db: sqlite3.Connection) -> None:
    recipe, service = load("order_timeout"), Service()
    recipe.set_up(service.tw)
    recipe.place(service.tw, db, 1)
    [(minute, message)] = service.arrivals(recipe.TOPIC, "orders", minutes=60)
    assert minute == 15
    assert recipe.close(message, db) and state(db, 1) == "closed"
    assert not recipe.close(message, db)  # a copy does no harm
    assert not recipe.pay(service.tw, db, 1)


def test_an_order_that_is_paid_at_the_last_moment_stays_paid(db: sqlite3.Connection) -> None:
    recipe, service = load("order_timeout"), Service()
    consumer = recipe.set_up(service.tw)
    recipe.place(service.tw, db, 1)
    service.stack.advance(minutes=14, seconds=50)
    assert recipe.pay(service.tw, db, 1)
    assert not service.tw.cancel(recipe.TOPIC, key="order:1")  # its slot is sealed
    service.stack.advance(seconds=11)
    plain = service.tw.receive(recipe.TOPIC, "orders")
    assert not recipe.close(plain[0], db) and state(db, 1) == "paid"
    service.stack.advance(minutes=2)  # its visibility time-out
    assert consumer.receive() == [] and consumer.counts.superseded == 1


# ---- debounce


def test_ten_changes_within_an_hour_make_one_message_an_hour_after_the_last() -> None:
    recipe, service = load("debounce"), Service()
    recipe.set_up(service.tw)
    for _ in range(10):
        service.stack.advance(minutes=6)
        recipe.changed(service.tw, "a.md")
    [(minute, message)] = service.arrivals(recipe.TOPIC, "indexer", minutes=180)
    assert (minute, message.json()) == (120, {"document": "a.md"})


def test_a_change_in_the_last_minutes_is_debounced_by_the_consumer() -> None:
    recipe, service = load("debounce"), Service()
    consumer = recipe.set_up(service.tw)
    recipe.changed(service.tw, "a.md")
    service.stack.advance(minutes=59)
    recipe.changed(service.tw, "a.md")
    service.stack.advance(minutes=2)
    assert consumer.receive() == [] and consumer.counts.superseded == 1
    service.stack.advance(minutes=58, seconds=1)
    [message] = consumer.receive()
    assert message.json() == {"document": "a.md"}


def test_without_replace_the_message_comes_an_hour_after_the_first_change_and_then_the_next_begins() -> None:
    recipe, service = load("debounce"), Service()
    recipe.set_up(service.tw)
    for _ in range(8):
        recipe.changed_first(service.tw, "a.md")
        service.stack.advance(minutes=10)
    assert service.minutes() == 80
    assert len(service.stack.receive(recipe.TOPIC, "indexer")) == 1
    came = service.arrivals(recipe.TOPIC, "indexer", minutes=180)
    assert [minute for minute, _ in came] == [120]  # of the change at 60 minutes


# ---- retry


def test_a_retry_comes_after_one_two_and_four_minutes_and_then_goes_to_the_dead_letters() -> None:
    recipe, service = load("retry_with_backoff"), Service()
    consumer = recipe.set_up(service.tw)
    attempts: list[tuple[int, str]] = []

    def call(body: Any, key: str) -> None:
        attempts.append((service.minutes(), key))
        raise recipe.Unavailable

    receipt = service.tw.send(recipe.TOPIC, {"order": 17})
    for _ in range(60 * 60):
        service.stack.advance(seconds=1)
        recipe.work(service.tw, consumer, call, 0)
    assert attempts == [(minute, receipt.id) for minute in (0, 1, 3, 7)]
    assert service.tw.stats(recipe.TOPIC).dead == 1


def test_what_succeeds_at_last_is_tried_no_more() -> None:
    recipe, service = load("retry_with_backoff"), Service()
    consumer = recipe.set_up(service.tw)
    attempts: list[int] = []

    def call(body: Any, key: str) -> None:
        attempts.append(service.minutes())
        if len(attempts) < 3:
            raise recipe.Unavailable

    service.tw.send(recipe.TOPIC, {"order": 17})
    for _ in range(30 * 60):
        service.stack.advance(seconds=1)
        recipe.work(service.tw, consumer, call, 0)
    assert attempts == [0, 1, 3]
    assert service.tw.stats(recipe.TOPIC).dead == 0


# ---- trial expiry


def days(came: list[tuple[int, Any]]) -> list[tuple[int, str]]:
    return [(minute // 1440, message.attributes["step"]) for minute, message in came]


def test_a_trial_is_announced_twice_and_ends() -> None:
    recipe, service = load("trial_expiry"), Service()
    recipe.set_up(service.tw)
    ends_at = service.start + timedelta(days=14)
    recipe.begin(service.tw, "ann", ends_at, service.start)
    mails = service.arrivals(recipe.TOPIC, "mailer", minutes=15 * 1440)
    assert days(mails) == [(11, "three-days-left"), (13, "ends-tomorrow")]
    [end] = service.stack.receive(recipe.TOPIC, "accounts")
    assert end.deliver_at == ends_at and end.attributes == {"step": "ended"}
    assert recipe.still_ends(end, {"ann": ends_at})
    assert not recipe.still_ends(end, {"ann": ends_at + timedelta(days=7)}) and not recipe.still_ends(end, {})


def test_a_trial_that_is_extended_ends_later_and_once() -> None:
    recipe, service = load("trial_expiry"), Service()
    recipe.set_up(service.tw)
    recipe.begin(service.tw, "bob", service.start + timedelta(days=14), service.start)
    service.stack.advance(days=10)
    recipe.begin(service.tw, "bob", service.start + timedelta(days=20), service.stack.now())
    assert days(service.arrivals(recipe.TOPIC, "accounts", minutes=15 * 1440)) == [(20, "ended")]
    assert len(service.stack.receive(recipe.TOPIC, "mailer")) == 2


def test_a_trial_ends_in_silence_when_the_customer_buys() -> None:
    recipe, service = load("trial_expiry"), Service()
    recipe.set_up(service.tw)
    recipe.begin(service.tw, "eve", service.start + timedelta(days=14), service.start)
    service.stack.advance(days=12)
    recipe.bought(service.tw, "eve")
    assert days(service.arrivals(recipe.TOPIC, "accounts", minutes=5 * 1440)) == []
    assert [message.attributes["step"] for message in service.stack.receive(recipe.TOPIC, "mailer")] == [
        "three-days-left"
    ]


# ---- from Redis


class SortedSet:
    """What redis-py shows of one sorted set; `on_zrem` runs before each ZREM."""

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
    """A set with one member an hour."""
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


def test_a_member_that_was_added_before_its_page_was_sent_keeps_its_new_time() -> None:
    recipe, service = load("from_redis"), Service()
    service.make(recipe.TOPIC, recipe.SUBSCRIPTION)
    redis = redis_of(service, [5])
    stale = SortedSet(redis.members)  # a page that was read before
    recipe.add(service.tw, redis, "delayed", "job 5", service.start + timedelta(hours=9))
    stale.on_zrem = lambda member: stale.members.clear()
    assert recipe.migrate(service.tw, stale, "delayed", service.start + timedelta(hours=2)) == 0
    came = service.arrivals(recipe.TOPIC, recipe.SUBSCRIPTION, minutes=12 * 60)
    assert [(minute, message.body) for minute, message in came] == [(9 * 60, "job 5")]


class Kafka:
    """What confluent_kafka shows of a producer."""

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
    """What pulsar-client shows of a message."""

    def __init__(self, entry: int, due: datetime) -> None:
        self.entry, self.due = entry, due

    def data(self) -> bytes:
        return f"job {self.entry}".encode()

    def properties(self) -> dict[str, str]:
        return {"due": self.due.isoformat(), "kind": "job"}

    def message_id(self) -> str:
        return f"(9,{self.entry},-1,-1)"


class Reader:
    """What pulsar-client shows of a reader from the earliest message; it may die on the way."""

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


def test_pulsars_ways_to_tell_a_time_mean_the_same_here() -> None:
    recipe, service = load("from_pulsar"), Service()
    service.make(recipe.TOPIC, "workers")
    at_ms = round((service.start + timedelta(hours=3)).timestamp() * 1000)
    after = recipe.send(service.tw, b"after", deliver_after=timedelta(hours=2), properties={"kind": "job"})
    at = recipe.send(service.tw, b"at", deliver_at=at_ms)
    now = recipe.send(service.tw, b"now")
    start_ms = round(service.start.timestamp() * 1000)
    assert [each.deliver_at_ms - start_ms for each in (now, after, at)] == [0, 7_200_000, 10_800_000]
    with pytest.raises(InvalidValue, match="give one of these"):
        recipe.send(service.tw, b"both", deliver_at=at_ms, deliver_after=timedelta(hours=2))
    came = service.arrivals(recipe.TOPIC, "workers", minutes=4 * 60)
    assert [message.body for _, message in came] == ["now", "after", "at"]
    assert came[1][1].attributes == {"kind": "job"}


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


# ---- recurring


def test_the_recurring_example_comes_on_working_days_at_nine_in_berlin_until_it_is_moved() -> None:
    example, service = load("recurring", RECURRING.parent), Service()
    example.set_up(service.tw)
    thursday_and_friday = service.arrivals("reports", "writer", minutes=2 * 1440)
    example.change(service.tw)
    until_tuesday = service.arrivals("reports", "writer", minutes=4 * 1440)
    daily = [message for _, message in [*thursday_and_friday, *until_tuesday] if message.key == "daily"]
    assert [f"{message.deliver_at:%a %H:%M}" for message in daily] == [
        "Thu 08:00",
        "Fri 08:00",
        "Mon 09:00",
        "Tue 09:00",
    ]
    beats = [minute for minute, message in thursday_and_friday if message.body == "tick"]
    assert beats == [1, *range(15, 2 * 1440 + 1, 15)]  # that of the start came in its first minute
    assert [minute for minute, message in until_tuesday if message.body == "tick" and minute > 2 * 1440 + 15] == []
