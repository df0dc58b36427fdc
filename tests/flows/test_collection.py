"""A collection's deletions while other processes plan."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.flows.world import HOUR, MINUTE, TOPIC, World, once
from tests.stored import stored
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.upkeep import collect as collecting
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import ALL_SEALED


def deleted_plans(monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int]], planned: int) -> list[int]:
    """Collects a topic with plans in these ranges up to `planned`. Returns the first slots of the deleted plans."""
    deleted: list[int] = []
    monkeypatch.setattr(collecting, "delete_plan", lambda _ports, _topic, first_slot, _kept: deleted.append(first_slot))
    ports: Any = SimpleNamespace(
        plans=SimpleNamespace(ranges=lambda _: ranges),
        tombstones=SimpleNamespace(delete_expired=lambda *_: None),
        objects=SimpleNamespace(delete=None),
        clock=SimpleNamespace(now_ms=lambda: 0),
    )
    state: Any = SimpleNamespace(topic="orders", collected_until=planned, planned=planned, settings=TopicSettings())
    collecting._delete(ports, state, [], [], set(), collecting.Collected())
    return deleted


def test_a_plan_that_was_made_since_the_topic_state_was_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert deleted_plans(monkeypatch, [(5, 10), (10, 16)], planned=10) == [5]


def test_a_last_plan_whose_end_cannot_be_read_goes_when_everything_planned_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert deleted_plans(monkeypatch, [(5, 10), (10, ALL_SEALED)], planned=16) == [5, 10]


def test_a_direct_message_that_was_set_aside_stops_no_collection_inside_a_plan() -> None:
    world = World(slot_s=60, collect_interval_s=60)
    ids = world.send(*(HOUR + minute * MINUTE for minute in range(-3, 5)))
    world.clock.advance_ms(HOUR)  # nobody dispatched for a while, so the plan has the direct message's slot, too
    subscriptions = stored(world.service).of(TOPIC).subscriptions
    healthy = subscriptions["billing"]
    subscriptions["billing"] = replace(healthy, filter_policy="of a newer release")
    direct = world.send(2 * MINUTE)
    subscriptions["billing"] = healthy
    dispatch(world.ports, TOPIC)
    world.work()
    world.collect()
    assert [each.direct for each in world.service.set_aside.all(TOPIC)] == [True]
    assert not [a for a, b in world.service.plans.ranges(TOPIC) if a < world.state.collected_until < b]
    create_subscription(world.service, world.clock, TOPIC, "audit", "queue-audit", "earliest")
    world.run(HOUR, sweeps=True)
    assert world.received() == once(ids + direct)
    assert set(world.received("audit")) in (set(), set(ids)), "a plan, or none of it"
