"""A message's group is kept, and reaches the subscription's queue as MessageGroupId."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import AlreadyExists, AsyncTidewheel, BufferedSender, Consumer, InvalidValue, Message


def groups_in_queue(topic: Topic) -> dict[str, str | None]:
    """Takes the receivable messages with a plain SQS client. Returns body -> MessageGroupId."""
    [subscription] = topic.client.subscriptions(topic.name)
    sqs: Any = topic.client.core.connection.sqs
    answer = sqs.receive_message(
        QueueUrl=subscription.queue_url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
    )
    return {each["Body"]: each.get("Attributes", {}).get("MessageGroupId") for each in answer.get("Messages", [])}


def test_a_group_is_message_group_id_whether_a_message_waits_or_goes_direct(topic: Topic) -> None:
    topic.send("direct", delay=1, group="tenant-1")
    topic.send("waits", delay="2h", group="tenant-2")
    topic.send_and_store("of nobody", delay="2h")
    topic.advance(hours=2)
    assert groups_in_queue(topic) == {"direct": "tenant-1", "waits": "tenant-2", "of nobody": None}


def test_the_longest_group_of_all_characters_arrives_with_key_expiry_and_a_large_body(topic: Topic) -> None:
    group = "".join(map(chr, range(33, 127))) + "x" * 34
    topic.send("x" * 1_100_000, delay="2h", group=group, key="k" * 256, expires_in="1d")
    topic.advance(hours=3)
    [message] = topic.take()
    assert (message.group, len(message.body)) == (group, 1_100_000)


def test_get_and_peek_show_the_group_and_a_moved_message_keeps_it(topic: Topic) -> None:
    sent = topic.send_and_store("x", delay="2h", group="tenant-1")
    status = topic.client.get(topic.name, sent.id)
    assert status.message is not None and status.message.group == "tenant-1"
    assert [each.group for each in topic.client.peek(topic.name)] == ["tenant-1"]
    assert topic.client.reschedule(topic.name, sent.id, delay="5h")
    topic.advance(hours=6)
    assert [each.group for each in topic.take()] == ["tenant-1"]


def test_every_way_to_send_takes_a_group(topic: Topic) -> None:
    async def one() -> None:
        async with AsyncTidewheel(client=topic.client) as tw:
            await tw.send(topic.name, "async", delay=1, group="a")

    asyncio.run(one())
    with BufferedSender(topic.client) as sender:
        sender.add(topic.name, "buffered", delay=1, group="b")
    topic.client.send_many(topic.name, [Message(body="many", delay=1, group="c"), Message(body="none", delay=1)])
    topic.advance(seconds=10)
    assert {each.body: each.group for each in topic.take()} == {
        "async": "a",
        "buffered": "b",
        "many": "c",
        "none": None,
    }


@pytest.mark.story
def test_a_message_that_is_retried_or_parked_keeps_its_group(topic: Topic) -> None:
    topic.client.pause(topic.name, "billing")
    topic.send("x", delay=1, group="tenant-1")
    topic.advance(minutes=2)
    topic.client.resume(topic.name, "billing")
    topic.advance(minutes=2)
    consumer = Consumer(topic.client, topic.name, "billing")
    [message] = topic.take()
    assert message.group == "tenant-1"
    consumer.retry_later(message, delay="1m")
    topic.advance(minutes=2)
    assert groups_in_queue(topic) == {"x": "tenant-1"}


def test_a_merge_of_ledgers_with_and_without_groups_keeps_both(topic: Topic) -> None:
    small = topic.another("merged", max_buckets=4)
    for number in range(6):
        small.send_and_store(f"{number}", delay=f"{number + 20}h", group=f"tenant-{number}" if number % 2 else None)
    small.advance(hours=2)
    buckets = small.client.core.connection.storage.buckets.all(small.name)
    assert len(buckets) < 6
    small.advance(hours=30)
    assert {each.body: each.group for each in small.take()} == {
        f"{number}": f"tenant-{number}" if number % 2 else None for number in range(6)
    }


@pytest.mark.parametrize("delay", [60, "2h"])
def test_a_filter_selects_by_group_whether_a_message_waits_or_goes_direct(topic: Topic, delay: Any) -> None:
    filters = {
        "one": {"tidewheel.group": ["tenant-1"]},
        "but-one": {"tidewheel.group": [{"anything-but": ["tenant-1"]}]},
        "none": {"tidewheel.group": [{"exists": False}]},
        "both": {"tidewheel.group": [{"prefix": "tenant-"}], "group": ["red"]},
        "attribute": {"group": ["tenant-1"]},
    }
    for name, policy in filters.items():
        topic.client.create_subscription(topic.name, name, filter_policy=policy)
    topic.send("1", delay=delay, group="tenant-1")
    topic.send("2", delay=delay, group="tenant-2", attributes={"group": "red"})
    topic.send("3", delay=delay)
    topic.send("4", delay=delay, attributes={"group": "tenant-1"})
    topic.advance(hours=2, seconds=2)
    expected = {"one": "1", "but-one": "2", "none": "34", "both": "2", "attribute": "4", "billing": "1234"}
    assert {name: "".join(topic.bodies(name)) for name in expected} == expected


def test_a_filter_by_group_selects_among_messages_of_which_none_has_a_group_or_attributes(topic: Topic) -> None:
    topic.client.set_filter(topic.name, "billing", {"tidewheel.group": [{"exists": False}]})
    topic.client.create_subscription(topic.name, "grouped", filter_policy={"tidewheel.group": [{"exists": True}]})
    topic.send("direct", delay=5)
    topic.send("waits", delay="2h")
    topic.advance(hours=2, seconds=2)
    assert (topic.bodies(), topic.bodies("grouped")) == (["direct", "waits"], [])


def test_every_occurrence_of_a_recurring_message_has_its_group(topic: Topic) -> None:
    made = topic.client.send_recurring(topic.name, "tick", "x", every="10m", group="tenant-1")
    assert made.group == topic.client.recurring(topic.name)[0].group == "tenant-1"
    topic.advance(hours=3)
    found = topic.take()
    assert len(found) >= 18 and {each.group for each in found} == {"tenant-1"}
    topic.client.cancel_recurring(topic.name, "tick")


def test_a_recurring_message_of_another_group_is_another(topic: Topic) -> None:
    for _ in range(2):
        topic.client.send_recurring(topic.name, "tick", "x", every="1h", group="tenant-1")
    for group in ("tenant-2", None):
        with pytest.raises(AlreadyExists, match="tick"):
            topic.client.send_recurring(topic.name, "tick", "x", every="1h", group=group)
    replaced = topic.client.send_recurring(topic.name, "tick", "x", every="1h", group="tenant-2", replace=True)
    assert replaced.group == "tenant-2"
    with pytest.raises(InvalidValue, match=r"group='a b'"):
        topic.client.send_recurring(topic.name, "tock", "x", every="1h", group="a b")
    topic.client.cancel_recurring(topic.name, "tick")


@pytest.mark.parametrize("group", ["", "a b", "x" * 129, "é", 7, "a\n"])
def test_a_group_that_sqs_refuses_is_refused_at_once(topic: Topic, group: object) -> None:
    with pytest.raises(InvalidValue, match=r"group=.*1 to 128 ASCII letters, digits and punctuation, without spaces"):
        topic.send("x", group=group)
