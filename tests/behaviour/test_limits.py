"""Tests the limits of a topic, and the policies of senders and consumers (point 12)."""

from __future__ import annotations

import pytest

from tests.behaviour.topic import Topic
from tidewheel import LimitExceeded, Message, SendFailed


def test_a_topic_that_has_as_many_waiting_as_it_may_refuses_more_with_a_clear_error(topic: Topic) -> None:
    full = topic.another("full", max_waiting=3)
    full.client.send_many(full.name, [Message(body=str(n), delay="2h") for n in range(3)])
    full.advance(seconds=301)
    with full.nothing_is_sent(), pytest.raises(LimitExceeded, match="max_waiting=3 and 3 wait"):
        full.send("one too many", delay="2h")
    full.client.update_topic(full.name, max_waiting=4)
    full.send("fits now", delay="2h")
    full.advance(hours=3)
    assert len(full.bodies()) == 4
    full.send("room again", delay="2h")


def test_a_client_sends_no_faster_than_the_topics_rate_and_goes_on_after_a_while(topic: Topic) -> None:
    slow = topic.another("slow", max_send_rate=2)
    with pytest.raises(SendFailed) as caught:
        slow.client.send_many(slow.name, [Message(body=str(n)) for n in range(25)])
    assert sorted(caught.value.failures) == [20, 21, 22, 23, 24], "ten seconds' worth may come at once"
    assert all(
        isinstance(each, LimitExceeded) and each.limit == "max_send_rate" for each in caught.value.failures.values()
    )
    with pytest.raises(LimitExceeded, match=r"try again in 0\.50 s"):
        slow.send("x")
    slow.advance(seconds=1)
    slow.client.send_many(slow.name, [Message(body="x")] * 2)
    slow.advance(seconds=1)
    assert len(slow.take()) == 22


def test_a_limit_of_one_topic_is_no_other_topics(topic: Topic) -> None:
    full = topic.another("full", max_waiting=1)
    full.send_and_store("x", delay="2h")
    with pytest.raises(LimitExceeded):
        full.send("x", delay="2h")
    topic.send("fine", delay="2h")
