"""Tests get, peek and stats (point 7)."""

from __future__ import annotations

import pytest

from tests.behaviour.topic import Topic
from tidewheel import InvalidValue, Message, MessageState
from tidewheel.model.message import IdSource, id_text


def state(topic: Topic, message_id: str) -> str:
    return topic.client.get(topic.name, message_id).state.value


def test_get_tells_waiting_sealed_sent_cancelled_and_unknown(topic: Topic) -> None:
    start = topic.stack.now().timestamp()
    due = start - start % 300 + 7200
    kept = topic.another("kept", retention_s=86_400)
    sent = kept.send("x", deliver_at=due, attributes={"kind": "a"}, key="order 17", expires_in="1d")
    cancelled = kept.send("gone", deliver_at=due)
    assert state(kept, sent.id) == "unknown", "it is in an ingest queue still"
    kept.advance(seconds=301)
    status = kept.client.get(kept.name, sent.id)
    assert status.state is MessageState.WAITING and status.message is not None
    assert (status.message.body, status.message.attributes) == ("x", {"kind": "a"})
    assert (status.message.key, status.deliver_at) == ("order 17", sent.deliver_at)
    kept.client.cancel(kept.name, cancelled.id)
    assert state(kept, cancelled.id) == "cancelled"
    kept.client.pause(kept.name, "billing")
    kept.advance(seconds=due - 240 - kept.stack.now().timestamp())
    assert state(kept, sent.id) == "sealed"
    kept.client.resume(kept.name, "billing")
    kept.advance(minutes=10)
    status = kept.client.get(kept.name, sent.id)
    assert status.state is MessageState.SENT
    assert [(each.name, each.delivered) for each in status.subscriptions] == [("billing", True)]
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


def test_stats_count_what_waits_is_sealed_in_flight_and_dead_by_hour_and_by_day(topic: Topic) -> None:
    start = topic.stack.now().timestamp()
    due = start - start % 86_400 + 86_400 + 7200
    topic.client.send_many(topic.name, [Message(body="x", deliver_at=due + 3600 * i) for i in (0, 1, 24)])
    topic.advance(seconds=301)
    found = topic.client.stats(topic.name)
    assert (found.waiting, found.sealed, found.in_flight, found.dead) == (3, 0, 0, 0)
    hour = round(due - found.by_hour.start_at.timestamp()) // 3600
    assert [round(n) for n in found.by_hour.bars[hour : hour + 2]] == [1, 1]
    assert [round(n) for n in found.by_day.bars[1:3]] == [2, 1]
    assert found.next_due_at is not None and found.next_due_at.timestamp() == due
    assert found.oldest_due_at == found.next_due_at
    assert found.last_due_at is not None and found.last_due_at.timestamp() == due + 86_400
    assert sum(each.messages for each in found.by_due) == 3
    topic.client.pause(topic.name, "billing")
    topic.advance(seconds=due - 240 - topic.stack.now().timestamp())
    found = topic.client.stats(topic.name)
    assert (found.waiting, found.sealed, found.in_flight) == (2, 1, 0)
    assert (found.marks.handed_out_until or found.marks.sealed_until) < found.marks.planned_until
    assert found.subscriptions[0].late_since is None, "it is due in four minutes"
    topic.advance(minutes=5)
    [billing] = topic.client.stats(topic.name).subscriptions
    assert billing.late_since is not None and (billing.late_since.timestamp(), billing.late) == (due, 1)
    topic.client.resume(topic.name, "billing")
    topic.advance(seconds=1)
    found = topic.client.stats(topic.name)
    assert (found.waiting, found.sealed, found.in_flight) == (2, 0, 1)
    topic.client.purge(topic.name)


def test_stats_read_metadata_and_no_message(topic: Topic) -> None:
    topic.send_and_store("x", delay="2h")
    if topic.in_memory:
        topic.client.core.connection.objects.get_range = None  # type: ignore[assignment, method-assign]
        try:
            assert topic.client.stats(topic.name).waiting == 1
        finally:
            del topic.client.core.connection.objects.get_range
    else:
        before = topic.stack.requests["s3.GetObject"]
        assert topic.client.stats(topic.name).waiting == 1
        assert topic.stack.requests["s3.GetObject"] == before


@pytest.mark.parametrize("n", [0, 1001, "3", True])
def test_what_cannot_be_looked_for_is_refused(topic: Topic, n: object) -> None:
    with pytest.raises(InvalidValue, match="n="):
        topic.client.peek(topic.name, n)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="after="):
        topic.client.peek(topic.name, after="yesterday")
    with pytest.raises(InvalidValue, match="message id="):
        topic.client.get(topic.name, "no id")
