"""Subscriptions with pauses, filters, deletions and broken queues."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from tests.flows.alone import sweep_orphans
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, Crash, CrashingPorts, World, ids_of, once
from tests.recorded_queues import RecordedQueues
from tests.stored import stored
from tidewheel.errors import QueueUnavailable, UnknownSubscription
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.drain import drain
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.orphans import ORPHAN_GRACE_S
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.model.filter_policy import FilterPolicy
from tidewheel.model.object_names import LEDGERS, PARKED
from tidewheel.model.park import MAX_WAIT_S, Park
from tidewheel.model.settings import StoredSettings
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.task import CatchUpTask, DrainTask
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.parks import Parked, Parks

LARGE = random.Random(7).randbytes(450_000).hex()
"""A body that no compression fits into an item."""
RED = FilterPolicy.parse({"color": ["red"]}).to_json()


def a_world(*subscriptions: str, **settings: int) -> World:
    return World(*subscriptions, wrap=CrashingPorts, **settings)


def pause(world: World, name: str = "billing") -> None:
    states.pause(world.ports, TOPIC, name)


def resume(world: World, name: str = "billing") -> None:
    states.resume(world.ports, world.ports.queues, world.clock, TOPIC, name)


def delete(world: World, name: str = "billing") -> None:
    states.delete_subscription(world.ports, TOPIC, name)


def state(world: World, name: str = "billing") -> State:
    found = world.service.subscriptions.read(TOPIC, name)
    assert found is not None
    return found.state


def parks(world: World) -> list[Park]:
    return world.service.parks.all(TOPIC)


# --- pause and resume -----------------------------------------------------------------------------------------


def test_what_was_handed_out_before_the_pause_still_arrives() -> None:
    world = a_world(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1, HOUR + 2)
    world.dispatch_at(HOUR - 8 * MINUTE)
    pause(world)
    world.work()
    assert world.received() == once(ids)


def test_a_resumed_subscription_tells_what_it_could_not_read() -> None:
    world = a_world()
    pause(world)
    world.send(HOUR)
    world.run(HOUR)
    [lost] = world.service.objects.names(LEDGERS)
    world.service.objects.delete([lost])
    resume(world)
    [job] = world.service.queues.take_jobs()
    done = do_task(world.ports, job)
    assert done is not None and done.unread == (lost,) and len(done.failures) == 1


def test_a_resume_by_one_who_may_not_use_the_work_queue_is_completed_by_the_next_sweep() -> None:
    world = a_world()
    pause(world)
    ids = world.send(MINUTE, HOUR)
    world.run(DAY, sweeps=True)

    class Closed(RecordedQueues):
        def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
            raise QueueUnavailable("work", "AccessDenied")

    states.resume(world.service, Closed(world.clock), world.clock, TOPIC, "billing")
    assert not world.service.queues.jobs
    world.sweep()
    assert world.received() == once(ids)


def test_a_subscription_that_was_paused_for_long_catches_up_in_several_jobs() -> None:
    world = a_world(slot_s=60, lookahead_s=60)
    pause(world)
    ids = [id for step in range(30) for id in world.send(*(step * 10 * MINUTE + k * MINUTE + HOUR for k in range(10)))]
    world.run(8 * HOUR)
    resume(world)
    catch_ups = 0
    while jobs := world.service.queues.take_jobs():
        catch_ups += sum(isinstance(job, CatchUpTask) for job in jobs)
        for job in jobs:
            do_task(world.ports, job)
    assert len(ids) == 300 and world.received() == once(ids)
    assert catch_ups >= 3


def test_a_pause_that_comes_between_the_decision_and_the_park_changes_the_decision() -> None:
    world = a_world()
    pause(world)
    calls: list[str] = []

    class Resuming(Parks):
        def put(self, park: Park, state: State) -> Parked:
            if not calls:
                calls.append(park.key.id)
                resume(world)
            return super().put(park, state)

    world.service.parks.__class__ = Resuming
    ids = world.send(MINUTE)
    world.work()
    assert world.received() == once(ids) and not parks(world)


# --- queues that break and heal -------------------------------------------------------------------------------


def test_a_broken_queue_loses_nothing_and_heals_by_itself() -> None:
    world = a_world("billing", "audit")
    world.service.queues.remove("queue-audit")
    ids = world.send(MINUTE, HOUR, 2 * HOUR)
    world.run(90 * MINUTE, sweeps=True)
    assert state(world, "audit") is State.BROKEN
    assert not world.received("audit") and world.received("billing") == once(ids[:2])
    assert sum(park.rows for park in parks(world)) == 2
    world.service.queues.restore("queue-audit")
    world.run(10 * MINUTE, sweeps=True)
    assert world.received("audit") == once(ids[:2])
    assert state(world, "audit") is State.ACTIVE and not parks(world)
    world.run(2 * HOUR, sweeps=True)
    assert world.received("audit") == world.received("billing") == once(ids)
    assert not world.service.queues.refused


def test_three_parks_a_sweep_try_a_broken_queue_and_the_others_follow_when_it_heals() -> None:
    world = a_world()
    world.clock.advance_ms(HOUR)
    world.service.queues.remove("queue-billing")
    ids = [id for _ in range(5) for id in world.send(MINUTE)]
    assert len(parks(world)) == 5
    world.service.queues.take_jobs()
    tried = sweep(world.ports)
    assert tried.drains == 3
    jobs = world.service.queues.take_jobs()
    for job in jobs:
        assert isinstance(job, DrainTask)
        drain(world.ports, job.key)
    assert [park.tries for park in parks(world)].count(1) == 3 and state(world) is State.BROKEN
    world.service.queues.take_jobs()
    world.clock.advance_ms(MAX_WAIT_S * 1000)
    sweep(world.ports)
    tried_now = {job.key for job in world.service.queues.jobs if isinstance(job, DrainTask)}
    assert {park.key for park in parks(world) if not park.tries} <= tried_now, "the least tried park waits"
    world.service.queues.restore("queue-billing")
    world.run(10 * MINUTE, sweeps=True)
    assert world.received() == once(ids) and state(world) is State.ACTIVE


@pytest.mark.parametrize("inline_rows", [4000, 1])
@pytest.mark.parametrize(
    ("age_ms", "found"), [(0, State.ACTIVE), (2 * MINUTE - 1, State.ACTIVE), (2 * MINUTE, State.BROKEN)]
)
def test_a_refusal_does_not_mark_a_subscription_of_less_than_two_minutes_as_broken(
    age_ms: int, found: State, inline_rows: int
) -> None:
    world = World(inline_rows=inline_rows)
    world.clock.advance_ms(HOUR)
    world.subscribe("new")
    world.clock.advance_ms(age_ms)
    world.service.queues.remove("queue-new")  # SQS does not know it yet
    ids = world.send(MINUTE, MINUTE)
    world.work()
    assert state(world, "new") is found and len(parks(world)) == 1
    world.service.queues.restore("queue-new")
    world.run(10 * MINUTE, sweeps=True)
    assert world.received("new") == once(ids) == world.received()


def test_a_part_and_a_drain_do_not_mark_a_new_subscription_as_broken_either() -> None:
    world = World()
    [waits] = world.send(HOUR)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    world.subscribe("new")
    world.service.queues.remove("queue-new")
    dispatch(world.ports, TOPIC)
    [park] = parks(world)
    drain(world.ports, park.key)
    assert state(world, "new") is State.ACTIVE and [each.tries for each in parks(world)] == [1]
    world.service.queues.restore("queue-new")
    world.run(10 * MINUTE, sweeps=True)
    assert world.received("new") == once([waits])


def test_what_a_queue_did_not_take_is_parked_even_if_its_subscription_is_resumed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_world("audit", "billing", "search")
    mark_broken = world.service.subscriptions.mark_broken

    def and_resumed(topic: str, name: str, generation: str) -> bool:
        done = mark_broken(topic, name, generation)
        resume(world, name)
        return done

    world.service.queues.remove("queue-billing")
    pack = world.pack(MINUTE)
    with monkeypatch.context() as patch:
        patch.setattr(world.service.subscriptions, "mark_broken", and_resumed)
        world.ingest(pack)
    assert state(world) is State.ACTIVE and [park.rows for park in parks(world)] == [1]
    assert world.received("audit") == world.received("search") == once(ids_of(pack))
    world.service.queues.restore("queue-billing")
    world.work()
    assert world.received("billing") == once(ids_of(pack))


def test_a_large_park_of_a_subscription_that_is_deleted_meanwhile_leaves_no_object() -> None:
    world = a_world("audit", "billing")
    pause(world)
    noise = random.Random(7).randbytes(300_000).hex()
    put = world.service.parks.put

    def deleted_before(*given: Any) -> Parked:
        states.delete_subscription(world.ports, TOPIC, "billing")
        return put(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.service.parks, "put", deleted_before)
        world.send(MINUTE, body=noise)
    assert not parks(world) and world.service.objects.names(PARKED) == []


def test_a_part_of_which_the_table_takes_no_park_comes_again_until_it_does() -> None:
    world = a_world(inline_rows=1)
    ids = world.send(HOUR, HOUR + 1)
    world.dispatch_at(HOUR - 8 * MINUTE)
    world.service.queues.remove("queue-billing")
    [job] = world.service.queues.take_jobs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.service.parks, "put", _refused)
        with pytest.raises(OSError, match="not now"):
            do_task(world.ports, job)
    do_task(world.ports, job)
    assert sum(park.rows for park in parks(world)) == len(ids) and world.service.deliveries.all(TOPIC) == []
    world.service.queues.restore("queue-billing")
    assert world.received_after(HOUR, sweeps=True) == once(ids)


def _refused(*_: Any) -> Any:
    raise OSError("not now")


def test_a_park_that_its_queue_does_not_take_for_now_waits_30_seconds_and_may_be_drained_at_once() -> None:
    world = a_world()
    pause(world)
    ids = world.send(MINUTE)
    [park] = parks(world)
    resume(world)
    world.service.queues.take_jobs()
    world.service.queues.refuse_if(lambda _: True, permanent=False, times=3)
    drain(world.ports, park.key)
    [after] = parks(world)
    assert (after.leased_ms, after.tries) == (None, 1) and state(world) is State.ACTIVE
    assert after.next_check_ms == world.clock.now_ms() + 60_000
    assert world.service.queues.jobs == [DrainTask(key=park.key)]
    assert drain(world.ports, park.key) is not None
    assert world.received() == once(ids) and not parks(world)


def test_a_broken_subscription_may_be_resumed_by_hand() -> None:
    world = a_world()
    world.service.queues.remove("queue-billing")
    ids = world.send(MINUTE)
    world.service.queues.restore("queue-billing")
    resume(world)
    world.work()
    assert world.received() == once(ids) and state(world) is State.ACTIVE


def test_a_park_whose_queue_breaks_again_stays_and_the_subscription_is_broken_again() -> None:
    world = a_world()
    world.clock.advance_ms(HOUR)
    pause(world)
    ids = world.send(MINUTE)
    world.service.queues.remove("queue-billing")
    resume(world)
    world.work()
    assert state(world) is State.BROKEN and [park.leased_ms for park in parks(world)] == [None]
    world.service.queues.restore("queue-billing")
    assert world.received_after(HOUR, sweeps=True) == once(ids)


@pytest.mark.parametrize("inline_rows", [4000, 1])
def test_a_refused_message_is_not_counted_as_sent(inline_rows: int) -> None:
    world = a_world(inline_rows=inline_rows)
    world.service.queues.refuse_if(lambda message: message.text == "bad", permanent=True)
    world.send(HOUR, body="bad")
    good = world.send(HOUR, HOUR)
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    dispatched = dispatch(world.ports, TOPIC)
    assert dispatched is not None
    jobs = [deliver_part(world.ports, each.key, 0) for each in world.service.deliveries.all(TOPIC)]
    done = [dispatched.sent, *(job for job in jobs if job is not None)]
    assert sum(each.messages for each in done) == len(good) == 2
    assert bool(jobs) == (inline_rows == 1)


# --- filters --------------------------------------------------------------------------------------------------


def filtered(world: World, name: str = "red", filter_policy: str | None = RED) -> None:
    create_subscription(
        world.service, world.clock, TOPIC, name, f"queue-{name}", settings=StoredSettings(filter_policy=filter_policy)
    )


def sent(world: World, attributes: Mapping[str, str]) -> list[str]:
    """Sends a direct message and a ledger message with attributes."""
    return world.send(MINUTE, HOUR, attributes=attributes)


def test_only_what_matches_is_parked() -> None:
    world = a_world("billing")
    filtered(world)
    pause(world, "red")
    red = world.send(MINUTE, attributes={"color": "red"})
    world.send(MINUTE, attributes={"color": "blue"})
    assert [park.rows for park in parks(world)] == [1]
    resume(world, "red")
    world.work()
    assert world.received("red") == once(red)


def test_a_new_filter_counts_for_what_is_handed_out_from_then_on() -> None:
    world = a_world("billing", inline_rows=1)
    filtered(world)
    early = world.send(HOUR, HOUR + 1, HOUR + 2, attributes={"color": "red"})
    later = world.send(3 * HOUR, attributes={"color": "blue"})
    world.send(3 * HOUR, attributes={"color": "red"})
    world.dispatch_at(HOUR - 8 * MINUTE)
    blue = FilterPolicy.parse({"color": ["blue"]}).to_json()
    assert states.update_subscription(world.service, TOPIC, "red", {"filter_policy": blue}).filter_policy == blue
    world.run(4 * HOUR, sweeps=True)
    assert world.received("red") == once(early + later)
    states.update_subscription(world.service, TOPIC, "red", {"filter_policy": None})
    plain = world.send(MINUTE)
    world.work()
    assert world.received("red") == once(early + later + plain)


# --- deletion -------------------------------------------------------------------------------------------------


def work_of(world: World, name: str) -> list[int]:
    """How many deliveries and parks a subscription's generations of a name have."""
    storage = world.service
    kept = storage.deliveries.all(TOPIC), storage.parks.all(TOPIC)
    return [sum(each.key.subscription == name for each in found) for found in kept]


