"""Tests get, peek and stats (point 7)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.behaviour.topic import Topic
from tidewheel import Message, MessageState
from tidewheel.model.message import IdSource, id_text


def state(topic: Topic, message_id: str) -> str:
    return topic.client.get(topic.name, message_id).state.value


@pytest.mark.story
def test_get_tells_waiting_sealed_sent_cancelled_and_unknown(topic: Topic) -> None:
    start = topic.stack.now().timestamp()
    due = start - start % 300 + 7200
    kept = topic.another("kept", retention_days=1)
    sent = kept.send("x", deliver_at=due, attributes={"kind": "a"}, key="order 17", expires_in="1d")
    cancelled = kept.send("gone", deliver_at=due)
    assert state(kept, sent.id) == "unknown", "it is in an ingest queue still"
    kept.advance(seconds=301)
    status = kept.client.get(kept.name, sent.id)
    assert status.state is MessageState.WAITING and status.message is not None
    assert (status.message.body, status.message.attributes) == ("x", {"kind": "a"})
    assert (status.message.key, status.deliver_at) == ("order 17", sent.deliver_at)
    assert status.message.sent_at.timestamp() == start
    assert status.message.expires_at == sent.deliver_at + timedelta(days=1)
    kept.client.cancel(kept.name, cancelled.id)
    assert state(kept, cancelled.id) == "cancelled"
    kept.client.pause(kept.name, "billing")
    kept.advance(seconds=due - 240 - kept.stack.now().timestamp())
    assert state(kept, sent.id) == "sealed"
    kept.client.resume(kept.name, "billing")
    kept.advance(minutes=10)
    status = kept.client.get(kept.name, sent.id)
    assert status.state is MessageState.SENT
    assert [(each.name, each.sent) for each in status.subscriptions] == [("billing", True)]
    assert state(kept, id_text(IdSource().next(round(due * 1000)))) == "unknown"


def test_peek_shows_the_next_messages_by_due_time_and_goes_on_after_the_last(topic: Topic) -> None:
    hours = [5, 2, 4, 3]
    sent = topic.client.send_many(topic.name, [Message(body=str(hour), delay=hour * 3600) for hour in hours])
    topic.advance(seconds=301)
    topic.send_and_store("6", delay="6h")
    first = topic.client.peek(topic.name, 2)
    assert [each.body for each in first] == ["2", "3"]
    assert first[0].id == sent[1].id
    assert [each.body for each in topic.client.peek(topic.name, 10, after=first[-1].id)] == ["4", "5", "6"]
    assert [each.body for each in topic.client.peek(topic.name, after=sent[2].deliver_at)] == ["5", "6"]
    topic.client.cancel(topic.name, sent[0].id)
    assert [each.body for each in topic.client.peek(topic.name)] == ["2", "3", "4", "6"]
    topic.advance(hours=7)
    assert topic.bodies() == ["2", "3", "4", "6"], "to peek takes nothing"
