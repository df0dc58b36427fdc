"""The path of a delayed message through the real flows, in memory."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.world import (
    DAY,
    DEATHS,
    HOUR,
    MINUTE,
    START_MS,
    TOPIC,
    Crash,
    CrashingPorts,
    World,
    ids_of,
    once,
    seeds,
)
from tidewheel.errors import CorruptMetadata, DelayTooLong, PartLeased, TopicReplaced
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.planning import DueBuckets
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.model.message import MessageId
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.wheel import fine_delay_s
from tidewheel.storage.buckets import Commit


def test_a_message_due_in_three_days_waits_in_a_ledger_and_arrives_once_in_its_second() -> None:
    world = World()
    [sent] = world.send(3 * DAY)
    assert len(world.service.objects.names("ledgers/")) == 1
    assert not world.service.queues.sent()
    world.run(3 * DAY)
    assert world.received() == once([sent])
    world.assert_in_time()


def test_every_subscription_gets_every_message() -> None:
    world = World("billing", "audit", "mail")
    ids = world.send(*(i * 37 * MINUTE for i in range(1, 60)))
    world.run(2 * DAY)
    for name in ("billing", "audit", "mail"):
        assert world.received(name) == once(ids)
    world.assert_in_time()


def test_a_message_due_within_the_lookahead_is_sent_at_once_with_the_fine_delay() -> None:
    world = World()
    ids = world.send(0, 1000, 5 * MINUTE)
    assert world.received() == once(ids)
    assert not world.service.objects.names("ledgers/")
    world.assert_in_time()


def test_one_batch_of_near_and_far_messages_takes_both_ways() -> None:
    world = World()
    done = world.ingest(world.pack(MINUTE, 2 * HOUR, DAY))
    assert (done.direct_rows, done.ledger_rows) == (1, 2)


def test_a_batch_delivered_again_by_the_queue_doubles_nothing_that_was_committed() -> None:
    world = World()
    pack = world.pack(HOUR, DAY)
    world.ingest(pack)
    world.ingest(pack)
    assert len(world.service.objects.names("ledgers/")) == 1
    world.run(2 * DAY)
    assert world.received() == once(ids_of(pack))


def test_a_batch_delivered_again_after_its_slots_were_dispatched_loses_nothing() -> None:
    world = World()
    pack = world.pack(HOUR, DAY)
    world.ingest(pack)
    world.run(2 * HOUR)
    world.ingest(pack)
    world.run(2 * DAY)
    assert set(world.received()) == set(ids_of(pack))


def test_a_commit_whose_answer_was_lost_keeps_its_ledger() -> None:
    """If the store reports EXISTS for the bucket of the same try, the object belongs to the bucket and stays."""
    world = World()
    commit_bucket = world.service.buckets.commit

    def answer_lost(*args: Any, **options: Any) -> Any:
        commit_bucket(*args, **options)
        return commit_bucket(*args, **options)

    world.service.buckets.commit = answer_lost  # type: ignore[method-assign]
    ids = world.send(HOUR)
    world.run(DAY, sweeps=True)
    assert world.received() == once(ids)


def test_a_commit_that_the_topic_s_state_has_overtaken_is_tried_again_at_once() -> None:
    world = World()
    commit_bucket, answers = world.service.buckets.commit, [Commit.MOVED, Commit.MOVED]

    def overtaken(*args: Any, **options: Any) -> Any:
        return answers.pop() if answers else commit_bucket(*args, **options)

    world.service.buckets.commit = overtaken  # type: ignore[method-assign]
    ids = world.send(HOUR)
    world.run(DAY)
    assert world.received() == once(ids)


def test_packs_regrouped_by_the_queue_lose_nothing() -> None:
    world = World()
    first, second, third = world.pack(HOUR), world.pack(2 * HOUR), world.pack(3 * HOUR)
    world.ingest(first, second)
    world.ingest(second, third)
    world.run(DAY)
    assert set(world.received()) == {*ids_of(first), *ids_of(second), *ids_of(third)}


def test_a_pack_of_a_topic_that_was_created_again_is_refused() -> None:
    world = World()
    with pytest.raises(TopicReplaced):
        world.ingest(replace(world.pack(HOUR), generation="another"))


def test_schedules_that_never_fire_are_healed_by_the_sweep() -> None:
    world = World("billing", "audit")
    ids = world.send(*(i * 13 * MINUTE for i in range(1, 100)))
    world.run(2 * DAY, sweeps=True, schedules=False)
    assert world.received("billing") == world.received("audit") == once(ids)
    world.assert_in_time()


def test_a_schedule_that_fires_twice_or_for_nothing_changes_nothing() -> None:
    world = World()
    ids = world.send(HOUR, 2 * HOUR)
    for _ in range(30):
        world.run(5 * MINUTE)
        dispatch(world.ports, TOPIC)
        dispatch(world.ports, TOPIC)
    assert world.received() == once(ids)
    world.assert_in_time()


def test_a_schedule_for_a_topic_that_is_gone_does_nothing() -> None:
    assert dispatch(World().ports, "elsewhere") is None


def test_a_latest_subscription_gets_what_becomes_due_after_it_was_made_and_nothing_sealed_before() -> None:
    world = World()
    before = world.send(HOUR)
    after = world.send(3 * HOUR)
    world.run(HOUR + MINUTE)
    world.subscribe("late")
    world.run(DAY)
    assert world.received("late") == once(after)
    assert world.received() == once(before + after)


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
    assert (done.messages, done.enqueued_parts) == (0, 4)
    world.work()
    assert world.received() == once(ids)


def test_a_pack_that_comes_twice_in_one_batch_is_stored_once() -> None:
    world = World()
    pack = world.pack(MINUTE, HOUR, DAY)
    world.ingest(pack, pack)
    world.run(2 * DAY)
    assert world.received() == once(ids_of(pack))


def test_a_part_that_another_worker_leased_is_left_alone_until_the_lease_ends() -> None:
    world = World(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1, HOUR + 2)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    [(key, part)] = world.service.queues.take_parts()
    world.service.deliveries.lease_part(key, part, world.clock.now_ms(), world.clock.now_ms() - LEASE_MS)
    with pytest.raises(PartLeased):
        deliver_part(world.ports, key, part)
    world.clock.advance_ms(LEASE_MS + 1)
    deliver_part(world.ports, key, part)
    assert world.received() == once(ids)
    assert deliver_part(world.ports, key, part) is None


def test_a_part_that_its_queue_does_not_take_for_now_is_done_and_its_messages_are_drained() -> None:
    world = World(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1, HOUR + 2)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    [(key, part)] = world.service.queues.take_parts()
    world.service.queues.refuse_if(lambda _: True, permanent=False, times=3 * len(ids))
    done = deliver_part(world.ports, key, part)
    assert done is not None and done.parked == 3 and not world.service.deliveries.all(TOPIC)
    assert deliver_part(world.ports, key, part) is None
    world.work()
    assert world.received() == once(ids) and not world.service.parks.all(TOPIC)


def test_a_plan_that_a_queue_does_not_take_at_once_is_parked_and_drained() -> None:
    world = World(part_rows=2)
    ids = [id for i in range(3) for id in world.send(HOUR + i, HOUR + 10 + i)]
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    world.service.queues.refuse_if(lambda _: True, permanent=False, times=3 * len(ids))
    done = dispatch(world.ports, TOPIC)
    assert done is not None and not done.failures
    assert not world.service.deliveries.all(TOPIC)
    world.work()
    assert world.received() == once(ids) and not world.service.parks.all(TOPIC)


def test_a_cancelled_message_is_not_delivered_from_its_plan_nor_directly() -> None:
    world = World()
    keep, drop = world.send(HOUR, HOUR)
    assert world.service.tombstones.cancel(TOPIC, Tombstone(slot(world, HOUR), MessageId(drop), 1)).done
    late = world.pack(HOUR)
    [late_id] = ids_of(late)
    world.service.tombstones.cancel(TOPIC, Tombstone(slot(world, HOUR), MessageId(late_id), 1))
    world.run(HOUR - 5 * MINUTE)
    world.ingest(late)
    world.run(HOUR)
    assert world.received() == once([keep])


def test_a_queue_that_is_gone_keeps_no_other_subscription_waiting() -> None:
    world = World("billing", "audit")
    world.service.queues.remove("queue-audit")
    ids = world.send(HOUR)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    assert world.received("billing") == once(ids)
    world.service.queues.restore("queue-audit")
    world.work()
    assert world.received("audit") == once(ids)


def test_a_queue_that_takes_nothing_for_now_does_not_make_the_batch_come_again() -> None:
    world = World()
    world.service.queues.refuse_if(lambda _: True, permanent=False, times=3)
    pack = world.pack(MINUTE)
    world.ingest(pack)
    assert not world.received()
    world.work()
    assert world.received() == once(ids_of(pack))


def test_a_message_that_sqs_refuses_is_kept_with_the_reason_and_stops_nothing() -> None:
    world = World()
    world.service.queues.refuse_if(lambda message: message.text == "bad", permanent=True, reason="told to")
    bad = world.send(HOUR, body="bad")
    good = world.send(HOUR, HOUR)
    world.run(DAY)
    assert world.received() == once(good)
    [document] = world.service.queues.refused
    assert (document["body"], document["reason"]) == ("bad", "told to")
    assert bad[0] in document["header"]


def test_messages_that_sqs_does_not_take_at_first_are_tried_again() -> None:
    world = World()
    world.service.queues.refuse_if(lambda _: True, permanent=False, times=2)
    ids = world.send(HOUR, HOUR + 1)
    world.run(DAY)
    assert world.received() == once(ids)


def test_a_damaged_segment_is_set_aside_with_a_clear_reason_and_stops_no_other_ledger() -> None:
    world = World(inline_rows=1, part_rows=1)
    world.send(HOUR)
    [name] = world.service.objects.names("ledgers/")
    good = world.send(HOUR, HOUR)
    world.service.objects.put(name, b"\0" * 10_000)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    for key, part in world.service.queues.take_parts():
        deliver_part(world.ports, key, part)
    assert world.received() == once(good)
    [item] = world.service.set_aside.all(TOPIC)
    assert item.objects == (name,) and "checksum" in item.reason
    assert world.service.deliveries.all(TOPIC) == []


def test_each_part_of_a_damaged_ledger_is_set_aside_and_comes_when_the_ledger_is_back() -> None:
    world = World(inline_rows=1, part_rows=1, segment_rows=1)
    ids = world.send(HOUR, HOUR + 1)
    [name] = world.service.objects.names("ledgers/")
    whole = world.service.objects.get_range(name, 0, 1 << 20)
    world.service.objects.put(name, bytes(len(whole)))
    world.run(HOUR)
    assert world.received() == once([])
    assert len(world.service.set_aside.all(TOPIC)) == len(ids)
    world.service.objects.put(name, whole)
    world.run(HOUR, sweeps=True)
    assert world.received() == once(ids)


def test_what_is_set_aside_is_tried_again_after_5_10_and_20_minutes() -> None:
    world = World(inline_rows=1)
    world.send(HOUR)
    [name] = world.service.objects.names("ledgers/")
    world.service.objects.put(name, bytes(10_000))
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    world.work()
    [item] = world.service.set_aside.all(TOPIC)
    waits = []
    for _ in range(3):
        assert item.next_check_ms is not None
        waits.append(item.next_check_ms - world.clock.now_ms())
        world.clock.advance_ms(waits[-1])
        world.sweep()
        [item] = world.service.set_aside.all(TOPIC)
    assert waits == [each * MINUTE for each in (5, 10, 20)]


def test_an_open_delivery_is_enqueued_again_when_it_is_old_and_not_before() -> None:
    world = World(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1, HOUR + 2)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    world.service.queues.take_parts()
    assert sweep(world.ports).redriven == 0
    world.clock.advance_ms(31 * MINUTE)
    assert sweep(world.ports).redriven == 1
    assert sweep(world.ports).redriven == 0
    world.work()
    assert world.received() == once(ids)


def test_everything_is_collected_once_every_subscription_is_past_it() -> None:
    world = World("billing", "audit")
    world.send(*(i * HOUR for i in range(1, 30)))
    world.run(40 * HOUR, sweeps=True)
    assert not world.service.objects.names("ledgers/")
    assert not world.service.buckets.all(TOPIC)
    assert not world.service.plans.ranges(TOPIC)
    assert world.state.next_check_ms is None, "an idle topic costs the sweep nothing"


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


def test_collection_keeps_what_an_open_delivery_still_needs() -> None:
    world = World(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1, HOUR + 2)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatch(world.ports, TOPIC)
    world.clock.advance_ms(2 * HOUR)
    collect(world.ports, TOPIC)
    assert world.service.objects.names("ledgers/")
    world.work()
    assert world.received() == once(ids)
    collect(world.ports, TOPIC)
    assert not world.service.objects.names("ledgers/")


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


def test_an_alarm_that_cannot_be_set_holds_up_nothing_that_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    ids = world.send(HOUR, 5 * HOUR)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    with monkeypatch.context() as broken:
        broken.setattr(
            type(world.service.wheel), "schedule", lambda *_: (_ for _ in ()).throw(OSError("scheduler is down"))
        )
        dispatch(world.ports, TOPIC)
    assert world.received() == once(ids[:1])
    world.run(DAY, sweeps=True)
    assert world.received() == once(ids)
    world.assert_in_time()


def test_short_slots_deliver_within_the_promise_too() -> None:
    world = World(slot_s=1, lookahead_s=2)
    ids = world.send(*(i * 700 for i in range(1, 100)))
    world.run(3 * MINUTE)
    assert world.received() == once(ids)
    world.assert_in_time()


def test_the_fine_wheel_is_never_early_and_never_clamped() -> None:
    assert fine_delay_s(10_000, 10_000, 100) == 1
    assert fine_delay_s(10_000, 9_100, 100) == 1
    assert fine_delay_s(10_000, 9_099, 100) == 2
    assert fine_delay_s(10_000, 20_000, 100) == 0
    with pytest.raises(DelayTooLong):
        fine_delay_s(1_000_000, 0, 100)


@pytest.mark.parametrize("flow", ["ingest", "dispatch", "dispatch in parts", "deliver", "sweep", "collect"])
@DEATHS
def test_a_crash_at_any_call_loses_nothing_and_delivers_nothing_early(flow: str, when: str, every: int) -> None:
    at = 0
    crashed = True
    while crashed:
        at += every
        settings = {} if flow in ("ingest", "dispatch") else {"inline_rows": 1, "part_rows": 2}
        world = World("billing", "audit", wrap=CrashingPorts, **settings)
        plan = world.ports.plan
        pack = world.pack(MINUTE, HOUR, HOUR + 1, HOUR + 2, 5 * HOUR)
        steps = {
            "ingest": lambda world=world, pack=pack: world.ingest(pack),
            "dispatch": lambda world=world: dispatch(world.ports, TOPIC),
            "dispatch in parts": lambda world=world: dispatch(world.ports, TOPIC),
            "deliver": world.work,
            "sweep": lambda world=world: sweep(world.ports),
            "collect": lambda world=world: collect(world.ports, TOPIC),
        }
        if flow != "ingest":
            world.ingest(pack)
            world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
        if flow in ("deliver", "sweep", "collect"):
            dispatch(world.ports, TOPIC)
        if flow in ("sweep", "collect"):
            world.service.queues.take_parts()
            world.clock.advance_ms(HOUR)
            if flow == "collect":
                world.sweep()
        plan.schedule(at, when)
        try:
            steps[flow]()
            crashed = False
        except Crash:
            pass
        plan.disarm()
        world.service.wheel.take_due(world.clock.now_ms() + DAY)
        if flow == "ingest":
            world.ingest(pack)
        world.run_on(2 * DAY)
        for name in ("billing", "audit"):
            assert set(world.received(name)) == set(ids_of(pack)), f"{flow} crashed {when} call {at}"
        early = [m for m in world.service.queues.sent() if m.visible_at_ms < m.deliver_at_ms]
        assert not early
        assert not world.service.deliveries.all(TOPIC)
        assert not world.service.buckets.all(TOPIC)
    assert at > 5


@pytest.mark.parametrize("seed", seeds(30, few=8))
def test_random_streams_arrive_once_each(seed: int) -> None:
    rng = random.Random(seed)
    slot_s = rng.choice([1, 60, 300])
    lookahead_s = rng.choice([2, 120, 480]) if slot_s < 300 else 480
    world = World("billing", "audit", slot_s=slot_s, lookahead_s=lookahead_s, inline_rows=rng.choice([5, 2000]))
    ids: list[str] = []
    scale = slot_s * 1000
    for _ in range(rng.randint(5, 40)):
        delays = [int(rng.choice([0, 1, 5, 50]) * scale * rng.random()) for _ in range(rng.randint(1, 20))]
        ids += world.send(*delays)
        world.run(int(rng.random() * 4 * scale), sweeps=rng.random() < 0.5, schedules=rng.random() < 0.9)
    world.run(120 * scale + DAY, sweeps=True)
    assert world.received("billing") == world.received("audit") == once(ids)
    early = [m for m in world.service.queues.sent() if m.visible_at_ms < m.deliver_at_ms]
    assert not early
    assert not world.service.objects.names("ledgers/")


def slot(world: World, delay_ms: int) -> int:
    return (START_MS + delay_ms) // world.state.slot_ms


def test_a_dispatch_keeps_no_ledger_that_is_only_kept_for_replays_or_for_a_paused_subscription() -> None:
    world = World(retention_s=30 * DAY // 1000)
    for number in range(40):
        world.send((number % 20 + 1) * HOUR)
    spanning = world.send(HOUR, 3 * DAY)
    world.run(2 * DAY, sweeps=True)
    assert len(world.service.buckets.all(TOPIC)) == 41
    [kept] = DueBuckets(world.ports, world.state, {}).indexes.buckets
    assert kept.rows == len(spanning)
    world.run(2 * DAY, sweeps=True)
    assert world.received()[spanning[1]] == 1