def with_work(world: World, *names: str) -> list[str]:
    """Gives each subscription an open delivery and a park. Returns the message ids."""
    ids = world.send(HOUR, HOUR + 1)
    world.dispatch_at(HOUR - 8 * MINUTE)
    for name in names:
        world.service.queues.remove(f"queue-{name}")
    ids += world.send(MINUTE)
    for name in names:
        world.service.queues.restore(f"queue-{name}")
        assert work_of(world, name) == [1, 1]
    return ids


def test_nothing_of_a_deleted_subscription_is_sent_from_then_on_though_it_was_handed_out() -> None:
    world = World("billing", "audit", inline_rows=1)
    ids = with_work(world, "billing", "audit")
    delete(world, "audit")
    assert (work_of(world, "audit"), work_of(world, "billing")) == ([0, 0], [1, 1])
    world.work()
    world.run(HOUR, sweeps=True)
    assert not world.received("audit")
    assert world.received("billing") == once(ids)


def test_a_deletion_takes_nothing_of_a_successor_that_has_work_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(inline_rows=1)
    ids: list[str] = []
    delete_item = world.service.subscriptions.delete

    def then_successor(state: TopicState, subscription: SubscriptionState) -> bool:
        deleted = delete_item(state, subscription)
        world.subscribe("billing")
        ids.extend(with_work(world, "billing"))
        return deleted

    monkeypatch.setattr(world.service.subscriptions, "delete", then_successor)
    delete(world)
    assert work_of(world, "billing") == [1, 1]
    world.work()
    assert world.received_after(HOUR, sweeps=True) == once(ids)


