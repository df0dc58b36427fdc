"""Tests the client over the service in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.marks import topic_state
from tests.service_settings import service_settings
from tests.stored import altered
from tidewheel.client.operations.subscription_queues import MAX_QUEUE_NAME, queue_name
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.topic_cache import CACHE_MS
from tidewheel.clock import ManualClock, utc
from tidewheel.errors import AlreadyExists, DeleteFailed, InvalidValue, NotConfigured, UnknownTopic
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.administration.update_topic import FIXED
from tidewheel.memory import MemoryService, MemorySqs, MemorySqsClient
from tidewheel.model.message import HEADER_ATTRIBUTE, Encoding, id_text
from tidewheel.model.received import header_text
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import (
    ChangeableSettings,
    NewSubscriptionSettings,
    NewTopicSettings,
    SubscriptionSettings,
    TopicSettings,
    TuningSettings,
    parameter_name,
)
from tidewheel.model.topic import Topic
from tidewheel.storage.subscriptions import Subscriptions
from tidewheel.storage.topic_states import TopicStates

NOW_MS = 1_800_000_000_000
SLOT_MS = TopicSettings().slot_ms
DURATIONS = ("slot_s", "lookahead_s", "retention_days")
"""Settings that the CDK takes as durations, by other names."""


class Stack:
    """A client with the service, SQS and clock behind the client."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.storage = MemoryService.at(self.clock)
        self.sqs: Any = MemorySqsClient(MemorySqs(self.clock))
        urls = {f"{name}_queue_url": self.sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("urgent", "bulk")}
        self.settings = service_settings(**urls)
        self.client = self.client_of(self.storage)

    def client_of(self, storage: Any) -> Tidewheel:
        """Makes a client over other ports."""
        return Tidewheel(settings=self.settings, clock=self.clock, storage=storage, sqs=self.sqs)

    def deliver(self, queue_url: str, body: str, **attributes: str) -> str:
        """Puts a message into a queue as the deliver function does."""
        message_id = id_text(NOW_MS.to_bytes(6) + body.encode()[-10:].rjust(10, b"\0"))
        values = {HEADER_ATTRIBUTE: header_text(message_id, Encoding.TEXT, NOW_MS), **attributes}
        self.sqs.send_message(
            QueueUrl=queue_url,
            MessageBody=body,
            MessageAttributes={k: {"DataType": "String", "StringValue": v} for k, v in values.items()},
        )
        return message_id


@pytest.fixture
def stack() -> Stack:
    return Stack()


