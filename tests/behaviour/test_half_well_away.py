"""Partial AWS faults while packs wait for a topic that is away, or for a table that takes no ledger or park."""

from __future__ import annotations

from tests.behaviour.test_half_well_ingest import HOUR_S, MINUTE_S, TOPIC, a_message, opened, put_pack, refused, taken
from tests.flows.alone import local_engine
from tests.recorded_queues import RecordedTidewheel
from tidewheel.flows.delivery.refusing import note_away
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.model.triggers import UNKNOWN_WAIT_S


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
    faults, stack, _ = opened()
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


def test_a_pack_waits_for_each_rebuild_of_its_topic() -> None:
    stack = waiting(hours=13)
    for _ in range(2):
        stack.advance(hours=6)
        slow_rebuild(stack)
    stack.advance(hours=8)
    assert refused(stack) == []
    assert [body for body, _ in taken(stack)] == ["late"]


def test_a_pack_that_was_refused_after_some_of_its_messages_were_sent_sends_the_others_when_it_is_redriven() -> None:
    faults, stack, client = opened()
    faults.refuse("buckets.commit", minutes=60)
    put_pack(stack, a_message(stack, "soon", MINUTE_S), a_message(stack, "late", 20 * HOUR_S))
    stack.advance(minutes=30)
    away(stack, UNKNOWN_WAIT_S + 10 * MINUTE_S)
    assert len(refused(stack)) == 1
    client.redrive_service()
    stack.advance(hours=20)
    assert [body for body, _ in taken(stack)] == ["late", "soon"]


def test_a_subscription_of_which_the_table_takes_no_park_loses_none_and_costs_the_others_only_copies() -> None:
    faults, stack, client = opened()
    client.create_subscription(TOPIC, "paused")
    client.pause(TOPIC, "paused")
    faults.refuse("parks.put", minutes=20)
    put_pack(stack, a_message(stack, "soon", MINUTE_S))
    stack.advance(hours=1)
    client.resume(TOPIC, "paused")
    stack.advance(minutes=15)
    assert {body for body, _ in taken(stack)} == {"soon"}
    assert [each.body for each in stack.receive(TOPIC, "paused")] == ["soon"]
