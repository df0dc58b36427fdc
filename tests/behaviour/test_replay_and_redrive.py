"""Tests redrive of dead letters, and replay of kept messages (point 8)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.behaviour.topic import Topic
from tidewheel import InvalidValue
from tidewheel.errors import RetentionExpired


def test_dead_letters_go_back_to_the_queue_that_they_came_from(topic: Topic) -> None:
    sent = topic.send("poison", attributes={"kind": "a"})
    topic.advance(seconds=1)
    for _ in range(11):
        topic.client.receive(topic.name, "billing")
        topic.advance(seconds=61)
    assert topic.client.stats(topic.name).dead == 1
    redriven = topic.client.redrive(topic.name, "billing")
    assert (redriven.messages, redriven.queue_url) == (1, topic.queue_url())
    topic.advance(seconds=1)
    [message] = topic.client.receive(topic.name, "billing")
    assert (message.id, message.body, message.attributes, message.receive_count) == (
        sent.id,
        "poison",
        {"kind": "a"},
        1,
    )
    assert topic.client.stats(topic.name).dead == 0


@pytest.mark.story
def test_what_was_delivered_comes_again_for_a_time_range_to_one_subscription(topic: Topic) -> None:
    kept = topic.another("kept", "billing", "audit", retention_days=1)
    start = kept.stack.now()
    sent = [kept.send(f"hour {hour}", delay=f"{hour}h") for hour in (2, 3, 4)]
    gone = kept.send("cancelled", delay="3h")
    kept.client.cancel(kept.name, gone.id)
    kept.advance(hours=5)
    for name in ("billing", "audit"):
        assert kept.bodies(name) == ["hour 2", "hour 3", "hour 4"]
    half = timedelta(minutes=30)
    kept.client.replay(kept.name, "billing", start=start + 5 * half, end=start + 7 * half)
    kept.advance(minutes=10)
    assert [(each.id, each.body) for each in kept.take()] == [(sent[1].id, "hour 3")]
    assert kept.bodies("audit") == []
    kept.client.replay(kept.name, "audit")
    kept.advance(minutes=10)
    assert kept.bodies("audit") == ["hour 2", "hour 3", "hour 4"]


def test_what_is_not_kept_any_more_is_said(topic: Topic) -> None:
    topic.client.update_topic(topic.name, retention_days=0)
    start = topic.stack.now()
    topic.send("x", delay="2h")
    topic.send("y", delay="6h")
    topic.advance(hours=8)
    topic.advance(hours=1)
    with pytest.raises(RetentionExpired, match="retention_days"):
        topic.client.replay(topic.name, "billing", start=start, end=start + timedelta(hours=3))


def test_a_replay_to_a_paused_subscription_or_of_no_time_is_refused(topic: Topic) -> None:
    now = topic.stack.now()
    with pytest.raises(InvalidValue, match="start="):
        topic.client.replay(topic.name, "billing", start=now, end=now - timedelta(hours=1))
    topic.client.pause(topic.name, "billing")
    with pytest.raises(InvalidValue, match="resume"):
        topic.client.replay(topic.name, "billing", start=now - timedelta(hours=1))
