"""Health reports late work with the delay, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.flows.test_tails import shrunk
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World, failing_reads
from tests.stored_ports import TABLE_PORTS
from tidewheel.errors import CorruptMetadata, ObjectRefused
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance import health as module
from tidewheel.flows.maintenance.health import Health, health
from tidewheel.memory import MemoryService

QUIET = Health()


class Counted:
    """Ports that count the calls of the table's ports by name, without access to objects."""

    def __init__(self, service: MemoryService) -> None:
        self.calls: Counter[str] = Counter()
        self.clock = service.clock
        for name in TABLE_PORTS:
            setattr(self, name, _CountedPort(name, getattr(service, name), self.calls))


class _CountedPort:
    def __init__(self, name: str, port: Any, calls: Counter[str]) -> None:
        self._name, self._port, self._calls = name, port, calls

    def __getattr__(self, name: str) -> Any:
        self._calls[f"{self._name}.{name}"] += 1
        return getattr(self._port, name)


def look(world: World) -> Health:
    """Looks at a time at which the backlog is not counted."""
    return replace(health(world.ports), backlog=None)


def test_a_service_that_is_in_time_is_quiet_whatever_waits() -> None:
    world = World()
    world.send(5 * MINUTE, 2 * HOUR, 3 * DAY)
    for _ in range(48):
        world.run(10 * MINUTE, sweeps=True)
        assert look(world) == QUIET


def test_a_lost_schedule_that_the_sweep_heals_in_time_was_never_late() -> None:
    world = World()
    world.send(2 * HOUR)
    seen = []
    for _ in range(36):
        world.run(5 * MINUTE, schedules=False)
        seen.append(look(world))
        world.sweep()
    assert seen == [QUIET] * 36
    world.assert_in_time()


def test_a_message_that_no_dispatch_delivers_grows_old() -> None:
    world = World()
    world.send(2 * HOUR)
    world.run(2 * HOUR, schedules=False)
    assert look(world) == QUIET
    world.run(30 * MINUTE, schedules=False)
    assert look(world) == Health(late_ms={TOPIC: 30 * MINUTE})
    world.run(30 * MINUTE, schedules=False)
    assert look(world) == Health(late_ms={TOPIC: HOUR})
    world.sweep()
    assert look(world) == QUIET


def test_slots_that_were_sealed_and_never_planned_are_counted() -> None:
    world = World()
    due_slot = (START_MS + 2 * HOUR) // world.state.slot_ms
    world.send(2 * HOUR)
    world.run(2 * HOUR + MINUTE, schedules=False)
    world.service.topic_states.seal(world.state, due_slot + 3)
    assert look(world) == Health(unplanned_slots=3, late_ms={TOPIC: MINUTE})
    dispatch(world.ports, TOPIC)
    assert look(world) == QUIET


def test_what_was_sent_directly_leaves_no_unplanned_slots() -> None:
    world = World()
    world.send(MINUTE)
    world.run(HOUR)
    assert world.state.planned < world.state.sealed
    assert look(world) == QUIET


def test_a_delivery_that_stays_open_is_counted_with_the_age_of_its_first_message() -> None:
    world = World(inline_rows=1, part_rows=1)
    # Long after the last plan: the plan's range begins then, its messages do not.
    world.run(DAY)
    world.send(2 * HOUR, 2 * HOUR + MINUTE)
    world.work = lambda: None  # type: ignore[method-assign]
    world.run(2 * HOUR)
    assert look(world) == QUIET
    world.run(40 * MINUTE)
    found = look(world)
    assert found == Health(open_deliveries=1, late_ms=found.late_ms)
    assert 40 * MINUTE <= found.oldest_due_age_ms <= 45 * MINUTE


@pytest.mark.parametrize(("error", "late"), [(TimeoutError(), True), (ObjectRefused("a ledger", "denied"), False)])
def test_trouble_of_s3_makes_messages_late_and_what_is_lost_is_told_as_damage(error: Exception, late: bool) -> None:
    world = World(inline_rows=1)
    world.send(HOUR, HOUR + 1)
    with failing_reads(world, dict.fromkeys(world.service.objects.names("ledgers/"), error)):
        world.run(2 * HOUR, sweeps=True)
    world.clock.set_ms(world.service.deliveries.all(TOPIC)[0].next_check_ms)
    found = look(world)
    assert (found.open_deliveries, found.oldest_due_age_ms >= HOUR) == (int(late), late)


def test_parts_that_are_done_make_an_open_delivery_no_older() -> None:
    world = World(inline_rows=1, part_rows=1)
    world.send(2 * HOUR, 2 * HOUR + 4 * MINUTE)
    world.work = lambda: None  # type: ignore[method-assign]
    world.run(3 * HOUR)
    [delivery] = world.service.deliveries.all(TOPIC)
    before = look(world).oldest_due_age_ms
    world.service.deliveries.part_done(delivery.key, 0)
    assert look(world).open_deliveries == 1
    assert look(world).oldest_due_age_ms <= before


