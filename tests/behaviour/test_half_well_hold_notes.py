"""Partial AWS faults while notes mark the messages of held jobs and packs that need no second send."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.behaviour.test_half_well_held import HOUR_S, MINUTE_S, TOPIC, held, resumed
from tests.behaviour.test_half_well_ingest import a_message, opened, put_pack, refused, taken
from tests.flows.alone import local_engine
from tests.half_well import HalfWell
from tests.recorded_queues import RecordedTidewheel
from tidewheel.flows.delivery.away import note_away
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.model.job import HoldJob
from tidewheel.model.triggers import UNKNOWN_WAIT_S


def test_a_held_message_comes_once_although_the_table_takes_its_park_and_no_note() -> None:
    faults = HalfWell()
    stack, client = held(faults, refuses_h=0.5)
    faults.refuse("notes.put", minutes=150)
    stack.advance(hours=1)
    came = resumed(stack, client)
    stack.advance(hours=3)
    assert came + [each.body for each in stack.receive(TOPIC, "billing")] == ["held"]


def test_a_job_that_finds_its_park_leaves_a_note_too() -> None:
    stack, client = held(HalfWell(), refuses_h=0.5)
    [job] = stack.service.queues.jobs
    assert isinstance(job, HoldJob)
    equal = replace(job, since_s=job.since_s + 1)
    stack.service.queues.enqueue_hold(equal)
    stack.advance(hours=1)
    assert resumed(stack, client) == ["held"]
    stack.service.queues.enqueue_hold(equal)
    stack.advance(hours=1)
    assert stack.receive(TOPIC, "billing") == []


def test_a_worker_that_read_no_note_does_not_park_again_what_another_has_parked() -> None:
    faults = HalfWell()
    stack, client = held(faults, refuses_h=0.5)
    [job] = stack.service.queues.jobs
    assert isinstance(job, HoldJob)
    stack.advance(hours=1)
    assert resumed(stack, client) == ["held"]
    faults.refuse("notes.read", minutes=30, instead=lambda *_: None)
    stack.service.queues.enqueue_hold(job)
    stack.advance(hours=1)
    assert stack.receive(TOPIC, "billing") == []


def away(stack: RecordedTidewheel, seconds: float) -> None:
    """Takes a topic's state away for some time, as a rebuild does."""
    note_away(stack.service, TOPIC)
    state = stack.service.topic_states.read(TOPIC)
    assert state is not None
    stack.service.topic_states.delete(TOPIC)
    stack.advance(seconds=seconds)
    assert stack.service.topic_states.create(state)


def slow_rebuild(stack: RecordedTidewheel) -> None:
    """Rebuilds the topic in twenty minutes."""
    ports = stack.service
    engine = local_engine(ports)
    rebuild(ports, TOPIC, engine, lease_s=3600, replace_index=True, settle=lambda: stack.advance(minutes=20))


def waiting(*, hours: float) -> RecordedTidewheel:
    """Sends a waiting pack, since the table refuses ledgers for some hours."""
    faults = HalfWell()
    stack, _ = opened(faults)
    faults.refuse("buckets.commit", minutes=hours * 60)
    put_pack(stack, a_message(stack, "late", 20 * HOUR_S))
    return stack


def test_a_pack_that_waited_for_hours_waits_from_when_its_topic_is_away() -> None:
    stack = waiting(hours=5)
    stack.advance(hours=4.9)
    away(stack, UNKNOWN_WAIT_S - 10 * MINUTE_S)
    stack.advance(hours=20)
    assert refused(stack) == []
    assert [body for body, _ in taken(stack)] == ["late"]


def test_a_pack_whose_topic_stays_away_is_refused_four_hours_later() -> None:
    stack = waiting(hours=5)
    stack.advance(hours=4.9)
    away(stack, UNKNOWN_WAIT_S + 10 * MINUTE_S)
    assert len(refused(stack)) == 1


def test_a_pack_and_a_held_message_wait_for_each_rebuild_of_their_topic() -> None:
    faults = HalfWell()
    stack, client = held(faults, refuses_h=13)
    faults.refuse("buckets.commit", minutes=13 * 60)
    put_pack(stack, a_message(stack, "late", 20 * HOUR_S))
    for _ in range(2):
        stack.advance(hours=6)
        slow_rebuild(stack)
    stack.advance(hours=8)
    assert refused(stack) == []
    assert sorted(resumed(stack, client)) == ["held", "late"]


@pytest.mark.parametrize("minutes", [30, 235])
def test_a_held_message_that_waited_for_hours_waits_from_when_its_topic_is_away(minutes: int) -> None:
    stack, client = held(HalfWell(), refuses_h=5)
    stack.advance(hours=4.8)
    away(stack, minutes * MINUTE_S)
    stack.advance(hours=1)
    assert refused(stack) == []
    assert resumed(stack, client) == ["held"]


def test_a_pack_that_was_refused_after_some_of_its_messages_were_sent_sends_the_others_when_it_is_redriven() -> None:
    faults = HalfWell()
    stack, client = opened(faults)
    faults.refuse("buckets.commit", minutes=60)
    put_pack(stack, a_message(stack, "soon", MINUTE_S), a_message(stack, "late", 20 * HOUR_S))
    stack.advance(minutes=30)
    away(stack, UNKNOWN_WAIT_S + 10 * MINUTE_S)
    assert len(refused(stack)) == 1
    client.redrive_service()
    stack.advance(hours=20)
    assert [body for body, _ in taken(stack)] == ["late", "soon"]


def test_a_pack_that_became_a_dead_letter_after_some_of_its_messages_were_sent_sends_the_others() -> None:
    faults = HalfWell()
    stack, client = opened(faults)
    faults.refuse("buckets.commit", minutes=35 * 60)
    put_pack(stack, a_message(stack, "soon", MINUTE_S), a_message(stack, "late", 50 * HOUR_S))
    stack.advance(hours=36)
    assert len(stack.queue("tidewheel_urgent-dead").everything) == 1
    client.redrive_service()
    stack.advance(hours=20)
    assert [body for body, _ in taken(stack)] == ["late", "soon"]


def test_a_held_message_that_neither_the_table_nor_the_work_queue_takes_is_a_dead_letter_that_may_be_redriven() -> None:
    faults = HalfWell()
    stack, client = held(faults, refuses_h=10)
    faults.refuse("queues.enqueue_hold", minutes=120)
    stack.advance(hours=2)
    assert len(stack.queue("tidewheel_work-dead").everything) == 1
    client.redrive_service()
    stack.advance(days=12)
    assert refused(stack) == []
    assert resumed(stack, client) == ["held"]


def test_a_subscription_whose_messages_nothing_takes_loses_none_and_costs_the_others_no_more_than_copies() -> None:
    faults = HalfWell()
    stack, client = opened(faults)
    client.create_subscription(TOPIC, "paused")
    client.pause(TOPIC, "paused")
    faults.refuse("parks.put", minutes=20)
    faults.refuse("queues.enqueue_hold", minutes=20)
    put_pack(stack, a_message(stack, "soon", MINUTE_S))
    stack.advance(hours=1)
    client.resume(TOPIC, "paused")
    stack.advance(minutes=15)
    assert {body for body, _ in taken(stack)} == {"soon"}
    assert [each.body for each in stack.receive(TOPIC, "paused")] == ["soon"]
