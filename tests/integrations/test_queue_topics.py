"""Topics of queues, with their names, creation and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel import InvalidValue, Tidewheel
from tidewheel.errors import QueueNotPrepared
from tidewheel.integrations.queue_topics import SUBSCRIPTION, QueueTopics, check_threshold
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import MAX_MESSAGE_BYTES

SQS_NAMES = st.text("abcXYZ019_-", min_size=1, max_size=80)


@pytest.fixture
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel() as opened:
        yield opened


def _queue(stack: LocalTidewheel, name: str) -> str:
    return str(stack.session.client("sqs").create_queue(QueueName=name)["QueueUrl"])


# ---- names


@given(st.lists(SQS_NAMES, unique=True, max_size=20))
def test_every_sqs_queue_has_a_topic_of_its_own_with_a_name_that_can_be(names: list[str]) -> None:
    topics = QueueTopics(Tidewheel())
    made = [topics.topic(f"https://sqs.eu-west-1.amazonaws.com/123456789012/{name}") for name in names]
    assert made == [topics.topic(name) for name in names]
    assert len(set(made)) == len(names)
    for name, topic in zip(names, made, strict=True):
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,48}", topic)
        assert topic == name or len(name) > 48


def test_a_topic_can_be_given_by_the_queues_name() -> None:
    assert QueueTopics(Tidewheel(), {"prod_default": "tasks"}).topic("https://sqs/1/prod_default") == "tasks"


@pytest.mark.parametrize(
    ("topics", "said"), [({"default": "no spaces"}, "48 letters"), ({"a": "one", "b": "one"}, "a topic of its own")]
)
def test_topics_that_cannot_be_are_refused_at_once(topics: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        QueueTopics(Tidewheel(), topics)


def test_a_fifo_queue_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidValue, match=r"tasks\.fifo.*FIFO queues take no delay"):
        QueueTopics(Tidewheel()).topic("https://sqs.eu-west-1.amazonaws.com/123456789012/tasks.fifo")


@pytest.mark.parametrize("threshold_s", [-1, 901, True, 1.5, "900"])
def test_a_threshold_that_sqs_cannot_hold_is_refused(threshold_s: object) -> None:
    with pytest.raises(InvalidValue, match="0 to 900"):
        check_threshold(threshold_s)  # type: ignore[arg-type]


# ---- prepare


def test_prepare_twice_makes_one_topic_and_one_subscription(stack: LocalTidewheel) -> None:
    topics, url = QueueTopics(stack.client()), _queue(stack, "default")
    assert topics.prepare(url, slot_s=60) == topics.prepare(url)
    [topic] = stack.client().topics()
    assert (topic.name, topic.settings.slot_s) == ("default", 60)
    [subscription] = stack.client().subscriptions("default")
    assert (subscription.name, subscription.queue_url) == (SUBSCRIPTION, url)


def test_prepare_goes_on_where_it_stopped_after_the_topic(stack: LocalTidewheel) -> None:
    topics, url = QueueTopics(stack.client()), _queue(stack, "default")
    stack.client().create_topic("default")
    with pytest.raises(QueueNotPrepared, match=r"topic 'default' does not lead to .*; call prepare\(\)"):
        topics.send(url, "hello")
    topics.prepare(url)
    assert topics.send(url, "hello").topic == "default"


def test_a_subscription_made_through_another_host_of_sqs_is_the_queues_own(stack: LocalTidewheel) -> None:
    url = _queue(stack, "default")
    stack.client().create_topic("default")
    made = stack.client().create_subscription("default", "anything", queue_url=url)
    other_host = re.sub("//[^/]+/", "//vpce-1.sqs.us-east-1.vpce.amazonaws.com/", url)
    assert other_host != url
    topics = QueueTopics(stack.client())
    assert topics.prepare(other_host) == made
    assert topics.send(other_host, "hello").topic == "default"


def test_a_topic_that_feeds_other_queues_is_not_taken(stack: LocalTidewheel) -> None:
    stack.client().create_topic("default")
    stack.client().create_subscription("default", "billing")
    with pytest.raises(InvalidValue, match=r"tidewheel-default-billing, which would get the tasks too.*topics="):
        QueueTopics(stack.client()).prepare(_queue(stack, "default"))
    assert len(stack.client().subscriptions("default")) == 1


# ---- send


def test_a_queue_without_a_topic_is_refused_before_anything_is_sent(stack: LocalTidewheel) -> None:
    url = _queue(stack, "default")
    with pytest.raises(QueueNotPrepared) as refused:
        QueueTopics(stack.client()).send(url, "hello")
    assert (refused.value.topic, refused.value.queue_url) == ("default", url)
    assert stack.requests["sqs.SendMessageBatch"] == 0


def test_whether_a_queue_is_prepared_is_asked_once(stack: LocalTidewheel) -> None:
    url = _queue(stack, "default")
    QueueTopics(stack.client()).prepare(url)
    topics = QueueTopics(stack.client())
    topics.send(url, "first")
    asked = stack.requests["dynamodb.Query"]
    topics.send(url, "second")
    assert stack.requests["dynamodb.Query"] == asked


def test_a_task_that_sqs_could_not_carry_is_refused_before_anything_is_sent(stack: LocalTidewheel) -> None:
    url = _queue(stack, "default")
    topics = QueueTopics(stack.client())
    topics.prepare(url)
    attributes = {"kind": "x"}
    room = MAX_MESSAGE_BYTES - len("kindStringx")
    with pytest.raises(InvalidValue, match=rf"comes to {MAX_MESSAGE_BYTES + 1} bytes"):
        topics.send(url, "x" * (room + 1), attributes=attributes)
    assert stack.requests["sqs.SendMessageBatch"] == 0
    topics.send(url, "x" * room, attributes=attributes)
    stack.advance(minutes=1)
    [message] = stack.receive("default", SUBSCRIPTION)
    assert (len(message.body), message.attributes) == (room, attributes)
