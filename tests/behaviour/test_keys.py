"""Tests reschedule, upserts, debounce, deduplication, and repeated or reordered ingest (point 2)."""

from __future__ import annotations

import random

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Message, MessageState, Rescheduled


def test_a_rescheduled_message_comes_at_its_new_time_with_its_old_body_and_attributes(topic: Topic) -> None:
    sent = topic.send_and_store({"id": 17}, delay="3h", attributes={"kind": "reminder"}, expires_in="1h")
    result = topic.client.reschedule(topic.name, sent.id, delay="4h")
    assert isinstance(result, Rescheduled) and result.old_id == sent.id and result.receipt.id != sent.id
    assert topic.client.get(topic.name, sent.id).moved_to == result.receipt.id
    topic.advance(hours=3, minutes=50)
    assert topic.take() == []
    topic.advance(minutes=20)
    [message] = topic.take()
    assert (message.id, message.json(), message.attributes) == (result.receipt.id, {"id": 17}, {"kind": "reminder"})
    assert message.expires_at is not None and (message.expires_at - message.deliver_at).total_seconds() == 3600


def test_a_message_is_rescheduled_by_its_key(topic: Topic) -> None:
    topic.send_and_store("moved", delay="3h", key="order 17")
    assert isinstance(topic.client.reschedule(topic.name, key="order 17", delay_level=18), Rescheduled)
    topic.advance(hours=3)
    assert topic.bodies() == ["moved"]
    topic.advance(hours=5)
    assert topic.bodies() == []


def test_an_upsert_takes_the_place_of_what_waits_and_the_last_writer_wins(topic: Topic) -> None:
    first = topic.send_and_store("first", delay="3h", key="cart", replace=True)
    topic.send_and_store("second", delay="4h", key="cart", replace=True)
    topic.send("third", delay="3h", key="cart", replace=True)  # still on its way when the fourth is sent
    topic.send("fourth", delay="5h", key="cart", replace=True)
    topic.advance(seconds=301)
    assert topic.client.get(topic.name, first.id).state is MessageState.CANCELLED
    topic.advance(hours=6)
    assert topic.bodies() == ["fourth"]


@pytest.mark.parametrize("delay", [360, "30m", "3h"])
def test_a_key_without_replace_drops_the_second_for_as_long_as_the_first_waits(topic: Topic, delay: str) -> None:
    topic.send_and_store("first", delay=delay, key="job 4")
    topic.send("dropped, direct", delay=30, key="job 4")
    topic.send("dropped, waiting", delay="2h", key="job 4")
    topic.advance(hours=3)
    assert topic.bodies() == ["first"]
    topic.send("after it", delay=10, key="job 4")
    topic.advance(hours=1)
    assert topic.bodies() == ["after it"]


def test_of_two_in_one_batch_the_first_stays_and_of_two_upserts_the_last(topic: Topic) -> None:
    once = [Message(body=body, delay="3h", key="a") for body in ("one", "two")]
    upserts = [Message(body=body, delay="3h", key="b", replace=True) for body in ("three", "four")]
    topic.client.send_many(topic.name, [*once, *upserts])
    topic.advance(hours=5)
    assert topic.bodies() == ["four", "one"]


@pytest.mark.story
def test_ingest_that_is_repeated_or_reordered_is_harmless(topic: Topic) -> None:
    """Messages due soon overtake messages gathered for five minutes, and SQS delivers all packs again."""
    topic.send("old", delay="3h", key="cart", replace=True)
    topic.send("new", delay="50m", key="cart", replace=True)  # is ingested first
    topic.send("once", delay="3h", key="job")
    topic.send("only once", delay="50m", key="job")
    copies = topic.copies_of_what_is_on_its_way()
    topic.advance(minutes=6)
    random.Random(4).shuffle(copies)
    topic.bring_again(copies)
    topic.advance(minutes=6)
    topic.bring_again(copies[::-1])
    topic.advance(hours=5)
    messages = topic.take()
    bodies = {each.body for each in messages}
    assert "new" in bodies and "old" not in bodies
    assert len(bodies & {"once", "only once"}) == 1
    assert len({each.id for each in messages}) == 2, "copies have the ids that they had"


@pytest.mark.parametrize("delay", [0, "3h"])
def test_an_upsert_that_sqs_hands_out_twice_in_one_batch_comes(topic: Topic, delay: str) -> None:
    topic.send("cart", delay=delay, key="cart", replace=True)
    topic.bring_again(topic.copies_of_what_is_on_its_way())
    topic.advance(hours=5)
    assert {each.body for each in topic.take()} == {"cart"}


def test_the_version_of_a_message_is_its_senders_clock_and_count(topic: Topic) -> None:
    topic.send("one", key="a", replace=True)
    topic.send("two", key="b", replace=True)
    topic.advance(seconds=2)
    one, two = sorted(topic.take(), key=lambda each: each.body)
    now_ms = round(topic.stack.now().timestamp() * 1000) - 2000
    assert (one.version[0], two.version[0]) == (now_ms, now_ms)
    assert two.version[1] > one.version[1]


def test_a_cancel_by_another_client_stops_what_was_sent_in_the_same_millisecond_and_nothing_later(topic: Topic) -> None:
    for number in range(3):  # each client has a count of its own
        topic.send(f"other {number}", delay="1h", key=f"other {number}")
    topic.send("before", delay="1h", key="k")
    assert topic.stack.client().cancel(topic.name, key="k")
    topic.send("after", delay="1h", key="k")
    topic.advance(hours=2)
    assert topic.bodies() == ["after", "other 0", "other 1", "other 2"]
