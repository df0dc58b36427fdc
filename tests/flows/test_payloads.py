"""Large bodies in S3 are kept for 28 days after the last delivery, then deleted."""

from __future__ import annotations

from tests.flows.alone import sweep_payloads
from tests.flows.world import DAY, HOUR, TOPIC, CrashingPorts, World, deaths
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.maintenance.collect import collect
from tidewheel.model.object_names import payload_name

MARKS = f"payloads/{TOPIC}/collected.json"


def body(world: World, due_in_ms: int, content: bytes = b"x") -> str:
    """A large body whose message is due then."""
    objects = world.service.objects
    name = payload_name(TOPIC, world.clock.now_ms() + due_in_ms, "0" * 26, objects.new_attempt())
    objects.put(name, content)
    return name


def bodies(world: World) -> list[str]:
    return [name for name in world.service.objects.names() if name.startswith("payloads/") and name != MARKS]


def days(world: World, count: int) -> None:
    """Advances by days, with a sweep of payloads each day."""
    for _ in range(count):
        world.run(DAY, sweeps=True, every_ms=6 * HOUR)
        sweep_payloads(world.ports)


def test_a_body_stays_for_28_days_after_its_message_was_handed_out() -> None:
    world = World()
    name = body(world, 3 * DAY)
    world.send(3 * DAY)
    days(world, 3 + 27)
    assert bodies(world) == [name]
    days(world, 3)
    assert bodies(world) == []
    assert MARKS not in world.service.objects.names()


def test_a_body_whose_message_is_overdue_and_not_planned_stays() -> None:
    world = World()
    name = body(world, 3 * DAY)
    world.send(3 * DAY)
    for _ in range(60):
        world.clock.advance_ms(DAY)
        sweep_payloads(world.ports)
    assert bodies(world) == [name]


def test_a_body_waits_for_a_paused_subscription_and_28_days_more() -> None:
    world = World("billing", "audit")
    pause(world.service, TOPIC, "audit")
    name = body(world, 2 * DAY)
    world.send(2 * DAY)
    days(world, 60)
    assert bodies(world) == [name]
    resume(world.service, world.service.queues, world.clock, TOPIC, "audit")
    world.work()
    days(world, 27)
    assert bodies(world) == [name]
    days(world, 4)
    assert bodies(world) == []


def test_a_body_whose_message_was_parked_late_stays_28_days_after_its_drain() -> None:
    world = World()
    name = body(world, 1000)
    pack = world.pack(1000)
    days(world, 13)  # the ingest queue has the message until its day is handed out
    pause(world.service, TOPIC, "billing")
    world.ingest(pack)
    days(world, 40)
    assert bodies(world) == [name]
    resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
    world.work()
    days(world, 27)
    assert bodies(world) == [name]
    days(world, 4)
    assert bodies(world) == []


def test_a_body_whose_message_is_due_late_on_a_day_is_not_taken_for_one_of_its_morning() -> None:
    world = World()
    name = body(world, DAY + 20 * HOUR)
    world.send(DAY + 20 * HOUR)
    world.run(HOUR, sweeps=True)
    days(world, 1 + 28)  # the mark of the second day's first hour is 28 days old: the message came after it
    assert bodies(world) == [name]
    days(world, 3)
    assert bodies(world) == []


def test_a_body_of_a_topic_that_is_no_more_stays_28_days_after_the_end_of_its_day() -> None:
    world = World()
    name = body(world, DAY + 20 * HOUR)
    world.service.topic_states.delete(TOPIC)
    world.clock.advance_ms(2 * DAY + 28 * DAY)
    assert sweep_payloads(world.ports) == 0
    assert bodies(world) == [name]
    world.clock.advance_ms(1)
    assert sweep_payloads(world.ports) == 1


def test_bodies_of_an_idle_topic_go_too() -> None:
    world = World()
    body(world, 1000)
    world.send(1000)  # goes direct: no mark of the topic moves
    days(world, 31)
    assert bodies(world) == []


def test_what_is_not_a_body_and_a_damaged_record_harm_nothing() -> None:
    world = World()
    world.service.objects.put(f"payloads/{TOPIC}/notes.txt", b"?")
    world.service.objects.put(MARKS, b"{not json")
    name = body(world, DAY)
    days(world, 2)
    assert name in bodies(world)
    days(world, 31)
    assert bodies(world) == [f"payloads/{TOPIC}/notes.txt"]


def test_a_sweep_that_dies_anywhere_deletes_nothing_too_early_and_the_next_goes_on() -> None:
    for death in deaths(least=4):
        world = World(wrap=CrashingPorts)
        body(world, DAY)
        kept = body(world, 60 * DAY)
        world.send(DAY, 60 * DAY)
        days(world, 31)
        collect(world.ports, TOPIC)
        with death.of(world):
            sweep_payloads(world.ports)
        assert kept in bodies(world)
        days(world, 1)
        assert bodies(world) == [kept]
