"""The path of a delayed message through the real flows, in memory."""

from __future__ import annotations

import pytest

from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, CrashingPorts, World, ids_of, once
from tidewheel.errors import CorruptMetadata, DelayTooLong
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.planning import DueBuckets
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.model.wheel import fine_delay_s


def test_a_topic_without_subscriptions_is_dispatched_and_collected() -> None:
    world = World(subscribe=False)
    world.send(HOUR)
    world.run(DAY, sweeps=True)
    world.run(DAY, sweeps=True)
    assert not world.service.objects.names("ledgers/")


def test_a_large_plan_goes_through_the_work_queue_in_parts() -> None:
    world = World("billing", "audit", inline_rows=50, part_rows=40)
    ids = world.send(*(HOUR + i for i in range(300)))
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    done = dispatch(world.ports, TOPIC)
    assert done is not None
    assert done.enqueued_parts == 2 * 8
    assert not world.service.queues.sent()
    world.work()
    assert world.received("billing") == world.received("audit") == once(ids)
    assert not world.service.deliveries.all(TOPIC)


def test_a_burst_inside_a_sparse_segment_goes_in_bounded_parts() -> None:
    """The segment's span suggests a row or two due, but hundreds are."""
    world = World(inline_rows=100, part_rows=50)
    ids = []
    for _ in range(30):
        sparse = [2 * HOUR + i * 40 * HOUR for i in range(10)]
        ids += world.send(*sparse, *([17 * DAY + HOUR] * 300))
    plans = []
    while world.state.next_slot is not None and world.clock.now_ms() < START_MS + 20 * DAY:
        world.run(DAY // 2)
        plans += [world.service.plans.read(TOPIC, a) for a, _ in world.service.plans.ranges(TOPIC)]
    assert world.received() == once(ids)
    assert max(sum(p.end_row - p.first_row for p in part) for plan in plans if plan for part in plan.parts()) <= 5_000


def test_a_plan_of_large_messages_goes_in_parts_that_fit_a_function() -> None:
    world = World()
    ids = [world.send(HOUR, body="x" * 1_000_000)[0] for _ in range(60)]
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    done = dispatch(world.ports, TOPIC)
    assert done is not None
    assert (done.sent.messages, done.enqueued_parts) == (0, 4)
    world.work()
    assert world.received() == once(ids)


def test_a_pack_that_comes_twice_in_one_batch_is_stored_once() -> None:
    world = World()
    pack = world.pack(MINUTE, HOUR, DAY)
    world.ingest(pack, pack)
    assert world.received_after(2 * DAY) == once(ids_of(pack))


def test_a_message_that_sqs_refuses_is_kept_with_the_reason_and_stops_nothing() -> None:
    world = World()
    world.service.queues.refuse_if(lambda message: message.text == "bad", permanent=True, reason="told to")
    bad = world.send(HOUR, body="bad")
    good = world.send(HOUR, HOUR)
    assert world.received_after(DAY) == once(good)
    [document] = world.service.queues.refused
    assert (document["body"], document["reason"]) == ("bad", "told to")
    assert bad[0] in document["header"]


def test_an_open_delivery_is_enqueued_again_when_it_is_old_and_not_before() -> None:
    world = World(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1, HOUR + 2)
    world.dispatch_at(HOUR - 8 * MINUTE)
    world.service.queues.take_parts()
    assert sweep(world.ports).redriven == 0
    world.clock.advance_ms(31 * MINUTE)
    assert sweep(world.ports).redriven == 1
    assert sweep(world.ports).redriven == 0
    world.work()
    assert world.received() == once(ids)


def test_a_collection_that_cannot_read_an_item_deletes_nothing_and_tries_again_an_interval_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.send(HOUR)
    world.run(2 * HOUR)
    objects = world.service.objects.names("ledgers/")

    def unreadable(*_: object) -> None:
        raise CorruptMetadata("a delivery")

    monkeypatch.setattr(world.service.deliveries, "all", unreadable)
    done = collect(world.ports, TOPIC)
    assert done is not None and done.held is not None
    assert world.service.objects.names("ledgers/") == objects != []
    assert world.state.collect_at_ms == world.clock.now_ms() + world.state.settings.collect_interval_s * 1000


def test_one_slot_and_one_subscription_cost_this_many_calls() -> None:
    world = World(wrap=CrashingPorts)
    world.send(HOUR)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    world.ports.plan.schedule(-1, "before")
    dispatch(world.ports, TOPIC)
    # topic state, seal, buckets, tombstones, subscriptions, transaction, (arm: nothing waits), GET, send, delete
    # delivery
    assert world.ports.plan.calls == 9


def test_a_ledger_of_the_same_wake_makes_no_second_schedule() -> None:
    world = World()
    world.sweep()
    wheel = world.service.wheel
    for_the_new_subscription = set(wheel.schedules.values())
    world.send(HOUR)
    world.send(2 * HOUR)
    [(_, _, fires_at_ms)] = set(wheel.schedules.values()) - for_the_new_subscription
    assert 0 <= fires_at_ms - (START_MS + HOUR - 8 * MINUTE) <= MINUTE
    world.send(30 * MINUTE)
    assert len(set(wheel.schedules.values()) - for_the_new_subscription) == 2


def test_the_fine_wheel_is_never_early_and_never_clamped() -> None:
    assert fine_delay_s(10_000, 10_000, 100) == 1
    assert fine_delay_s(10_000, 9_100, 100) == 1
    assert fine_delay_s(10_000, 9_099, 100) == 2
    assert fine_delay_s(10_000, 20_000, 100) == 0
    with pytest.raises(DelayTooLong):
        fine_delay_s(1_000_000, 0, 100)


def test_a_dispatch_keeps_no_ledger_that_is_only_kept_for_replays_or_for_a_paused_subscription() -> None:
    world = World(retention_days=30)
    for number in range(40):
        world.send((number % 20 + 1) * HOUR)
    spanning = world.send(HOUR, 3 * DAY)
    world.run(2 * DAY, sweeps=True)
    assert len(world.service.objects.names("ledgers/")) == 41
    [kept] = DueBuckets(world.ports, world.state).indexes.buckets
    assert kept.rows == len(spanning)
    world.run(2 * DAY, sweeps=True)
    assert world.received()[spanning[1]] == 1
