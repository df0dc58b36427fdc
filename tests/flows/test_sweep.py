"""A sweep ends in time and starts with late work. No kind of work, topic or subscription takes all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World
from tests.stored import stored
from tidewheel.flows.administration.delete_topic import delete_topic
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.delivery.commit import schedule_again
from tidewheel.flows.maintenance import sweep as module
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.consider_merge import consider_merge
from tidewheel.flows.maintenance.due_checks import MOST_PARKS, by_owner, in_turn
from tidewheel.flows.maintenance.sweep import SHARES_S, SWEEP_MS, sweep
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery, DeliveryKey
from tidewheel.model.task import CatchUpTask, DrainTask
from tidewheel.storage.topic_states import AT_ONCE_MS


def topics_in_need(world: World, *names: str) -> None:
    """Creates topics with lost first dispatches, each two slots after the previous topic."""
    for name in names:
        create_topic(world.service, world.clock, name, TopicSettings())
        create_subscription(world.service, world.clock, name, "s", f"queue-{name}")
        schedule_again(world.ports, name)  # as the first sweep does
        world.clock.advance_ms(10 * MINUTE)


def slow(world: World, port: Any, method: str, patch: pytest.MonkeyPatch, takes_ms: int) -> list[Any]:
    """Slows down a method by the given time. Returns a growing list with the calls' first arguments."""
    calls: list[Any] = []
    original: Callable[..., Any] = getattr(port, method)

    def taking(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0] if args else None)
        world.clock.advance_ms(takes_ms)
        return original(*args, **kwargs)

    patch.setattr(port, method, taking)
    return calls


def test_a_sweep_starts_overdue_dispatches_until_its_time_for_them_is_over_the_longest_overdue_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "d", "b", "c", "a", "e")
    world.clock.advance_ms(HOUR)
    with monkeypatch.context() as patch:
        slow(world, world.service.runs, "dispatch", patch, SHARES_S["dispatches"] * 1000 // 3)
        first = sweep(world.ports)
    assert first.dispatched == world.service.runs.dispatches == ["d", "b", "c"]
    world.dispatch_started()
    second = sweep(world.ports)
    assert (second.dispatched, second.left) == (["a", "e"], 0)


def test_a_slow_read_of_the_index_takes_no_time_of_the_dispatches(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "a", "b")
    world.clock.advance_ms(HOUR)
    slow(world, world.service.checks, "due", monkeypatch, (SHARES_S["dispatches"] + 5) * 1000)
    assert sweep(world.ports).dispatched == ["a", "b"]


@pytest.mark.parametrize("count", [1200])
def test_thousands_of_late_topics_are_dispatched_by_one_sweep_though_each_request_takes_its_time(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(subscribe=False)
    topics_in_need(world, "first")
    state = stored(world.service).of("first").state
    assert state is not None
    for number in range(1, count):
        stored(world.service).of(f"topic-{number}").state = replace(state, topic=f"topic-{number}")
    world.clock.advance_ms(HOUR)
    slow(world, world.service.topic_states, "read", monkeypatch, 3)  # 24 ms, eight at a time
    slow(world, world.service.runs, "dispatch", monkeypatch, 9)  # 72 ms
    assert len(sweep(world.ports).dispatched) == count


def test_a_topic_without_a_schedule_is_dispatched_in_its_turn() -> None:
    world = World(subscribe=False)
    topics_in_need(world, "a", "b")
    items = stored(world.service).of("b")
    assert items.state is not None
    items.state = replace(items.state, next_check_ms=AT_ONCE_MS)
    world.clock.advance_ms(HOUR)
    assert sweep(world.ports).dispatched == ["a", "b"]


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
    assert len(asked) == 5
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


def test_each_kind_of_work_has_its_share_of_a_sweep_however_slow_the_kinds_before_it_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(subscribe=False)
    topics_in_need(world, *"abcdef")
    world.clock.advance_ms(HOUR)
    dispatches = slow(world, world.service.runs, "dispatch", monkeypatch, SHARES_S["dispatches"] * 250)
    collections = slow(world, module, "check_topic", monkeypatch, 20_000)
    daily = slow(world, module, "sweep_orphans_daily", monkeypatch, SWEEP_MS)
    told: list[object] = []
    first = sweep(world.ports, lambda *health: told.append(health))
    assert first.dispatched == dispatches == list("abcd")
    assert len(told) == 1 and len(collections) == 4 and len(daily) == 1
    assert first.left == len("ef") + len("ef") + len(("payloads",))
    world.dispatch_started()
    assert sweep(world.ports).dispatched == list("ef")


def many_parks(world: World, name: str, count: int, *, topic: str = TOPIC) -> None:
    """Gives a subscription many due parks without messages."""
    subscription = world.service.subscriptions.read(topic, name)
    assert subscription is not None
    parks = stored(world.service).of(topic).parks
    for number in range(count):
        key = ParkKey(topic=topic, subscription=name, generation=subscription.generation, id=f"{number:06d}")
        parks[key] = Park(key=key, rows=1, size_bytes=6, next_check_ms=1, ledger=b"ledger")


@pytest.mark.parametrize(
    "state", [*(pytest.param(each, marks=pytest.mark.long) for each in ("paused", "active")), "broken"]
)
def test_a_backlog_of_parks_takes_few_requests_of_a_sweep_and_its_other_work_is_done(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World("billing", "audit")
    world.send(MINUTE)
    if state == "paused":
        pause(world.service, TOPIC, "audit")
    if state == "broken":
        world.clock.advance_ms(3 * MINUTE)  # new subscriptions are not marked
        world.service.queues.remove("queue-audit")
        world.send(MINUTE)
    for name in ("billing", "audit"):
        many_parks(world, name, 10 if name == "billing" else 12_000)
    world.service.queues.take_jobs()
    world.clock.advance_ms(HOUR)
    reads = slow(world, world.service.parks, "read", monkeypatch, 1)
    daily = slow(world, module, "sweep_orphans_daily", monkeypatch, 0)
    swept = sweep(world.ports)
    assert not swept.failures and swept.left == 0 and len(daily) == 1
    assert len(set(reads)) <= MOST_PARKS + 10
    jobs = world.service.queues.take_jobs()
    assert sum(isinstance(job, DrainTask) and job.key.subscription == "billing" for job in jobs) == 10
    tried = sum(isinstance(job, DrainTask) and job.key.subscription == "audit" for job in jobs)
    assert tried == {"paused": 0, "broken": 3, "active": MOST_PARKS}[state]
    assert sum(isinstance(job, CatchUpTask) for job in jobs) == (state == "active")


def test_the_parks_of_a_resumed_subscription_whose_job_was_lost_are_all_drained_by_the_next_sweep() -> None:
    world = World()
    pause(world.service, TOPIC, "billing")
    ids = [id for _ in range(3 * MOST_PARKS) for id in world.send(MINUTE)]
    world.clock.advance_ms(HOUR)
    world.sweep()
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    assert world.service.queues.take_jobs()  # the job is lost
    world.clock.advance_ms(5 * MINUTE)
    world.sweep()
    assert world.received() == Counter(ids)


def test_topics_take_turns_in_a_sweep_and_so_do_the_subscriptions_of_a_topic() -> None:
    def keys(topic: str, name: str, count: int) -> list[ParkKey]:
        return [ParkKey(topic=topic, subscription=name, generation="g", id=f"{n}") for n in range(count)]

    flood = [*keys("a", "x", 50), *keys("a", "y", 2), *keys("b", "x", 1), *keys("c", "z", 2)]
    turns = [(key.topic, key.subscription, key.id) for key in in_turn(flood)]
    assert turns[:3] == [("a", "x", "0"), ("b", "x", "0"), ("c", "z", "0")]
    assert turns[3:6] == [("a", "y", "0"), ("c", "z", "1"), ("a", "x", "1")]
    assert turns[6:] == [("a", "y", "1"), *(("a", "x", f"{n}") for n in range(2, 50))]
    assert [(group[0].topic, len(group)) for group in by_owner(flood)] == [("a", 50), ("b", 1), ("c", 2), ("a", 2)]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))))
