"""Small worlds of paused subscriptions and refusing queues."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.flows.alone import sweep_orphans
from tests.simulation.actors import Fault, require, step
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.healing import DAY, MINUTE, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tests.stored_ports import TABLE_CALLS
from tidewheel.flows.administration.pause import activate, pause, resume
from tidewheel.flows.administration.purge import purge
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.collect import collect
from tidewheel.model.subscription_state import State
from tidewheel.model.task import DrainTask

_LARGE = {name: (4, {"body": Random(name).randbytes(180_000)}) for name in "ab"}
"""Messages that make a park which is an object: they do not compress."""
_SENDS = (*TABLE_CALLS, "time.", "queues.send")


def _state(world: SmallWorld, name: str = "billing") -> State:
    found = world.service.subscriptions.read(TOPIC, name)
    assert found is not None
    return State(found.state)


def _nothing_while_paused(world: SmallWorld, *names: str) -> None:
    """Checks that some messages do not reach a paused subscription."""

    def look() -> None:
        came = [name for name in names if name in world.received("billing")]
        require(not came or _state(world) is not State.PAUSED, f"{', '.join(came)} came to billing, which is paused")

    world.looks.append(look)


def _ingesting(batch: Any) -> Callable[[Any], object]:
    return lambda ports: ingest(ports, TOPIC, [batch])


def _resuming(ports: Any) -> None:
    resume(ports, ports.queues, ports.clock, TOPIC, "billing")


# ---- worlds: pauses
@scenario("one is paused", "billing", "audit")
def PAUSED(world: SmallWorld) -> None:
    """A plan and a direct message come for a paused subscription."""
    pause(world.service, TOPIC, "billing")
    world.send(a=5)
    world.at(4)
    batch = world.pack(b=4, c=4)
    world.want("billing", "audit", messages="abc")
    world.act("dispatch", dispatch_as_function)
    world.act("ingest", _ingesting(batch), again=True)
    _nothing_while_paused(world, "a", "b", "c")


@scenario("pause against dispatch", "billing")
def PAUSED_MEANWHILE(world: SmallWorld) -> None:
    """A subscription is paused, and later a slot is planned, while an older dispatch hands out."""
    world.send(b=7)
    world.at(4)
    world.dispatch()
    world.want("billing", messages="b")

    def pause_and_dispatch(ports: Any) -> None:
        pause(ports, TOPIC, "billing")
        step(ports.actor, "time.passes", lambda: world.at(6))
        dispatch_as_function(ports)

    world.act("dispatch", dispatch_as_function)
    world.act("pause, and a later dispatch", pause_and_dispatch)
    _nothing_while_paused(world, "b")


@scenario("two resumes against dispatch", "billing", "audit")
def TWO_RESUMED(world: SmallWorld) -> None:
    """Two clients resume subscriptions and die, while a dispatch raises the next slot."""
    for name in ("billing", "audit"):
        pause(world.service, TOPIC, name)
    world.send(a=5)
    world.at(4)
    world.dispatch()
    world.want("billing", "audit", messages="a")

    def resumed(name: str) -> Callable[[Any], object]:
        return lambda ports: activate(ports, ports.subscriptions.read(TOPIC, name))

    world.act("resume", resumed("billing"))
    world.act("another resume", resumed("audit"))
    world.act("dispatch", dispatch_as_function)


# ---- worlds: parks
def _parked(*, large: bool = False) -> SmallWorld:
    """Direct messages are parked for a paused subscription."""
    world = SmallWorld("billing")
    pause(world.service, TOPIC, "billing")
    world.at(4)
    batch = world.pack(**_LARGE) if large else world.pack(a=4, b=4)
    ingest(world.service, TOPIC, [batch])
    world.want("billing", messages="ab")
    return world


def _drain_dies() -> SmallWorld:
    """A worker drains a large park and dies anywhere."""
    world = _parked(large=True)
    [park] = world.service.parks.all(TOPIC)
    require(park.object_name is not None, "arranging: the park is small")
    activate(world.service, world.service.subscriptions.read(TOPIC, "billing"))
    world.act("drain", lambda ports: do_task(ports, DrainTask(key=park.key)))
    return world


def _paused_again() -> SmallWorld:
    """A subscription is resumed, and paused again before its parks are drained."""
    world = _parked()
    [park] = world.service.parks.all(TOPIC)
    world.act("drain", lambda ports: do_task(ports, DrainTask(key=park.key)), again=True)
    _nothing_while_paused(world, "a", "b")
    return world


def _parked_and_purged() -> SmallWorld:
    """A topic with a paused subscription and parked messages is purged."""
    world = _parked()
    world.wanted.clear()
    purge(world.service, world.clock, TOPIC)
    world.unwanted |= {("billing", "a"), ("billing", "b")}
    world.act("resume", _resuming)
    return world


def _parked_long() -> SmallWorld:
    """A large park waits for more than a day, and orphans are swept."""
    world = _parked(large=True)
    world.clock.advance_ms(DAY + MINUTE)
    world.act("sweep of orphans", sweep_orphans)
    return world


@scenario("a parked batch comes twice", "billing", faults=(Fault.TWICE,))
def PARKING(world: SmallWorld) -> None:
    """A batch with large direct messages comes twice at once, and calls are repeated."""
    pause(world.service, TOPIC, "billing")
    world.at(4)
    batch = world.pack(**_LARGE)
    world.want("billing", messages="ab")
    world.act("ingest", _ingesting(batch), again=True)
    world.act("ingest again", _ingesting(batch), again=True)

    def look() -> None:
        parked = len(world.service.objects.names("parked/"))
        require(parked == 1, f"one park, and {parked} objects for it")

    world.looks.append(look)


# ---- worlds: queues that do not take messages
def _refusing(parts: int = 1) -> tuple[SmallWorld, list[Any]]:
    """A plan is handed out, for the work queue, and the subscription's queue is gone."""
    world = SmallWorld("billing", inline_rows=1, part_rows=2 // parts)
    world.send(a=5, b=5)
    world.at(4)
    world.want("billing", messages="ab")
    dispatch_as_function(world.service)
    world.service.queues.remove("queue-billing")
    return world, world.service.queues.take_jobs()


def _refused_and_paused() -> SmallWorld:
    """A queue refuses a part, while its subscription is paused."""
    world, (only,) = _refusing()
    paused: list[bool] = []

    def pauses(ports: Any) -> None:
        pause(ports, TOPIC, "billing")
        paused.append(True)

    world.act("deliver", lambda ports: do_task(ports, only), again=True)
    world.act("pause", pauses)
    world.looks.append(lambda: require(_state(world) is State.PAUSED, "a queue that refuses has ended a pause"))
    return world


def _broken_and_collected() -> SmallWorld:
    """A queue stays gone while its topic works and is collected."""
    world, (only,) = _refusing()
    do_task(world.service, only)
    world.send(c=6, d=6)
    world.at(5)
    world.want("billing", messages="cd")

    def goes_on(ports: Any) -> None:
        dispatch_as_function(ports)
        for job in world.service.queues.take_jobs():
            do_task(ports, job)
        collect(ports, TOPIC)

    world.act("dispatch, deliver and collect", goes_on)
    world.looks.append(
        lambda: require(
            not world.service.objects.names("ledgers/"), "a broken queue keeps ledgers from being collected"
        )
    )
    return world


def _queue_goes(world: SmallWorld, ports: Any) -> None:
    step(ports.actor, "time.passes", lambda: world.service.queues.remove("queue-billing"))


def _many(prefix: str = "m") -> dict[str, float]:
    """Returns messages that fill two batches of a queue."""
    return {f"{prefix}{number}": 5 + number / 1000 for number in range(11)}


@scenario("a queue goes in a delivery", "billing", inline_rows=1, points=_SENDS)
def GOES_IN_DELIVERY(world: SmallWorld) -> None:
    """A queue goes away between two batches of a part."""
    world.send(**_many())
    world.at(4)
    world.want("billing", messages=_many())
    dispatch_as_function(world.service)
    [only] = world.service.queues.take_jobs()
    world.act("deliver", lambda ports: do_task(ports, only), again=True)
    world.act("the queue goes", lambda ports: _queue_goes(world, ports))


@scenario("a queue goes in an ingest", "billing", points=_SENDS)
def GOES_IN_DIRECT(world: SmallWorld) -> None:
    """A queue goes away between two batches of direct messages."""
    world.at(4)
    batch = world.pack(**{name: slot - 1 for name, slot in _many().items()})
    world.want("billing", messages=_many())
    world.act("ingest", _ingesting(batch), again=True)
    world.act("the queue goes", lambda ports: _queue_goes(world, ports))


@scenario("a queue goes in a drain", "billing", points=_SENDS)
def GOES_IN_DRAIN(world: SmallWorld) -> None:
    """A queue goes away between two batches of a park."""
    pause(world.service, TOPIC, "billing")
    world.at(4)
    ingest(world.service, TOPIC, [world.pack(**{name: slot - 1 for name, slot in _many().items()})])
    world.want("billing", messages=_many())
    [park] = world.service.parks.all(TOPIC)
    activate(world.service, world.service.subscriptions.read(TOPIC, "billing"))
    world.act("drain", lambda ports: do_task(ports, DrainTask(key=park.key)), again=True)
    world.act("the queue goes", lambda ports: _queue_goes(world, ports))


DRAIN_DIES = Scenario(name="a drain dies", build=_drain_dies, faults=(Fault.DIES,))
PAUSED_AGAIN = Scenario(name="drain of what is paused again", build=_paused_again, most=0)
PARKED_PURGED = Scenario(name="purge of what is parked", build=_parked_and_purged, most=0)
PARKED_LONG = Scenario(name="orphans beside a park", build=_parked_long, most=0)
REFUSED_PAUSED = Scenario(name="a refused part against pause", build=_refused_and_paused)
BROKEN_COLLECTED = Scenario(name="collect beside a broken queue", build=_broken_and_collected, most=0)
