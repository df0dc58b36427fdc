"""Makes and checks a subscription's queues on an SQS with late knowledge of new and deleted queues."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.eventual_sqs import EventualSqs
from tidewheel.client.operations import subscription_queues
from tidewheel.client.operations.subscription_queues import check_given_queue, delete_queues, make_queue, queue_name
from tidewheel.clock import ManualClock
from tidewheel.errors import AlreadyExists, QueueDeletedRecently, QueueUnavailable
from tidewheel.memory import MemorySqs, MemorySqsClient
from tidewheel.model.settings import SubscriptionSettings

Slow = Callable[..., EventualSqs]
SETTINGS = SubscriptionSettings(visibility_timeout_s=45)


@pytest.fixture(params=["memory", "aws"])
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Makes an SQS that hides new queues for some seconds. Waits move its time."""
    client: Any = (
        MemorySqsClient(MemorySqs(ManualClock(0))) if request.param == "memory" else request.getfixturevalue("sqs")
    )

    def make(hidden_s: float = 1.0) -> EventualSqs:
        sqs = EventualSqs(client, hidden_s=hidden_s)
        monkeypatch.setattr(subscription_queues, "sleep", sqs.sleep)
        return sqs

    return make


@pytest.fixture
def topic() -> str:
    """A topic name unique to the test, since moto's queues outlive a test."""
    return f"orders-{uuid.uuid4().hex[:8]}"


def made(sqs: Any, topic: str, name: str = "billing") -> str:
    return make_queue(sqs, "stack", topic, name, SETTINGS)


def attributes(sqs: Any, url: str) -> dict[str, str]:
    return dict(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])


@pytest.mark.parametrize("hidden_s", [0.0, 0.1, 1.0, 2.0])
def test_a_queue_whose_dead_letter_queue_is_not_known_for_seconds_is_made_with_it(
    slow: Slow, topic: str, hidden_s: float
) -> None:
    sqs = slow(hidden_s)
    url = made(sqs, topic)
    spent_s = sqs.now_s
    sqs.sleep(20)
    found = attributes(sqs, url)
    redrive, dead = json.loads(found["RedrivePolicy"]), attributes(sqs, f"{url}-dead")
    assert (redrive["deadLetterTargetArn"], int(redrive["maxReceiveCount"])) == (dead["QueueArn"], 5)
    assert dead["QueueArn"] == f"{found['QueueArn']}-dead"
    assert found["VisibilityTimeout"] == "45"
    kept = {each.get("MessageRetentionPeriod", "1209600") for each in (found, dead)}  # ElasticMQ has none
    assert kept == {"1209600"}
    assert spent_s < 12 and (hidden_s or not spent_s)


def test_a_queue_that_stays_unknown_is_reported_within_seconds(slow: Slow, topic: str) -> None:
    sqs = slow(60.0)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        made(sqs, topic)
    assert 3 < sqs.now_s < 5


@pytest.mark.parametrize("changed", [False, True])
def test_a_second_caller_finds_the_queues_that_are_not_known_yet(slow: Slow, topic: str, changed: bool) -> None:
    sqs = slow(0.0)
    url = made(sqs, topic)
    if changed:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "77"})
    sqs = slow(2.0)
    sqs.new = dict.fromkeys((name := queue_name("stack", topic, "billing"), f"{name}-dead"), 0.0)
    assert made(sqs, topic) == url
    sqs.sleep(20)
    assert attributes(sqs, url)["VisibilityTimeout"] == ("77" if changed else "45")


def test_a_queue_that_was_just_deleted_is_not_taken_for_a_subscription_although_sqs_still_answers(
    slow: Slow, topic: str
) -> None:
    sqs = slow()
    url = made(sqs, topic)
    sqs.sleep(20)
    delete_queues(sqs, "stack", topic, "billing", url)
    assert sqs.get_queue_url(QueueName=url.rpartition("/")[2]), "as AWS says: calls may succeed for a minute"
    with pytest.raises(QueueDeletedRecently, match=rf"queue stack-{topic}-billing-dead .*60 s"):
        made(sqs, topic)
    sqs.sleep(60)
    assert made(sqs, topic) == url
    sqs.sleep(20)
    assert attributes(sqs, url)["VisibilityTimeout"] == "45"


def test_a_queue_that_another_subscription_makes_meanwhile_is_not_taken(slow: Slow, topic: str) -> None:
    sqs = slow()
    other = f"{topic}-a", "b"  # the same plain name as subscription "a-b" of the topic
    create, raced = sqs._create, []

    def late(name: str, request: dict[str, Any]) -> Any:
        if not raced:
            raced.append("")
            raced[0] = make_queue(sqs, "stack", *other, SETTINGS)
        return create(name, request)

    sqs._create = late  # type: ignore[method-assign]
    mine = made(sqs, topic, "a-b")
    assert mine != raced[0] and mine.endswith(queue_name("stack", topic, "a-b", hashed=True))
    assert made(sqs, topic, "a-b") == mine
    with pytest.raises(AlreadyExists):
        for name in (queue_name("stack", topic, "c"), queue_name("stack", topic, "c", hashed=True)):
            sqs.create_queue(QueueName=name)
        sqs.sleep(1)
        made(sqs, topic, "c")


def test_a_given_queue_may_be_new_and_one_that_does_not_exist_is_told_within_seconds(slow: Slow, topic: str) -> None:
    sqs = slow(2.0)
    url = sqs.create_queue(QueueName=topic)["QueueUrl"]
    assert check_given_queue(sqs, url) == url
    before_s = sqs.now_s
    with pytest.raises(QueueUnavailable, match=r"NonExistentQueue|QueueDoesNotExist"):
        check_given_queue(sqs, f"{url}-not")
    assert sqs.now_s - before_s < 5


def test_a_refusal_that_no_wait_helps_is_told_at_once(slow: Slow, topic: str) -> None:
    sqs = slow()
    with pytest.raises(
        sqs.exceptions.ClientError, match=r"InvalidParameterValue|InvalidAttributeName"
    ):  # ElasticMQ's code
        make_queue(sqs, "stack/", topic, "billing", SETTINGS)
    assert sqs.now_s == 0


def test_queues_that_somebody_else_deletes_meanwhile_are_deleted(slow: Slow, topic: str) -> None:
    sqs = slow(0.0)
    url = made(sqs, topic)
    delete_queues(sqs, "stack", topic, "billing", url)
    sqs.sleep(61)
    delete_queues(sqs, "stack", topic, "billing", url)
    kept, deleted = sqs._check_known, []

    def vanishes(name: str, operation: str) -> None:
        kept(name, operation)
        if operation == "delete_queue":
            deleted.append(name)
            sqs._refuse("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", operation)

    url = made(sqs, topic)
    sqs._check_known = vanishes  # type: ignore[method-assign]
    delete_queues(sqs, "stack", topic, "billing", url)
    assert deleted == [url.rpartition("/")[2], f"{url.rpartition('/')[2]}-dead"]
