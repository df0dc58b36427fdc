"""Tests cancels by id, by key, and of many messages at once, always with a true answer (point 1)."""

from __future__ import annotations

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Cancelled, MessageState, TooLate


def test_a_message_that_waits_is_cancelled_by_its_id_and_never_comes(topic: Topic) -> None:
    gone, stays = topic.send_and_store("gone", delay="3h"), topic.send_and_store("stays", delay="3h")
    assert topic.client.cancel(topic.name, gone.id) == Cancelled(id=gone.id)
    assert topic.client.get(topic.name, gone.id).state is MessageState.CANCELLED
    topic.advance(hours=5)
    assert topic.bodies() == ["stays"]
    assert topic.client.cancel(topic.name, stays.id) == TooLate(id=stays.id)


def test_a_message_that_waits_is_cancelled_by_its_key_and_never_comes(topic: Topic) -> None:
    sent = topic.send_and_store("gone", delay="3h", key="order 17")
    topic.send_and_store("stays", delay="3h", key="order 18")
    assert topic.client.cancel(topic.name, key="order 17") == Cancelled(id=sent.id)
    topic.advance(hours=5)
    assert topic.bodies() == ["stays"]


@pytest.mark.parametrize("delay", [60, "30m", "3h"])
@pytest.mark.parametrize("by", ["id", "key"])
def test_a_message_that_is_still_in_the_ingest_queue_is_cancelled_too(topic: Topic, delay: str, by: str) -> None:
    sent = topic.send("gone", delay=delay, key="order 17")
    result = topic.client.cancel(topic.name, sent.id if by == "id" else None, key="order 17" if by == "key" else None)
    assert result, "nothing of it was ingested, so it is in time"
    topic.advance(hours=5)
    assert topic.bodies() == []


def test_too_late_means_that_it_comes(topic: Topic) -> None:
    sent = topic.send("comes", delay="5m", key="order 17")
    topic.advance(seconds=1)  # it went direct: SQS holds it back
    assert topic.client.cancel(topic.name, sent.id) == TooLate(id=sent.id)
    assert topic.client.cancel(topic.name, key="order 17") == TooLate(id=sent.id)
    assert topic.client.cancel_many(topic.name, [sent.id]) == [TooLate(id=sent.id)]
    topic.advance(minutes=6)
    assert topic.bodies() == ["comes"]


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


def test_to_cancel_twice_is_harmless_and_says_the_same(topic: Topic) -> None:
    sent = topic.send_and_store("gone", delay="3h", key="order 17")
    assert [topic.client.cancel(topic.name, sent.id) for _ in range(2)] == [Cancelled(id=sent.id)] * 2
    assert [topic.client.cancel(topic.name, key="order 17") for _ in range(2)] == [Cancelled(id=sent.id)] * 2
    topic.advance(hours=4)
    assert topic.client.cancel(topic.name, sent.id) == Cancelled(id=sent.id)
    assert topic.bodies() == []


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


def test_a_pack_that_sqs_brings_again_does_not_bring_back_what_was_cancelled(topic: Topic) -> None:
    sent = topic.send("gone", delay="3h")
    copies = topic.copies_of_what_is_on_its_way()
    assert topic.client.cancel(topic.name, sent.id)
    topic.advance(hours=1)
    topic.bring_again(copies)
    topic.advance(hours=5)
    topic.bring_again(copies)
    topic.advance(hours=1)
    assert topic.bodies() == []


def test_a_key_is_free_again_once_it_was_cancelled(topic: Topic) -> None:
    topic.send("gone", delay="3h", key="order 17")
    topic.client.cancel(topic.name, key="order 17")
    topic.send("again", delay="3h", key="order 17")
    topic.advance(hours=5)
    assert topic.bodies() == ["again"]


def test_a_key_that_nobody_used_is_cancelled_without_a_message(topic: Topic) -> None:
    assert topic.client.cancel(topic.name, key="nobody's") == Cancelled(id=None)


def test_the_id_of_a_message_that_was_moved_cancels_it_where_it_is_now(topic: Topic) -> None:
    sent = topic.send_and_store("gone", delay="3h")
    moved = topic.client.reschedule(topic.name, sent.id, delay="4h")
    assert topic.client.cancel(topic.name, sent.id) == Cancelled(id=moved.receipt.id)  # type: ignore[union-attr]
    topic.advance(hours=6)
    assert topic.bodies() == []
