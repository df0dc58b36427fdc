"""Replays repeat delivered messages while retention keeps the ledgers, which are deleted later."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World, once
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration.replay import ReplayResult, replay
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic, find_checkpoints
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge

WEEK = 7 * DAY
KEPT = {"retention_days": 7}


def run_replay(
    world: World, first_ms: int | None = None, end_ms: int | None = None, name: str = "billing"
) -> ReplayResult:
    """Replays a range given from the world's start, as an administrator with access to the work queue."""
    return replay(
        world.ports,
        world.clock,
        TOPIC,
        name,
        first_ms=None if first_ms is None else START_MS + first_ms,
        end_ms=None if end_ms is None else START_MS + end_ms,
        enqueue=world.ports.queues.enqueue_parts,
    )


def delivered(world: World, days: int = 3) -> list[str]:
    """Sends a message per day, each in a separate ledger, and delivers all but the last."""
    ids = [id for day in range(days + 1) for id in world.send(day * DAY + HOUR)]
    assert world.received_after(days * DAY, sweeps=True) == once(ids[:-1])
    return ids


def nothing_is_left(world: World) -> bool:
    storage = world.service
    kept = [
        storage.buckets.all(TOPIC),
        storage.plans.ranges(TOPIC),
        storage.merges.trash(TOPIC),
        storage.deliveries.all(TOPIC),
    ]
    return not any(kept) and not world.service.objects.names("ledgers/")


# ---- retention
def test_ledgers_are_kept_as_long_as_the_setting_says_and_then_go_from_an_idle_topic() -> None:
    world = World(**KEPT)
    world.send(DAY)
    world.run(DAY + WEEK - HOUR, sweeps=True)
    assert world.service.objects.names("ledgers/") and world.service.plans.ranges(TOPIC)
    world.run(DAY, sweeps=True)
    assert nothing_is_left(world)
    assert world.state.collect_at_ms is None


def test_a_topic_that_only_waits_for_its_retention_is_hardly_looked_at() -> None:
    world = World(**KEPT)
    world.send(DAY)
    world.run(DAY + HOUR, sweeps=True)
    looks = 0
    for _ in range(5 * 24):
        world.run(HOUR)
        swept = world.sweep()
        looks += len(swept.collected) + len(swept.dispatched)
    assert looks <= 2


def test_a_merged_ledger_is_kept_for_its_plans_and_goes_with_them() -> None:
    world = World(**KEPT)
    ids = world.send(HOUR) + world.send(2 * HOUR, 3 * DAY) + world.send(3 * DAY)
    world.run(DAY, sweeps=True)
    merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=60, everything=True)
    run_replay(world)
    world.work()
    assert world.received() == Counter(ids[:2] + ids[:2])
    world.run(2 * WEEK, sweeps=True)
    assert world.received() == Counter(ids[:2] + ids)
    assert nothing_is_left(world)


def test_kept_ledgers_cost_a_dispatch_nothing_and_a_collection_three_requests() -> None:
    def reads(days: int) -> tuple[list[int], list[int]]:
        world = World(retention_days=days, claims="none")
        for _ in range(3 * 24):
            world.send(HOUR, 2 * HOUR)
            world.send(90 * MINUTE)
            world.send(HOUR, 2 * DAY)
            world.run(HOUR, sweeps=True)
        found: list[int] = []
        query = world.service.dynamodb.query

        def counted(**request: Any) -> Any:
            answer = query(**request)
            found.append(answer["ScannedCount"])
            return answer

        with patch.object(world.service.dynamodb, "query", counted):
            dispatch(world.ports, TOPIC)
            dispatched = found.copy()
            found.clear()
            collect(world.ports, TOPIC)
        assert len(world.service.plans.ranges(TOPIC)) >= 60 * bool(days)
        return dispatched, found

    (none, collected), (month, kept) = reads(0), reads(30)
    assert month == none
    assert len(kept) <= len(collected) + 3 and sum(kept) <= sum(collected) + 10


def test_a_shorter_retention_takes_effect_at_once() -> None:
    world = World(**KEPT)
    world.send(HOUR)
    world.run(DAY, sweeps=True)
    assert world.service.objects.names("ledgers/")
    update_topic(world.ports, world.clock, TOPIC, {"retention_days": 0})
    world.run(2 * HOUR, sweeps=True)
    assert not world.service.objects.names("ledgers/")


def test_collection_never_stops_inside_a_plan() -> None:
    world = World(retention_days=1, collect_interval_s=60)
    world.send(*(HOUR + minute * MINUTE for minute in range(60)))
    world.clock.advance_ms(2 * HOUR - 8 * MINUTE)  # nobody dispatched for long: one plan spans two hours
    dispatch(world.ports, TOPIC)
    [(a, b)] = world.service.plans.ranges(TOPIC)
    world.clock.advance_ms(DAY)
    assert a < (world.clock.now_ms() - DAY) // world.state.slot_ms < b
    collect(world.ports, TOPIC)
    assert world.state.collected_until == a
    create_subscription(world.service, world.clock, TOPIC, "audit", "queue-audit", "earliest")
    world.run(2 * HOUR, sweeps=True)
    assert world.received("audit") == world.received("billing")


# ---- replay


def test_parts_outside_of_the_range_are_not_worked_on() -> None:
    world = World(part_rows=2, segment_rows=2, inline_rows=1, **KEPT)
    ids = world.send(*(HOUR + 1000 * i for i in range(10)))
    assert world.received_after(2 * HOUR, sweeps=True) == once(ids)
    done = run_replay(world, HOUR + 4000, HOUR + 6000)
    assert (done.plans, done.messages) == (1, 2)
    [delivery] = world.service.deliveries.all(TOPIC)
    assert delivery.parts == 5 and delivery.done == {0, 1, 3, 4}
    assert len(world.service.queues.take_jobs()) == 1
    world.run(HOUR, sweeps=True)
    assert world.received() - once(ids) == once(ids[4:6])