@pytest.fixture
def session() -> Iterator[boto3.Session]:
    """A session of an account without stacks."""
    with mock_aws():
        yield boto3.Session(region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")


# ---- imports


def test_the_settings_that_calls_take_are_those_of_a_topic() -> None:
    named = {field.name for field in fields(TopicSettings)}
    assert NewTopicSettings.__optional_keys__ == named
    assert ChangeableSettings.__optional_keys__ == named - set(FIXED)
    assert TuningSettings.__optional_keys__ == {name for name in named if name not in DURATIONS}
    assert NewSubscriptionSettings.__optional_keys__ == settings_of(SubscriptionSettings).keys()


# ---- settings


def test_the_settings_and_the_defaults_of_new_topics_come_from_the_ssm_parameter(
    stack: Stack, session: boto3.Session
) -> None:
    given = asdict(stack.settings) | {"topic_defaults": {"slot_s": 1, "part_rows": 9, "of_a_newer_release": 7}}
    session.client("ssm").put_parameter(Name=parameter_name("tw"), Value=json.dumps(given), Type="String")
    client = Tidewheel("tw", session=session, clock=stack.clock, storage=stack.storage)
    assert client.core.connection.settings == stack.settings
    assert client.create_topic("orders", part_rows=8).settings == TopicSettings(slot_s=1, part_rows=8)
    assert client.create_topic("orders").settings.slot_s == 1
    assert client.create_topic("other", settings=TopicSettings()).settings == TopicSettings()


def test_a_stack_that_is_not_deployed_is_told_with_advice(session: boto3.Session) -> None:
    client = Tidewheel("nowhere", session=session)
    with pytest.raises(
        NotConfigured,
        match=r"no stack 'nowhere' in region us-east-1 \(no SSM parameter /tidewheel/nowhere/settings\): deploy",
    ):
        client.topics()


# ---- topics


def test_creating_a_topic_again_with_the_same_settings_returns_the_same(stack: Stack) -> None:
    made = stack.client.create_topic("orders", slot_s=60)
    assert made == Topic(name="orders", settings=TopicSettings(slot_s=60), created_at=utc(NOW_MS))
    assert stack.client.create_topic("orders", settings=TopicSettings(slot_s=60)) == made
    assert stack.client.topics() == [made]
    state = topic_state(stack.client, "orders")
    assert (state.sealed, state.planned, state.collected_until) == (NOW_MS // 60_000,) * 3


def test_creating_a_topic_with_other_settings_names_the_difference(stack: Stack) -> None:
    stack.client.create_topic("orders", slot_s=60)
    with pytest.raises(AlreadyExists, match=rf"with slot_s=60 \(asked for {SLOT_MS // 1000}\); use another name"):
        stack.client.create_topic("orders", slot_s=SLOT_MS // 1000)
    with pytest.raises(AlreadyExists, match=r"slot_s=60 .* lookahead_s=480 \(asked for 120\)"):
        stack.client.create_topic("orders", settings=TopicSettings(lookahead_s=120))


def test_settings_that_a_caller_leaves_out_keep_the_values_of_the_topic(stack: Stack) -> None:
    made = stack.client.create_topic("orders", slot_s=60, lookahead_s=150, retention_days=1)
    assert stack.client.create_topic("orders") == made
    assert stack.client.create_topic("orders", lookahead_s=150) == made
    with pytest.raises(AlreadyExists, match=r"retention_days=1 \(asked for 0\)"):
        stack.client.create_topic("orders", retention_days=0)


def test_a_topic_with_another_release_s_defaults_is_the_one_asked_for_unless_one_is_asked_for(stack: Stack) -> None:
    made = stack.client.create_topic("orders", inline_rows=2000)
    assert stack.client.create_topic("orders") == made
    with pytest.raises(AlreadyExists, match=r"with inline_rows=2000 \(asked for 3000\); use another name"):
        stack.client.create_topic("orders", inline_rows=3000)


# ---- subscriptions


def test_creating_a_subscription_again_returns_the_same(stack: Stack) -> None:
    stack.client.create_topic("orders")
    made = stack.client.create_subscription("orders", "billing")
    assert stack.client.create_subscription("orders", "billing", initial_position="earliest") == made
    assert stack.client.create_subscription("orders", "billing", queue_url=made.queue_url) == made
    assert stack.client.subscriptions("orders") == [made]
    assert (made.topic, made.name, made.state, made.created_at) == ("orders", "billing", "ACTIVE", utc(NOW_MS))
    with pytest.raises(AlreadyExists, match="asked for https://other"):
        stack.client.create_subscription("orders", "billing", queue_url="https://other")


def test_a_retry_after_a_crash_between_queue_and_subscription_uses_the_queue(stack: Stack) -> None:
    stack.client.create_topic("orders")
    made = stack.client.create_subscription("orders", "billing")
    other = stack.client_of(MemoryService.at(stack.clock))
    other.create_topic("orders")
    assert other.create_subscription("orders", "billing").queue_url == made.queue_url


def test_subscriptions_whose_queues_would_have_one_name_get_queues_of_their_own(stack: Stack) -> None:
    for topic in ("a", "a-b"):
        stack.client.create_topic(topic)
    pairs = [("a-b", "c"), ("a", "b-c"), ("a", "x"), ("a", "x-dead")]
    urls = [stack.client.create_subscription(topic, name).queue_url for topic, name in pairs]
    assert len(set(urls)) == 4
    dead = stack.sqs.get_queue_url(QueueName="tw-a-x-dead")["QueueUrl"]
    assert dead not in urls
    assert len(stack.sqs.list_queues()["QueueUrls"]) == 2 + 2 * 4


def test_queue_names_fit_sqs_and_differ() -> None:
    long = "a" * 48
    names = {queue_name("tidewheel", long, long[:-1] + last) for last in "bcd"}
    assert len(names) == 3
    assert all(len(name + "-dead") <= MAX_QUEUE_NAME for name in names)
    assert queue_name("tidewheel", "orders", "billing") == "tidewheel-orders-billing"


def test_a_subscription_of_an_unknown_topic_makes_no_queue(stack: Stack) -> None:
    with pytest.raises(UnknownTopic):
        stack.client.create_subscription("orders", "billing")
    with pytest.raises(UnknownTopic):
        create_subscription(stack.storage, stack.clock, "orders", "billing", "https://q")
    assert len(stack.sqs.list_queues()["QueueUrls"]) == 2


def test_a_subscription_reads_the_topic_state_again_when_the_topic_changes_under_it() -> None:
    class Busy(Subscriptions):
        """Collects up to the plan between the read and the first write."""

        tries = 0

        def create(self, state: Any, subscription: Any) -> bool:
            self.tries += 1
            return self.tries > 1 and super().create(state, subscription)

    clock = ManualClock(NOW_MS)
    storage = MemoryService.at(clock)
    storage = altered(storage, subscriptions=Busy)
    create_topic(storage, clock, "orders", TopicSettings())
    made = create_subscription(storage, clock, "orders", "billing", "https://q", "earliest")
    assert storage.subscriptions.tries == 2
    assert storage.subscriptions.read("orders", "billing") == made


# ---- sending


def test_send_many_to_an_unknown_topic_does_not_touch_the_iterable(stack: Stack) -> None:
    with pytest.raises(UnknownTopic, match="create it, or correct the name"):
        stack.client.send_many("orders", (pytest.fail("read") for _ in range(1)))


def test_a_topic_is_looked_up_once_a_minute_and_an_unknown_one_each_time(stack: Stack) -> None:
    class Counting(TopicStates):
        reads = 0

        def read(self, topic: str) -> Any:
            self.reads += 1
            return super().read(topic)

    storage = altered(stack.storage, topic_states=Counting)
    states = storage.topic_states
    client = stack.client_of(storage)
    for expected in (1, 2):
        with pytest.raises(UnknownTopic):
            client.send("orders", "x")
        assert states.reads == expected
    create_topic(storage, stack.clock, "orders", TopicSettings())
    states.reads = 0
    for _ in range(3):
        client.send("orders", "x")
    assert states.reads == 1
    stack.clock.advance_ms(CACHE_MS)
    client.send("orders", "x")
    assert states.reads == 2


# ---- receiving


def test_a_foreign_message_is_passed_over_with_a_warning(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    stack.client.create_topic("orders")
    queue_url = stack.client.create_subscription("orders", "billing").queue_url
    stack.sqs.send_message(QueueUrl=queue_url, MessageBody="foreign")
    ours = stack.deliver(queue_url, "ours")
    assert [each.id for each in stack.client.receive("orders", "billing")] == [ours]
    assert "not a message that Tidewheel delivered" in caplog.text


def test_what_cannot_be_acknowledged_is_named(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.client.create_topic("orders")
    queue_url = stack.client.create_subscription("orders", "billing").queue_url
    stack.deliver(queue_url, "m")
    found = stack.client.receive("orders", "billing")
    calls: list[Any] = []

    def refuse(**request: Any) -> dict[str, Any]:
        calls.append(request)
        return {"Failed": [{"Id": "0", "SenderFault": False, "Code": "InternalError", "Message": "m"}]}

    monkeypatch.setattr(stack.client.core.connection.sqs, "delete_message_batch", refuse)
    with pytest.raises(DeleteFailed, match="InternalError: m") as caught:
        stack.client.delete("orders", "billing", found)
    assert [message for message, _ in caught.value.failures] == found
    assert len(calls) == 2
    with pytest.raises(InvalidValue, match="that receive returned"):
        stack.client.delete("orders", "billing", ["m"])  # type: ignore[list-item]
