"""A sweep is over in its time: what is late comes first, and it starts so many dispatches at most, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World
from tidewheel.flows.administration.delete_topic import delete_topic
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.delivery.schedules import schedule_again
from tidewheel.flows.ports.topic_states import AT_ONCE_MS
from tidewheel.flows.upkeep import sweep as module
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.consider_merge import consider_merge
from tidewheel.flows.upkeep.sweep import SWEEP_MS, sweep
from tidewheel.model.settings import TopicSettings


def topics_in_need(world: World, *names: str) -> None:
    """Makes topics whose first dispatch is lost, each two slots after the one before."""
    for name in names:
        create_topic(world.service, world.clock, name, TopicSettings())
        create_subscription(world.service, world.clock, name, "s", f"queue-{name}")
        schedule_again(world.ports, name)  # as the first sweep does
        world.clock.advance_ms(10 * MINUTE)


def slow(world: World, port: Any, method: str, patch: pytest.MonkeyPatch, takes_ms: int) -> list[Any]:
    """Makes a method take its time; returns the first arguments of its calls, as they come."""
    calls: list[Any] = []
    original: Callable[..., Any] = getattr(port, method)

    def taking(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0] if args else None)
        world.clock.advance_ms(takes_ms)
        return original(*args, **kwargs)

    patch.setattr(port, method, taking)
    return calls


def test_a_sweep_starts_the_longest_overdue_dispatches_and_no_more_than_the_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "d", "b", "c", "a", "e")
    world.clock.advance_ms(HOUR)
    monkeypatch.setattr(module, "MOST_DISPATCHES", 3)
    first = sweep(world.ports)
    assert (first.dispatched, first.left) == (["d", "b", "c"], 2)
    assert world.service.runs.dispatches == ["d", "b", "c"]
    world.dispatch_started()
    second = sweep(world.ports)
    assert (second.dispatched, second.left) == (["a", "e"], 0)


def test_a_topic_without_a_schedule_is_dispatched_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "a", "b")
    items = world.service.store.of("b")
    assert items.state is not None
    items.state = replace(items.state, next_check_ms=AT_ONCE_MS)
    world.clock.advance_ms(HOUR)
    monkeypatch.setattr(module, "MOST_DISPATCHES", 1)
    assert sweep(world.ports).dispatched == ["a"]


def test_a_topic_is_dispatched_once_a_sweep_though_its_wake_and_its_collection_both_ask_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.send(HOUR)
    world.run(DAY, schedules=False)
    state = world.state
    assert state.next_slot is not None
    assert world.service.topic_states.set_collect_at(state, world.clock.now_ms(), state.next_check_ms)

    class Idle:
        idle_leftovers = True

    monkeypatch.setattr(module, "collect", lambda *_: Idle())
    swept = sweep(world.ports)
    assert swept.collected == [TOPIC]
    assert swept.dispatched == world.service.runs.dispatches == [TOPIC]


def test_a_dispatch_that_could_not_be_started_is_a_failure_and_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "a", "b")
    world.clock.advance_ms(HOUR)
    start = world.service.runs.dispatch

    def throttled(topic: str) -> None:
        if topic == "a":
            raise RuntimeError("throttled")
        start(topic)

    monkeypatch.setattr(world.service.runs, "dispatch", throttled)
    monkeypatch.setattr(module, "MOST_DISPATCHES", 1)
    swept = sweep(world.ports)
    assert swept.dispatched == ["b"] and list(swept.failures) == ["a"]


def test_a_sweep_that_cannot_tell_the_health_or_create_schedules_starts_dispatches_and_does_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "a", "b")
    world.clock.advance_ms(HOUR)
    for number in range(5):
        create_topic(world.service, world.clock, f"new-{number}", TopicSettings())
        create_subscription(world.service, world.clock, f"new-{number}", "s", f"queue-{number}")
    asked: list[str] = []

    def refuse(topic: str, *_: object) -> None:
        asked.append(topic)
        raise OSError("the scheduler is down")

    def unhealthy(*_: object) -> None:
        assert {"a", "b"} <= set(world.service.runs.dispatches)
        raise OSError("the table is down")

    monkeypatch.setattr(type(world.service.wheel), "schedule", staticmethod(refuse))
    swept = sweep(world.ports, unhealthy)
    assert list(swept.failures) == ["health"]
    assert swept.refused_schedules == len(asked) == 3
    assert swept.orphans is not None


def test_many_topics_that_are_slow_to_delete_keep_nothing_waiting_that_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(inline_rows=1)
    names = [f"gone-{number}" for number in range(16)]
    for name in names:
        create_topic(world.service, world.clock, name, TopicSettings())
        delete_topic(world.service, world.clock, name)
    world.send(2 * HOUR)
    world.run(3 * HOUR, schedules=False)
    deletions = slow(world, world.service.wheel, "unschedule", monkeypatch, 20_000)
    daily = slow(world, module, "sweep_orphans_daily", monkeypatch, 0)
    started_ms = world.clock.now_ms()
    swept = sweep(world.ports)
    assert swept.failures == {}
    assert swept.dispatched == [TOPIC]
    assert len(deletions) == 3 and swept.left == 13
    assert daily == [world.ports]
    assert world.clock.now_ms() - started_ms <= SWEEP_MS
    for _ in range(16):
        world.clock.advance_ms(5 * MINUTE)
        sweep(world.ports)
    assert all(world.service.deletions.read(name) is None for name in names)


def test_nothing_is_begun_after_the_end_and_the_next_sweep_sees_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(subscribe=False)
    topics_in_need(world, *"abcdef")
    world.clock.advance_ms(HOUR)
    slow(world, world.service.runs, "dispatch", monkeypatch, SWEEP_MS // 4)
    daily = slow(world, module, "sweep_orphans_daily", monkeypatch, 0)
    first = sweep(world.ports)
    assert first.dispatched == list("abcd") and daily == []
    assert first.left == len("ef") + len(("health", *"abcdef", "orphans", "payloads"))
    world.dispatch_started()
    second = sweep(world.ports)
    assert second.dispatched == list("ef") and daily == [world.ports]


def test_a_sweep_that_cannot_read_the_index_of_checks_does_the_rest_and_tells_no_health() -> None:
    world = World()
    topics_in_need(world, "a")
    world.clock.advance_ms(2 * DAY)
    world.service.objects.put(f"ledgers/{TOPIC}/2026-01-01/1-0-0.parquet", b"of nobody")
    world.clock.advance_ms(2 * DAY)

    def refuse(*_: object) -> None:
        raise OSError("throttled")

    told: list[object] = []
    with patch.object(type(world.service.checks), "due", refuse):
        swept = sweep(world.ports, lambda *health: told.append(health))
    assert list(swept.failures) == ["checks"] and not told
    assert swept.orphans is not None
    assert sweep(world.ports, lambda *health: told.append(health)).dispatched and told


def test_what_one_query_of_the_index_finds_is_swept_although_another_fails() -> None:
    world = World()
    topics_in_need(world, "a")
    world.clock.advance_ms(HOUR)
    due = type(world.service.checks).due

    def partly(checks: Any, now_ms: int, failed: dict[str, Exception]) -> Any:
        failed["shard 7"] = OSError("throttled")
        return due(checks, now_ms)

    told: list[object] = []
    with patch.object(type(world.service.checks), "due", partly):
        swept = sweep(world.ports, lambda *health: told.append(health))
    assert list(swept.failures) == ["shard 7"] and not told
    assert "a" in swept.dispatched


@pytest.mark.parametrize(
    "change",
    [
        lambda world: update_topic(world.service, world.clock, TOPIC, {"retention_s": 60}),
        lambda world: purge(world.service, world.clock, TOPIC, first_ms=0, end_ms=START_MS + 40 * DAY),
        lambda world: collect(world.ports, TOPIC),
        lambda world: consider_merge(world.ports, world.state),
        lambda world: [world.send(31 * DAY) for _ in range(40)],
    ],
    ids=["retention", "purge", "collect", "merge", "many ledgers"],
)
def test_a_change_of_the_next_check_keeps_that_a_schedule_is_missing(change: Callable[[World], Any]) -> None:
    world = World(retention_s=7200)
    world.send(30 * DAY)
    items = world.service.store.of(TOPIC)
    items.state = replace(world.state, next_check_ms=AT_ONCE_MS, collect_at_ms=None)
    change(world)
    assert world.state.next_check_ms == AT_ONCE_MS
    world.service.wheel.schedules.clear()
    world.sweep()
    assert world.state.next_check_ms != AT_ONCE_MS
