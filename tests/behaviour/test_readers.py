"""Tests who reads: consumers that claim, plain readers, and subscriptions of which nobody knows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.behaviour.topic import Topic, receive_raw, record_of
from tidewheel import Cancelled, Consumer, ConsumerCounts, TooLate, Worker
from tidewheel.model.received import parse_received

KEY: dict[str, Any] = {"key": "order 17"}


def stopped_late(topic: Topic, delay: str, minutes: int) -> None:
    """Cancels a message after its slot was sealed. The subscriptions claim."""
    topic.send("time-out", delay=delay, **KEY)
    topic.advance(minutes=minutes)
    assert isinstance(topic.client.cancel(topic.name, **KEY), Cancelled)


def raw_bodies(topic: Topic, subscription: str) -> list[str]:
    """Receives all messages as a plain reader does."""
    return sorted(parse_received(each).body for each in topic.receive_raw(subscription))


def test_a_time_out_of_a_quarter_of_an_hour_is_cancelled_by_its_key_a_minute_before(topic: Topic) -> None:
    stopped_late(topic, "15m", 14)
    topic.advance(minutes=2)
    assert topic.bodies() == []


def test_a_late_cancel_says_who_may_get_the_message_all_the_same_and_why(topic: Topic) -> None:
    topic.client.create_subscription(topic.name, "audit", reader="plain")
    topic.client.create_subscription(topic.name, "mail")
    topic.send("time-out", delay="15m", **KEY)
    topic.advance(minutes=14)
    answer = topic.client.cancel(topic.name, **KEY)
    assert isinstance(answer, TooLate)
    assert answer.reason == (
        "plain readers may get it: audit; no consumer of the SDK has received yet from: mail "
        "(declare reader='tidewheel' at its creation, or receive once). "
        "For all others it is stopped"
    )
    topic.advance(minutes=2)
    assert (topic.bodies(), topic.bodies("mail"), raw_bodies(topic, "audit")) == ([], [], ["time-out"])
    assert topic.client.cancel(topic.name, **KEY) == TooLate(id=answer.id, plain=("audit",))


def test_a_key_whose_message_was_replaced_late_is_not_cancelled_for_a_plain_reader(topic: Topic) -> None:
    topic.client.create_subscription(topic.name, "audit", reader="plain")
    topic.send("older", delay="15m", **KEY)
    topic.advance(minutes=12)
    topic.send("newer", delay="1h", replace=True, **KEY)
    topic.advance(minutes=1)
    assert isinstance(topic.client.cancel(topic.name, **KEY), TooLate)
    topic.advance(hours=2)
    assert (topic.bodies(), raw_bodies(topic, "audit")) == ([], ["older"])


@pytest.mark.parametrize(("delay", "minutes"), [("15m", 12), ("6m", 1), ("6m", 0)])
@pytest.mark.parametrize("way", ["latest", "earliest", "replay"])
def test_a_plain_reader_that_comes_after_a_cancel_does_not_get_the_message(
    topic: Topic, way: str, delay: str, minutes: int
) -> None:
    orders, start = topic.another("kept", retention_days=1), topic.stack.now() - timedelta(hours=1)
    stopped_late(orders, delay, minutes)
    position: Any = "latest" if way == "replay" else way
    orders.client.create_subscription(orders.name, "audit", reader="plain", initial_position=position)
    if way == "replay":
        orders.client.replay(orders.name, "audit", start=start, end=start.replace(year=start.year + 1))
    orders.advance(hours=3)
    assert raw_bodies(orders, "audit") == []


def test_a_receipt_tells_of_a_reader_that_its_client_has_just_created(topic: Topic) -> None:
    untils = [topic.client.send(topic.name, "x", delay="3h", **KEY).cancellable_until]
    for reader in ("tidewheel", "plain"):
        name: Any = reader
        topic.client.create_subscription(topic.name, f"a-{reader}", reader=name)
        untils.append(topic.client.send(topic.name, "x", delay="3h", **KEY).cancellable_until)
    assert [until is None for until in untils] == [True, True, False]


def test_a_plain_reader_may_receive_ten_times(topic: Topic) -> None:
    url = topic.client.create_subscription(topic.name, "audit", reader="plain").queue_url
    topic.send("poison")
    for _ in range(10):
        topic.advance(minutes=2)
        assert raw_bodies(topic, "audit") == ["poison"]
    topic.advance(minutes=2)
    assert receive_raw(topic.sqs, url) == topic.everything_in(url) == []


def test_a_subscription_that_is_made_anew_has_another_reader(topic: Topic) -> None:
    consumer = Consumer(topic.client, topic.name, "mail")
    for number in range(2):
        topic.client.create_subscription(topic.name, "mail")
        topic.send(str(number), delay="5m", **KEY)
        topic.advance(minutes=1)
        late = topic.client.cancel(topic.name, **KEY)
        assert isinstance(late, TooLate) and late.unseen == ("mail",)
        consumer.receive()
        assert topic.client.cancel(topic.name, **KEY) == Cancelled(id=late.id)
        topic.client.delete_subscription(topic.name, "mail")
        topic.advance(minutes=10)


def test_a_consumer_learns_at_once_that_a_subscription_was_made_anew_with_another_reader(topic: Topic) -> None:
    topic.client.create_subscription(topic.name, "mail", reader="plain")
    consumer = Consumer(topic.stack.client(), topic.name, "mail")
    consumer.receive()
    topic.client.delete_subscription(topic.name, "mail")
    topic.client.create_subscription(topic.name, "mail")
    topic.send("claimed", key="another")
    topic.advance(seconds=1)
    assert [each.body for each in consumer.receive()] == ["claimed"]
    topic.send("time-out", delay="5m", **KEY)
    topic.advance(minutes=1)
    assert isinstance(topic.client.cancel(topic.name, **KEY), Cancelled)


def test_a_lambda_function_handles_what_a_deleted_subscription_left_in_its_queue(topic: Topic) -> None:
    url = topic.sqs.create_queue(QueueName="of-ours")["QueueUrl"]
    topic.client.create_subscription(topic.name, "mail", queue_url=url, reader="tidewheel")
    topic.send("with a key", **KEY)
    topic.send("without")
    topic.advance(seconds=1)
    topic.client.delete_subscription(topic.name, "mail")
    event = {"Records": [record_of(each) for each in receive_raw(topic.sqs, url)]}
    worker = Worker(topic.stack.client())
    worker.handles(f"{topic.name}/mail")(lambda message: None)
    assert worker.lambda_handler(event) == {"batchItemFailures": []}
    assert worker.counts == {f"{topic.name}/mail": ConsumerCounts(handled=2)}


@pytest.mark.parametrize("by", ["id", "key", "key of the new message", "many", "move"])
def test_a_message_that_was_moved_late_is_not_cancelled_for_a_plain_reader(topic: Topic, by: str) -> None:
    client, name = topic.client, topic.name
    client.create_subscription(name, "audit", reader="plain")
    old = topic.send("moved", delay="3h", **KEY)
    topic.advance(hours=2, minutes=54)
    moved = client.reschedule(name, old.id, delay="1h")
    assert isinstance(moved, TooLate)
    assert moved.reason == "plain readers may get it at its old time too: audit. For all others it is moved"
    if by in ("key of the new message", "move"):
        topic.advance(minutes=5, seconds=30)
    calls: dict[str, Any] = {
        "id": lambda: client.cancel(name, old.id),
        "many": lambda: client.cancel_many(name, [old.id])[0],
        "move": lambda: client.reschedule(name, old.id, delay="2h"),
    }
    answer = calls.get(by, lambda: client.cancel(name, **KEY))()
    assert isinstance(answer, TooLate) and answer.plain == ("audit",)
    topic.advance(hours=4)
    again = ["moved"] * (by == "move")
    assert (topic.bodies(), raw_bodies(topic, "audit")) == (again, ["moved", *again])
