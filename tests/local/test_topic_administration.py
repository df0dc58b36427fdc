"""Purge, delete, update, replay and redrive as called by users, on the deployed functions and in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.stored import stored
from tidewheel.errors import (
    InvalidValue,
    QueueUnavailable,
    RetentionExpired,
    TopicDeleting,
    UnknownSubscription,
    UnknownTopic,
)
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.storage.layout import LIST_MARK, note_key

WEEK_S = 7 * 86_400


class Service:
    """A topic "orders" with the subscription "billing"."""

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self.tw = stack.client()
        self.tw.create_topic("orders")
        self.tw.create_subscription("orders", "billing")

    def bodies(self) -> list[str]:
        """Receives the available bodies of "billing"."""
        return [message.body for message in self.stack.receive("orders", "billing")]

    def sqs(self) -> Any:
        return self.stack.sqs if isinstance(self.stack, MemoryTidewheel) else self.stack.session.client("sqs")

    def queue_url(self) -> str:
        return str(self.tw.subscriptions("orders")[0].queue_url)

    def left(self) -> list[str]:
        """Names everything of the topic in the table, in S3 and in the scheduler."""
        if isinstance(self.stack, MemoryTidewheel):
            service = self.stack.service
            found = {*stored(service).of("orders").keys_in_table()} - {note_key("orders", "deleted")}
            items = ["items"] if found else []
            items += ["state"] if service.deletions.read("orders") or service.topic_states.read("orders") else []
            items += service.topic_list.read()[0]
            return items + service.objects.names() + list(service.wheel.schedules)
        s3, dynamodb, scheduler = (self.stack.session.client(name) for name in ("s3", "dynamodb", "scheduler"))
        [bucket] = s3.list_buckets()["Buckets"]
        [table] = dynamodb.list_tables()["TableNames"]
        found = dynamodb.scan(TableName=table)["Items"]
        items = [str(item["pk"]["S"]) for item in found if item["sk"]["S"] not in ("deleted", LIST_MARK)]
        objects = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", [])]
        schedules = [each["Name"] for each in scheduler.list_schedules()["Schedules"]]
        own = [name for name in items if name != "SERVICE"]
        return own + objects + schedules


@pytest.fixture(params=[MemoryTidewheel, LocalTidewheel], ids=["memory", "local"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The topic in each implementation."""
    with request.param(start="2026-01-01T00:00:00Z") as stack:
        yield Service(stack)
        assert not stack.failures


# ---- purge
def test_what_was_sent_before_a_purge_is_dropped_and_what_follows_in_the_same_moment_comes(service: Service) -> None:
    service.tw.send("orders", "in an ingest queue", delay="2d")
    service.tw.send("orders", "urgent", delay="2m")
    service.tw.purge("orders")
    service.tw.send("orders", "after", delay="2d")
    service.stack.advance(days=1)
    service.tw.send("orders", "in a ledger", delay="3d")
    service.stack.advance(hours=1)
    purged = service.tw.purge("orders")
    # The message that was purged on its way is in the ledger of the one that followed it.
    assert (purged.ledgers, purged.messages) == (2, 3)
    assert service.tw.stats("orders").waiting == 0
    service.tw.send("orders", "at last", delay="3d")
    service.stack.advance(days=6)
    assert service.bodies() == ["at last"]


def test_a_range_of_time_is_dropped_alone(service: Service) -> None:
    start = service.stack.now()
    for day in range(1, 5):
        service.tw.send("orders", f"day {day}", delay=f"{day}d")
    service.stack.advance(hours=1)
    service.tw.purge("orders", start=start + timedelta(days=2), end=start + timedelta(days=4))
    service.tw.send("orders", "new", deliver_at=start + timedelta(days=3))
    service.stack.advance(days=5)
    assert service.bodies() == ["day 1", "new", "day 4"]


def test_a_range_that_is_none_is_refused(service: Service) -> None:
    now = service.stack.now()
    with pytest.raises(InvalidValue, match=r"start=.*time zone"):
        service.tw.purge("orders", start=now.replace(tzinfo=None))
    with pytest.raises(InvalidValue, match="end="):
        service.tw.purge("orders", start=now, end=now)
    with pytest.raises(InvalidValue, match="end='tomorrow'"):
        service.tw.purge("orders", end="tomorrow")
    with pytest.raises(UnknownTopic):
        service.tw.purge("mail")