def test_turns_keep_every_key_and_the_order_of_each_owner(owners: list[tuple[str, str]]) -> None:
    keys = [ParkKey(topic=t, subscription=s, generation="g", id=f"{n}") for n, (t, s) in enumerate(owners)]
    turns = in_turn(keys)
    assert sorted(turns, key=keys.index) == keys
    for owner in {key.owner for key in keys}:
        assert [key for key in turns if key.owner == owner] == [key for key in keys if key.owner == owner]


def test_the_deliveries_of_one_topic_keep_no_other_topics_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    topics_in_need(world, "other")
    for topic, name, count in ((TOPIC, "billing", 8_000), ("other", "s", 2)):
        subscription = world.service.subscriptions.read(topic, name)
        assert subscription is not None
        for number in range(count):
            key = DeliveryKey(topic=topic, subscription=name, generation=subscription.generation, plan=number)
            stored(world.service).of(topic).deliveries[key] = Delivery(
                key=key, queue_url="q", parts=1, start=0, next_check_ms=number
            )
    world.clock.advance_ms(HOUR)
    checked = slow(world, world.service.deliveries, "read", monkeypatch, 1000)
    daily = slow(world, module, "sweep_orphans_daily", monkeypatch, 0)
    sweep(world.ports)
    assert len({key for key in checked if key.topic == "other"}) == 2 and len(daily) == 1


def test_the_shares_of_the_kinds_are_a_sweeps_time() -> None:
    assert sum(SHARES_S.values()) * 1000 == SWEEP_MS


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


@pytest.mark.parametrize(
    "change",
    [
        lambda world: update_topic(world.service, world.clock, TOPIC, {"retention_days": 1}),
        lambda world: purge(world.service, world.clock, TOPIC, first_ms=0, end_ms=START_MS + 40 * DAY),
        lambda world: collect(world.ports, TOPIC),
        lambda world: consider_merge(world.ports, world.state),
        lambda world: [world.send(31 * DAY) for _ in range(40)],
    ],
    ids=["retention", "purge", "collect", "merge", "many ledgers"],
)
def test_a_change_of_the_next_check_keeps_that_a_schedule_is_missing(change: Callable[[World], Any]) -> None:
    world = World(retention_days=2)
    world.send(30 * DAY)
    items = stored(world.service).of(TOPIC)
    items.state = replace(world.state, next_check_ms=AT_ONCE_MS, collect_at_ms=None)
    change(world)
    assert world.state.next_check_ms == AT_ONCE_MS
    world.service.wheel.schedules.clear()
    world.sweep()
    assert world.state.next_check_ms != AT_ONCE_MS
