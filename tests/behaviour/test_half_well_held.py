"""Partial AWS faults while the work queue holds messages, since the table refuses their parks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.alone import local_engine
from tests.half_well import HalfWell
from tests.recorded_queues import RecordedTidewheel
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.model.job import HoldJob
from tidewheel.model.triggers import HOLD_S, UNKNOWN_WAIT_S

TOPIC, MINUTE_S, HOUR_S, DAY_S = "orders", 60, 3600, 86_400


def held(faults: HalfWell, *, refuses_h: float) -> tuple[RecordedTidewheel, Tidewheel]:
    """Sends a message held by a job of the work queue, since the table refuses parks for some hours."""
    stack = RecordedTidewheel(wrap=faults)
    client = stack.client()
    client.create_topic(TOPIC)
    client.create_subscription(TOPIC, "billing")
    stack.advance(minutes=6)
    client.pause(TOPIC, "billing")
    faults.refuse("parks.put", minutes=int(refuses_h * 60))
    client.send(TOPIC, "held", delay=MINUTE_S)
    stack.advance(minutes=3)
    assert not stack.service.parks.all(TOPIC)
    return stack, client


def resumed(stack: RecordedTidewheel, client: Tidewheel) -> list[str]:
    """Resumes the subscription. Returns its received messages."""
    client.resume(TOPIC, "billing")
    stack.advance(minutes=15)
    return [each.body for each in stack.receive(TOPIC, "billing")]


def run_rebuild(stack: RecordedTidewheel) -> None:
    ports = stack.service
    rebuild(ports, TOPIC, local_engine(ports), lease_s=60, replace_index=True)


def test_a_held_message_comes_after_its_topic_was_rebuilt() -> None:
    stack, client = held(HalfWell(), refuses_h=1)
    run_rebuild(stack)
    stack.advance(hours=2)
    assert resumed(stack, client) == ["held"]


def test_a_message_that_is_held_for_two_subscriptions_comes_to_both() -> None:
    faults = HalfWell()
    stack = RecordedTidewheel(wrap=faults)
    client = stack.client()
    client.create_topic(TOPIC)
    for name in ("billing", "mail"):
        client.create_subscription(TOPIC, name)
        client.pause(TOPIC, name)
    faults.refuse("parks.put", minutes=30)
    client.send(TOPIC, "held", delay=MINUTE_S)
    stack.advance(hours=1)
    for name in ("billing", "mail"):
        client.resume(TOPIC, name)
    stack.advance(minutes=15)
    assert [each.body for name in ("billing", "mail") for each in stack.receive(TOPIC, name)] == ["held", "held"]


def test_a_held_message_comes_although_its_topic_was_away_for_hours() -> None:
    stack, client = held(HalfWell(), refuses_h=0.1)
    state = stack.service.topic_states.read(TOPIC)
    assert state is not None
    stack.service.topic_states.delete(TOPIC)
    stack.advance(seconds=UNKNOWN_WAIT_S - 600)
    assert stack.service.topic_states.create(state)
    stack.advance(minutes=10)
    assert resumed(stack, client) == ["held"]


@pytest.mark.parametrize("gone", [False, True], ids=["the table refuses", "the topic is unknown"])
def test_a_held_message_is_refused_when_its_time_is_over_and_may_be_redriven(*, gone: bool) -> None:
    faults = HalfWell()
    stack, client = held(faults, refuses_h=0.1 if gone else 14 * 24)
    state = stack.service.topic_states.read(TOPIC)
    assert state is not None
    if gone:
        stack.service.topic_states.delete(TOPIC)
    wait_s = UNKNOWN_WAIT_S if gone else HOLD_S
    stack.advance(seconds=wait_s - 600)
    assert not stack.service.queues.refused
    stack.advance(minutes=20)
    [document] = stack.service.queues.refused
    assert "held" in document["reason"]
    stack.advance(hours=2)
    assert len(stack.service.queues.refused) == 1, "nothing of it is tried any more"
    faults.heal()
    if gone:
        assert stack.service.topic_states.create(state)
    stack.service.queues.work_queue.put(document["body"])
    assert resumed(stack, client) == ["held"]


def test_a_held_message_of_a_deleted_subscription_or_topic_is_dropped() -> None:
    for whole in (False, True):
        stack, client = held(HalfWell(), refuses_h=1)
        client.delete_topic(TOPIC) if whole else client.delete_subscription(TOPIC, "billing")
        stack.advance(hours=3)
        assert not stack.service.queues.refused
        assert not stack.service.queues.jobs


def test_a_job_that_sqs_delivers_again_after_the_drain_makes_no_copy() -> None:
    stack, client = held(HalfWell(), refuses_h=1)
    [job] = stack.service.queues.jobs
    assert isinstance(job, HoldJob)
    client.resume(TOPIC, "billing")
    stack.advance(hours=2)
    stack.service.queues.enqueue_hold(job)
    assert [each.body for each in stack.receive(TOPIC, "billing")] == ["held"]
    stack.advance(hours=1)
    assert stack.receive(TOPIC, "billing") == []


def test_a_job_of_another_program_that_was_held_in_the_future_ends_too() -> None:
    stack, _ = held(HalfWell(), refuses_h=1)
    [job] = stack.service.queues.take_jobs()
    assert isinstance(job, HoldJob)
    stack.service.queues.enqueue_hold(replace(job, topic="unknown", since_s=10**11))
    stack.advance(seconds=UNKNOWN_WAIT_S + 600)
    assert len(stack.service.queues.refused) == 1


def test_a_job_that_comes_again_while_its_topic_is_away_is_not_refused_once_it_was_parked() -> None:
    stack, client = held(HalfWell(), refuses_h=1)
    [job] = stack.service.queues.jobs
    client.resume(TOPIC, "billing")
    stack.advance(hours=5)
    assert [each.body for each in stack.receive(TOPIC, "billing")] == ["held"]
    stack.service.topic_states.delete(TOPIC)
    stack.service.queues.enqueue_hold(job)  # type: ignore[arg-type]
    stack.advance(minutes=10)
    assert not stack.service.queues.refused
