"""Tests cancels by id, by key, and of many messages at once, always with a true answer (point 1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Cancelled, TooLate


@pytest.mark.parametrize("delay", [60, "30m", "3h"])
@pytest.mark.parametrize("by", ["id", "key"])
def test_a_message_that_is_still_in_the_ingest_queue_is_cancelled_too(topic: Topic, delay: str, by: str) -> None:
    sent = topic.send("gone", delay=delay, key="order 17")
    result = topic.client.cancel(topic.name, sent.id if by == "id" else None, key="order 17" if by == "key" else None)
    assert result, "nothing of it was ingested, so it is in time"
    topic.advance(hours=5)
    assert topic.bodies() == []


def test_a_sealed_slot_is_too_late_and_an_open_one_in_time_to_the_minute(topic: Topic) -> None:
    start = topic.stack.now().timestamp()
    due = start - start % 300 + 7200  # the start of a slot, which is sealed 480 s before, or up to a minute later
    early, late = topic.send("early", deliver_at=due), topic.send("late", deliver_at=due)
    topic.advance(seconds=due - 481 - start)
    assert topic.client.cancel(topic.name, early.id)
    topic.advance(seconds=62)
    assert not topic.client.cancel(topic.name, late.id)
    topic.advance(minutes=10)
    assert topic.bodies() == ["late"]


@pytest.mark.story
def test_many_are_cancelled_at_once_each_with_its_own_answer(topic: Topic) -> None:
    late = topic.send("late", delay="1m")
    topic.advance(seconds=1)
    gone = [topic.send(f"gone {i}", delay=3600 * (2 + i % 3)) for i in range(120)]
    stays = topic.send("stays", delay="3h")
    ids = [late.id, *(each.id for each in gone), gone[0].id]
    results = topic.client.cancel_many(topic.name, ids)
    assert results == [TooLate(id=late.id), *(Cancelled(id=each) for each in ids[1:])]
    topic.advance(hours=5)
    assert topic.bodies() == ["late", "stays"]
    assert topic.client.cancel(topic.name, stays.id) == TooLate(id=stays.id)


def test_a_key_that_nobody_used_is_cancelled_without_a_message(topic: Topic) -> None:
    nobodys = topic.client.cancel(topic.name, key="nobody's")
    assert nobodys == Cancelled(id=None) and not nobodys.found
    sent = topic.send("gone", delay="3h", key="order 17")
    topic.advance(minutes=6)
    answer = topic.client.cancel(topic.name, key="order 17")
    assert answer == Cancelled(id=sent.id) and answer.found


@pytest.mark.parametrize(
    ("claims", "reader", "without", "keyed"),
    [
        ("none", "tidewheel", "sealed", "sealed"),
        ("keyed", "tidewheel", "sealed", "taken"),
        ("all", "tidewheel", "taken", "taken"),
        ("keyed", "plain", "sealed", "sealed"),
        ("all", "plain", "sealed", "sealed"),
        ("keyed", None, "sealed", "sealed"),
    ],
)
def test_a_receipt_tells_until_when_its_message_can_be_cancelled(
    topic: Topic, claims: Any, reader: Any, without: str, keyed: str
) -> None:
    orders = topic.another("receipt", claims=claims)
    orders.client.create_subscription(orders.name, "other", reader=reader)
    orders.advance(minutes=2)  # a client sees readers within a minute
    due = (orders.stack.now() + timedelta(hours=3)).replace(minute=7, second=0)
    for key, until in ((None, without), ("k", keyed)):
        receipt = orders.send("x", deliver_at=due, key=key)
        sealed = due.replace(minute=5, second=0, microsecond=0) - timedelta(seconds=480)
        assert receipt.cancellable_until == (None if until == "taken" else sealed)