def test_messages_that_went_direct_do_not_come_again() -> None:
    world = World(**KEPT)
    world.send(MINUTE)
    world.run(HOUR, sweeps=True)
    assert run_replay(world).plans == 0


def test_what_is_sealed_and_still_to_come_does_not_come_twice() -> None:
    world = World(**KEPT)
    ids = world.send(HOUR + MINUTE)
    world.run(HOUR)
    assert world.received() == once(ids)  # in the queue, held back
    assert run_replay(world).plans == 0


def test_a_subscription_can_replay_what_was_due_before_it_began() -> None:
    world = World(**KEPT)
    ids = delivered(world)
    world.subscribe("audit")
    run_replay(world, name="audit")
    world.work()
    assert world.received("audit") == once(ids[:-1])


def test_a_range_that_is_partly_kept_is_replayed_from_where_it_is() -> None:
    world = World(retention_days=2, collect_interval_s=60)
    ids = delivered(world, days=5)
    done = run_replay(world, 0)
    assert done.first_ms == world.state.collected_until * world.state.slot_ms
    assert START_MS + 2 * DAY <= done.first_ms <= START_MS + 3 * DAY
    world.work()
    assert world.received() == Counter(ids[:-1] + ids[3:-1])


def test_a_delivery_that_is_still_open_is_not_opened_a_second_time() -> None:
    world = World(inline_rows=1, **KEPT)
    ids = world.send(HOUR, HOUR + 1)
    world.run(HOUR - 8 * MINUTE, schedules=False)
    dispatch(world.ports, TOPIC)
    world.clock.advance_ms(30 * MINUTE)
    done = run_replay(world)
    assert (done.plans, done.skipped) == (0, 1)
    world.work()
    assert world.received() == once(ids)
    assert run_replay(world).plans == 1
    assert run_replay(world).skipped == 1


def test_what_a_resumed_subscription_is_still_to_get_does_not_come_twice() -> None:
    world = World(**KEPT)
    ids = world.send(HOUR)
    world.run(2 * HOUR, sweeps=True)
    states.pause(world.ports, TOPIC, "billing")
    missed = world.send(HOUR)
    world.run(2 * HOUR)
    states.resume(world.ports, world.ports.queues, world.clock, TOPIC, "billing")  # its job has not caught up yet
    assert run_replay(world).messages == 1
    assert world.received_after(HOUR, sweeps=True) == once([*ids, *ids, *missed])


def test_who_may_not_enqueue_leaves_that_to_the_sweep() -> None:
    world = World(**KEPT)
    ids = delivered(world)

    def refuse(*_: object) -> None:
        raise QueueUnavailable("work", "AccessDenied")

    for enqueue in (None, refuse):
        replay(world.ports, world.clock, TOPIC, "billing", enqueue=enqueue)
        world.work()
        assert len(world.service.deliveries.all(TOPIC)) == 3
        world.run(5 * MINUTE, sweeps=True)
        assert not world.service.deliveries.all(TOPIC)
    assert world.received() == Counter(ids[:-1] * 3)


def test_a_replay_says_from_when_on_it_found_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(**KEPT)
    ids = delivered(world)
    [(first_slot, end_slot), *_] = world.service.plans.ranges(TOPIC)
    read = world.service.plans.read

    def collected(topic: str, slot: int) -> object:
        return None if slot == first_slot else read(topic, slot)

    monkeypatch.setattr(world.service.plans, "read", collected)
    done = run_replay(world)
    monkeypatch.undo()
    world.work()
    assert done.first_ms == end_slot * world.state.slot_ms
    assert world.received() == Counter([*ids[:-1], *ids[1:-1]])


def test_a_range_has_its_first_millisecond_and_not_its_last() -> None:
    for first_ms, end_ms, plans in (
        (DAY + HOUR, DAY + HOUR + 1, 1),
        (DAY + HOUR - 1, DAY + HOUR, 0),
        (DAY + HOUR + 1, DAY + 2 * HOUR, 0),
    ):
        world = World(**KEPT)
        ids = delivered(world)
        assert run_replay(world, first_ms, end_ms).plans == plans
        world.work()
        assert world.received() - once(ids[:3]) == once(ids[1:2] * plans)


def test_a_checkpoint_does_not_take_a_replay_for_work_that_is_left() -> None:
    world = World(**KEPT)
    delivered(world)
    [subscription] = world.service.subscriptions.all(TOPIC)
    run_replay(world)
    checkpoint_topic(world.ports, TOPIC)
    newest = find_checkpoints(world.service.objects, TOPIC).newest
    assert newest is not None and newest.subscriptions == (subscription,)


def test_a_replay_of_a_plan_that_was_made_again_has_the_parts_of_that_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
    world = World(**KEPT, inline_rows=1)
    ids = world.send(HOUR, HOUR + 1)
    world.dispatch_at(HOUR - 5 * MINUTE)
    world.service.objects.delete(world.service.objects.names("plans/"))
    world.run(DAY, sweeps=True)
    run_replay(world)
    [opened] = world.service.deliveries.all(TOPIC)
    assert opened.edition == 1
    world.work()
    assert world.received() == once(ids * 2)


def test_a_replay_of_a_plan_whose_object_is_damaged_plans_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
    world = World(**KEPT)
    ids = delivered(world, 1)
    [name] = world.service.objects.names("plans/")
    world.service.objects.put(name, b"x" * 200)
    run_replay(world)
    world.run(HOUR, sweeps=True)
    assert world.received() == once([*ids, ids[0]])
    assert world.service.deliveries.all(TOPIC) == []
