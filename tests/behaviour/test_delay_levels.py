"""Tests RocketMQ's delay levels, a topic's own table, and retries with rising levels (point 3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Backoff, Consumer, InvalidValue

ROCKETMQ_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def test_the_eighteen_levels_are_rocketmqs(topic: Topic) -> None:
    now_ms = round(topic.stack.now().timestamp() * 1000)
    sent = [topic.send(str(level), delay_level=level) for level in range(1, 19)]
    assert [(each.deliver_at_ms - now_ms) / 1000 for each in sent] == list(ROCKETMQ_S)
    topic.advance(hours=2, seconds=2)
    found = topic.take()
    assert sorted(int(each.body) for each in found) == list(range(1, 19))
    assert all((each.visible_at - each.deliver_at).total_seconds() <= 1.1 for each in found)  # type: ignore[operator]


def test_a_level_above_the_top_is_the_top_and_level_0_is_now(topic: Topic) -> None:
    now, top = topic.send("now", delay_level=0), topic.send("top", delay_level=40)
    assert top.deliver_at_ms - now.deliver_at_ms == 7_200_000
    topic.advance(seconds=1)
    assert topic.bodies() == ["now"]


@pytest.mark.parametrize("level", [-1, 1.5, "3", True])
def test_what_is_no_level_is_refused(topic: Topic, level: object) -> None:
    with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="delay_level="):
        topic.send("x", delay_level=level)


def test_a_topic_may_have_a_table_of_its_own_and_change_it(topic: Topic) -> None:
    own = topic.another("own", delay_levels=(2, 4))
    now_ms = round(topic.stack.now().timestamp() * 1000)
    assert own.send("x", delay_level=9).deliver_at_ms == now_ms + 4000
    own.client.update_topic(own.name, delay_levels=(7,))
    assert own.send("x", delay_level=9).deliver_at_ms == now_ms + 7000
    own.client.update_topic(own.name, delay_levels=None)
    assert own.send("x", delay_level=4).deliver_at_ms == now_ms + 30_000


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


def test_the_last_attempt_leads_to_the_dead_letter_queue(topic: Topic) -> None:
    consumer = Consumer(topic.client, topic.name, "billing", max_attempts=2)
    topic.send("poison")
    topic.advance(seconds=1)
    consumer.retry_later(consumer.receive()[0], delay=1)
    topic.advance(seconds=2)
    assert consumer.retry_later(consumer.receive()[0], delay=1) is None
    assert [each.body for each in topic.everything_in(f"{topic.queue_url()}-dead")] == ["poison"]
    assert (consumer.counts.retried, consumer.counts.dead) == (1, 1)
    assert topic.client.stats(topic.name).dead == 1