def test_of_two_deletions_the_later_does_not_take_the_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    [seen] = world.service.subscriptions.all(TOPIC)
    delete(world)
    world.subscribe("billing")
    found = [seen, *world.service.subscriptions.all(TOPIC)]  # as read before the first
    monkeypatch.setattr(world.service.subscriptions, "read", lambda topic, name: found.pop(0))
    with pytest.raises(UnknownSubscription):
        delete(world)
    [left] = world.service.subscriptions.all(TOPIC)
    assert left.generation != seen.generation


def test_collection_no_longer_waits_for_a_deleted_subscription() -> None:
    world = a_world("billing", "audit")
    world.send(HOUR)
    pause(world, "audit")
    world.run(DAY, sweeps=True)
    world.collect()
    assert world.service.objects.names(LEDGERS)
    delete(world, "audit")
    world.collect()
    assert not world.service.objects.names(LEDGERS)


def test_a_successor_of_the_same_name_gets_nothing_of_its_predecessor() -> None:
    world = a_world()
    pause(world)
    world.send(MINUTE)
    [park] = parks(world)
    delete(world)
    world.subscribe("billing")
    stored(world.service).of(TOPIC).parks[park.key] = park  # a worker put it just after the deletion had looked
    world.run(DAY, sweeps=True)
    assert not world.received() and not parks(world)


# --- orphans --------------------------------------------------------------------------------------------------


def test_the_object_of_a_park_stays_while_it_is_named_and_goes_a_day_after_a_crash() -> None:
    world = a_world()
    world.service.objects._now_ms = world.clock.now_ms
    pause(world)
    pack = world.pack(MINUTE, body=LARGE)
    for at in range(1, 40):
        world.ports.plan.schedule(at, "after")
        with pytest.raises(Crash):
            world.ingest(pack)
        world.ports.plan.disarm()
        if world.service.objects.names(PARKED):
            break
    assert not parks(world)
    world.ingest(pack)
    [park] = parks(world)
    assert len(world.service.objects.names(PARKED)) == 2
    world.clock.advance_ms(ORPHAN_GRACE_S * 1000 + 1)
    assert sweep_orphans(world.ports).objects == 1
    assert world.service.objects.names(PARKED) == [park.object_name]