# ---- settings
def test_settings_change_and_stay_changed(service: Service) -> None:
    changed = service.tw.update_topic("orders", retention_s=WEEK_S, delay_levels=(1, 5), max_waiting=None)
    assert (changed.settings.retention_s, changed.settings.delay_levels) == (WEEK_S, (1, 5))
    [state] = service.tw.topics()
    assert state.settings == changed.settings
    assert service.tw.update_topic("orders").settings == changed.settings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slot_s": 60}, "slot_s=60: this setting is fixed when a topic is created"),
        ({"lookahead_s": 60}, "lookahead_s=60: this setting is fixed"),
        ({"retension_s": 60}, "retension_s=60: a topic has no such setting; give one of: slot_s, "),
        ({"retention_s": -1}, "retention_s=-1: give a whole number"),
        ({"part_rows": "many"}, "part_rows='many': give a whole number"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(service: Service, changes: dict[str, Any], says: str) -> None:
    [before] = service.tw.topics()
    with pytest.raises(InvalidValue, match=says):
        service.tw.update_topic("orders", **changes)
    assert service.tw.topics() == [before]
    with pytest.raises(UnknownTopic):
        service.tw.update_topic("mail", retention_s=1)


# ---- delete
def test_nothing_of_a_deleted_topic_remains_and_its_name_is_free_again(service: Service) -> None:
    for delay in ("1h", "2d", "30d"):
        service.tw.send("orders", f"due in {delay}", delay=delay)
        service.stack.advance(minutes=10)
    service.stack.advance(hours=2)
    assert service.bodies() == ["due in 1h"]
    assert len(service.left()) > 4
    service.tw.delete_topic("orders")
    service.tw.delete_topic("orders")
    assert service.tw.topics() == []
    for call in (
        lambda: service.tw.send("orders", "x"),
        lambda: service.tw.stats("orders"),
    ):
        with pytest.raises(UnknownTopic):
            call()
    with pytest.raises(TopicDeleting):
        service.tw.create_topic("orders")
    service.stack.advance(minutes=15)
    assert service.left() == []
    service.tw.create_topic("orders")
    service.tw.create_subscription("orders", "billing")
    service.tw.send("orders", "new", delay="1d")
    service.stack.advance(days=5)
    assert service.bodies() == ["new"]


def test_queues_stay_unless_asked_for_and_those_of_others_stay_always(service: Service) -> None:
    sqs, made = service.sqs(), service.queue_url()
    own = sqs.create_queue(QueueName="mine")["QueueUrl"]
    service.tw.create_subscription("orders", "mine", queue_url=own)
    service.tw.create_topic("mail")
    service.tw.create_subscription("mail", "s")
    [mail] = [each.queue_url for each in service.tw.subscriptions("mail")]
    service.tw.delete_topic("mail")
    assert sqs.get_queue_attributes(QueueUrl=mail, AttributeNames=["QueueArn"])["Attributes"]
    service.tw.delete_topic("orders", delete_queues=True)
    assert sqs.get_queue_attributes(QueueUrl=own, AttributeNames=["QueueArn"])["Attributes"]
    for name in (made, f"{made}-dead"):
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            sqs.get_queue_url(QueueName=name.rpartition("/")[2])
    service.stack.advance(minutes=15)
    assert service.left() == []


# ---- replay
def test_what_was_delivered_within_the_retention_comes_again(service: Service) -> None:
    service.tw.update_topic("orders", retention_s=WEEK_S)
    start = service.stack.now()
    for day in range(1, 4):
        service.tw.send("orders", f"day {day}", deliver_at=start + timedelta(days=day))
    service.stack.advance(days=5)
    assert service.bodies() == ["day 1", "day 2", "day 3"]
    done = service.tw.replay("orders", "billing", start=start + timedelta(days=2))
    assert (done.plans, done.messages, done.skipped) == (2, 2, 0)
    service.stack.advance(seconds=10)
    assert service.bodies() == ["day 2", "day 3"]
    service.stack.advance(days=20)
    assert service.bodies() == []
    assert service.tw.stats("orders").buckets == 0
    with pytest.raises(RetentionExpired, match=f"retention_s={WEEK_S}"):
        service.tw.replay("orders", "billing", end=start + timedelta(days=2))


def test_a_replay_for_nobody_is_refused(service: Service) -> None:
    with pytest.raises(UnknownSubscription):
        service.tw.replay("orders", "nobody")
    with pytest.raises(UnknownTopic):
        service.tw.replay("mail", "billing")
    service.tw.pause("orders", "billing")
    with pytest.raises(InvalidValue, match="resume it first"):
        service.tw.replay("orders", "billing")


# ---- redrive
def test_dead_letters_go_back_to_the_subscription_with_their_attributes(service: Service) -> None:
    sent = service.tw.send("orders", "poison", attributes={"kind": "refund"})
    service.stack.advance(seconds=10)
    for _ in range(5):
        assert [message.body for message in service.tw.receive("orders", "billing")] == ["poison"]
        service.stack.advance(minutes=2)
    assert service.tw.receive("orders", "billing") == []
    done = service.tw.redrive("orders", "billing")
    assert (done.messages, done.queue_url) == (1, service.queue_url())
    assert done.dead_letter_arn.endswith("-orders-billing-dead") and done.task
    [message] = service.tw.receive("orders", "billing")
    assert (message.id, message.body, message.attributes) == (sent.id, "poison", {"kind": "refund"})
    assert message.receive_count == 1
    again = service.tw.redrive("orders", "billing")
    assert (again.messages, again.task) == (0, None)


def test_a_queue_without_dead_letters_and_one_that_is_gone_are_told(service: Service) -> None:
    sqs = service.sqs()
    own = sqs.create_queue(QueueName="mine")["QueueUrl"]
    service.tw.create_subscription("orders", "mine", queue_url=own)
    with pytest.raises(InvalidValue, match="has no dead-letter queue"):
        service.tw.redrive("orders", "mine")
    sqs.delete_queue(QueueUrl=own)
    with pytest.raises(QueueUnavailable, match="mine"):
        service.tw.redrive("orders", "mine")


def test_the_services_own_dead_letters_go_back(service: Service) -> None:
    sqs, queues = service.sqs(), service.tw.core.connection.settings
    sqs.send_message(QueueUrl=queues.urgent_queue_url, MessageBody="no pack")
    service.stack.advance(minutes=5)
    found = service.tw.redrive_service()
    assert [each.queue_url for each in found] == [
        queues.urgent_queue_url,
        queues.bulk_queue_url,
        queues.work_queue_url,
    ]
    assert [each.messages for each in found] == [0, 0, 0], "a message without a topic stays"
    [again] = service.stack.queue(queues.refused_queue_url).everything
    assert json.loads(again.body)["body"] == "no pack"
    assert service.stack.failures == []