def test_what_waits_for_a_paused_subscription_is_not_late() -> None:
    world = World()
    pause(world.service, TOPIC, "billing")
    world.send(2 * HOUR)
    world.run(DAY, sweeps=True)
    assert look(world) == QUIET


def test_a_resumed_subscription_is_late_only_until_it_was_handed_what_it_missed() -> None:
    world = World()
    world.send(2 * HOUR)
    pause(world.service, TOPIC, "billing")
    world.run(DAY, sweeps=True)
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.clock.advance_ms(2 * MINUTE)
    late = look(world).oldest_due_age_ms
    assert 22 * HOUR <= late <= 22 * HOUR + 10 * MINUTE
    world.work()
    assert look(world) == QUIET


def test_the_backlog_is_counted_once_an_hour() -> None:
    world = World()
    world.send(2 * HOUR, DAY, 3 * DAY)
    counted = []
    for _ in range(12):
        world.run(5 * MINUTE)
        counted.append(health(world.ports).backlog)
    assert sorted(counted, key=str) == [3] + [None] * 11


def test_the_backlog_of_too_many_topics_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOPICS", 0)
    world = World()
    world.send(DAY)
    assert health(world.ports).backlog is None


def test_a_topic_that_cannot_be_read_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.send(HOUR)
    world.run(2 * HOUR, schedules=False)
    error = CorruptMetadata("broken")

    def due(now_ms: int) -> Any:
        found = type(world.service.checks).due(world.service.checks, now_ms)
        return found._replace(topics=["broken", *found.topics])

    def state(topic: str) -> Any:
        if topic == "broken":
            raise error
        return type(world.service.topic_states).read(world.service.topic_states, topic)

    monkeypatch.setattr(world.service.checks, "due", due)
    monkeypatch.setattr(world.service.topic_states, "read", state)
    monkeypatch.setattr(module, "_BACKLOG_MS", 0)
    found = health(world.ports)
    assert found.failures == {"broken": error}
    assert found.oldest_due_age_ms == HOUR


def test_a_quiet_service_costs_one_look_at_the_index_and_no_writes() -> None:
    world = World()
    world.send(DAY)
    world.run(HOUR + 10 * MINUTE, sweeps=True)
    ports = Counted(world.service)
    assert health(ports) == QUIET  # type: ignore[arg-type]
    assert ports.calls == {"checks.due": 1}


def test_a_new_subscription_of_an_empty_topic_is_not_late() -> None:
    world = World()
    world.run(4 * MINUTE)
    assert world.state.next_slot is not None
    assert look(world) == QUIET


def seen_without_objects(world: World) -> Health:
    """Looks with no access to objects at all."""
    found = replace(health(Counted(world.service)), backlog=None)  # type: ignore[arg-type]
    assert found.failures == {}
    return found


@pytest.mark.parametrize("shift", [0, 1, 4, 12])
def test_of_a_ledger_with_a_coarse_bitmap_the_age_is_at_least_the_true_one_and_no_ledger_is_read(shift: int) -> None:
    world = World()
    world.send(2 * HOUR, 5 * HOUR, DAY)
    shrunk(world, shift=shift)
    dispatch(world.ports, TOPIC)
    world.run(2 * HOUR, schedules=False)
    assert seen_without_objects(world) == QUIET
    world.run(30 * MINUTE, schedules=False)
    assert seen_without_objects(world) == Health(late_ms={TOPIC: 30 * MINUTE})
    dispatch(world.ports, TOPIC)
    assert seen_without_objects(world) == QUIET
    world.run(4 * HOUR, schedules=False)
    assert seen_without_objects(world).oldest_due_age_ms >= HOUR + 30 * MINUTE


def test_of_a_plan_without_its_manifest_the_age_is_that_of_its_first_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(inline_rows=1, part_rows=1)
    world.send(2 * HOUR, 2 * HOUR + MINUTE)
    world.work = lambda: None  # type: ignore[method-assign]
    storage = world.service
    world.run(2 * HOUR + 40 * MINUTE)
    exact = look(world)
    plan = type(storage.plans).read

    def without_segments(topic: str, a: int, *, whole: bool = True) -> Any:
        found = plan(storage.plans, topic, a)
        return found if whole or found is None else replace(found, segments=())

    monkeypatch.setattr(storage.plans, "read", without_segments)
    bound = seen_without_objects(world)
    assert bound.open_deliveries == exact.open_deliveries == 1
    [delivery] = storage.deliveries.all(TOPIC)
    assert bound.oldest_due_age_ms == world.clock.now_ms() - delivery.key.plan * world.state.slot_ms
    assert bound.oldest_due_age_ms >= exact.oldest_due_age_ms > 0


def test_an_overdue_topic_costs_two_reads_more() -> None:
    world = World()
    world.send(HOUR)
    world.run(2 * HOUR + 10 * MINUTE, schedules=False)
    ports = Counted(world.service)
    assert health(ports).oldest_due_age_ms > 0  # type: ignore[arg-type]
    assert ports.calls == {"checks.due": 1, "topic_states.read": 1, "buckets.in_order": 1}
