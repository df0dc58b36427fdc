"""Tests RocketMQ's delay levels, a topic's own table, and retries with rising levels (point 3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Backoff, Consumer


def test_a_topic_may_have_a_table_of_its_own_and_change_it(topic: Topic) -> None:
    own = topic.another("own", delay_levels=(2, 4))
    now_ms = round(topic.stack.now().timestamp() * 1000)
    assert own.send("x", delay_level=9).deliver_at_ms == now_ms + 4000
    own.client.update_topic(own.name, delay_levels=(7,))
    assert own.send("x", delay_level=9).deliver_at_ms == now_ms + 7000
    own.client.update_topic(own.name, delay_levels=None)
    assert own.send("x", delay_level=4).deliver_at_ms == now_ms + 30_000


@pytest.mark.story
def test_retry_later_sends_the_same_again_with_its_attempt_and_first_id_and_deletes_the_one_in_hand(
    topic: Topic,
) -> None:
    consumer = Consumer(topic.client, topic.name, "billing", max_attempts=9)
    sent = topic.send({"id": 17}, attributes={"kind": "reminder"})
    topic.advance(seconds=1)
    delays_s = []
    backoff = Backoff(base="10s", maximum="1h", jitter=0)
    retries: list[dict[str, Any]] = [{}, {"level": 5}, {"backoff": backoff}, {"delay": "2m"}]
    for retry in retries:
        [message] = consumer.receive()
        assert (message.json(), message.attributes) == ({"id": 17}, {"kind": "reminder"})
        receipt = consumer.retry_later(message, **retry)
        assert receipt is not None
        delays_s.append((receipt.deliver_at - topic.stack.now()).total_seconds())
        assert topic.everything_in(topic.queue_url()) == []
        topic.advance(seconds=delays_s[-1] + 1)
    assert delays_s == [10, 60, 40, 120]
    [last] = consumer.receive()
    assert (last.attempt, last.original_id) == (4, sent.id)
