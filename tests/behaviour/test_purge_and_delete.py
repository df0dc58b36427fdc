"""Tests purge, and deletion without remains (point 6)."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from tests.behaviour.topic import Topic
from tests.recorded_queues import RecordedTidewheel
from tests.simulation.faults import SkewedClock
from tidewheel import Rescheduled, UnknownMessage, UnknownTopic
from tidewheel.errors import TopicDeleting
from tidewheel.local import MemoryTidewheel


def test_a_purge_drops_what_waits_and_what_is_on_its_way_and_nothing_that_follows(topic: Topic) -> None:
    topic.send_and_store("in a ledger", delay="2h")
    topic.send("on its way", delay="2h")
    topic.send("urgent", delay=60)
    topic.client.purge(topic.name)
    topic.send("after", delay="2h")
    assert topic.client.stats(topic.name).waiting == 0
    topic.advance(hours=3)
    assert topic.bodies() == ["after"]


def test_a_time_range_is_purged_and_the_rest_comes(topic: Topic) -> None:
    start = topic.stack.now()
    for hour in (2, 3, 4, 5):
        topic.send(f"hour {hour}", delay=f"{hour}h")
    topic.advance(seconds=301)
    topic.client.purge(topic.name, start=start + timedelta(hours=3), end=start + timedelta(hours=5))
    topic.advance(hours=5)
    assert topic.bodies() == ["hour 2", "hour 5"]


def test_what_is_parked_for_a_paused_subscription_stays_purged_however_long_the_pause_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidewheel.model.topic_state.PURGE_KEPT_MS", 12 * 3_600_000)
    stack = RecordedTidewheel()
    client = stack.client()
    client.create_topic("orders", retention_days=0)
    client.create_subscription("orders", "billing")
    client.send("orders", "before", delay="40m")
    stack.advance(minutes=34)  # the message is handed out, so the cursor is behind it
    client.pause("orders", "billing")
    for kind in ("purged", "kept"):
        client.send("orders", kind, delay="1m" if kind == "purged" else "5m")
    stack.advance(minutes=2)
    client.purge("orders", start=stack.now() - timedelta(hours=1), end=stack.now())
    for _ in range(5):  # with their collections, marks out of force are forgotten
        client.send("orders", "later", delay="1h")
        stack.advance(hours=8)
    state = stack.service.topic_states.read("orders")
    assert state is not None and len(state.purges) == 1
    client.resume("orders", "billing")
    stack.advance(hours=1)
    assert {each.text for each in stack.service.queues.sent()} == {"before", "kept", "later"}
    client.send("orders", "later", delay="1h")
    stack.advance(days=2)
    state = stack.service.topic_states.read("orders")
    assert state is not None and state.purges == ()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("ahead_s", [0.01, 30, 290, 3600])
def test_a_purge_drops_what_sqs_took_before_it_from_a_sender_whose_clock_is_ahead(ahead_s: float, whole: bool) -> None:
    stack = MemoryTidewheel()
    purger, sender = stack.client(), stack.client()
    sender.core.clock = SkewedClock(stack.clock, round(ahead_s * 1000))
    purger.create_topic("orders")
    purger.create_subscription("orders", "billing")
    bounds = {} if whole else {"end": stack.now() + timedelta(hours=5)}
    for delay in ("1m", "2h"):
        sender.send("orders", "gone", delay=delay, key=delay)
        sender.send("orders", "gone", delay=delay)
    sender.send("orders", "outside", delay="9h", key="outside")
    purger.purge("orders", **bounds)
    stack.advance(seconds=5)
    for each in (purger, sender):
        each.send("orders", "key is free", delay="2h", key="2h")
    stack.advance(hours=12)
    expected = ["key is free"] + ([] if whole else ["outside"])
    assert [each.body for each in stack.receive("orders", "billing")] == expected


def test_what_a_client_whose_clock_is_ahead_sends_after_its_own_purge_comes() -> None:
    stack = MemoryTidewheel()
    client = stack.client()
    client.core.clock = SkewedClock(stack.clock, 30_000)
    client.create_topic("orders")
    client.create_subscription("orders", "billing")
    client.purge("orders")
    client.send("orders", "kept", delay="1m")
    stack.advance(minutes=3)
    assert [each.body for each in stack.receive("orders", "billing")] == ["kept"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_purged_message_cannot_be_brought_back_by_a_reschedule(topic: Topic, whole: bool) -> None:
    now = topic.stack.now()
    sent = topic.send("gone", delay="2h")
    topic.send_and_store("in the same ledger", delay="4h")
    bounds = {} if whole else {"start": now + timedelta(hours=1), "end": now + timedelta(hours=3)}
    topic.client.purge(topic.name, **bounds)
    with suppress(UnknownMessage):  # its ledger may be gone
        assert not isinstance(topic.client.reschedule(topic.name, sent.id, delay="3h"), Rescheduled)
    topic.advance(hours=5)
    assert topic.bodies() == ([] if whole else ["in the same ledger"])


@pytest.mark.story
def test_nothing_of_a_deleted_topic_remains_in_s3_dynamodb_or_the_scheduler(topic: Topic) -> None:
    gone = topic.another("gone", "billing", "audit")
    gone.client.pause(gone.name, "audit")
    gone.send("parked", delay=60)
    gone.send_and_store("waits", delay="2h", key="order 17")
    cancelled = gone.send_and_store("cancelled", delay="3h")
    gone.client.cancel(gone.name, cancelled.id)
    gone.client.send_recurring(gone.name, "daily", "again", cron="0 9 * * *")
    gone.send_and_store("x" * 1_200_000, delay="2h")
    gone.advance(hours=2, minutes=20)
    gone.send("on its way", delay="2h")
    assert len(gone.left()) > 3 and gone.objects("payloads/")
    gone.client.delete_topic(gone.name)
    with pytest.raises(UnknownTopic):
        gone.send("x")
    with pytest.raises(TopicDeleting):
        gone.client.create_topic(gone.name)
    gone.advance(minutes=20)
    assert gone.left() == []
    failed = [each for each in gone.stack.failures if each.function == "ingest"]
    assert failed, "what was on its way goes to the dead letters"
    gone.advance(hours=6)  # it is tried for four
    gone.stack.failures.clear()
    assert gone.left() == []


def test_its_name_is_free_again_and_another_topic_is_not_touched(topic: Topic) -> None:
    topic.send("stays", delay="2h")
    gone = topic.another("gone")
    gone.send_and_store("gone", delay="2h")
    gone.client.delete_topic(gone.name, delete_queues=True)
    gone.advance(minutes=20)
    again = topic.another("gone")
    again.send("new", delay="1h")
    topic.advance(hours=2)
    assert (again.bodies(), topic.bodies()) == (["new"], ["stays"])
