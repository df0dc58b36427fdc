"""Small worlds of deliveries and replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.actors import Fault, require, step
from tests.simulation.exploring import Scenario, scenario
from tests.simulation.healing import MINUTE, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.errors import InvalidValue, RetentionExpired, UnknownSubscription
from tidewheel.flows.administration.pause import delete_subscription
from tidewheel.flows.administration.replay import replay
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.collect import collect
from tidewheel.model import marks

_LEASE_MS = 3 * MINUTE
"""Longer than a lease."""


def _handed_out(**settings: Any) -> tuple[SmallWorld, list[Any]]:
    """Hands out a plan of two messages. Returns its parts, taken from the work queue."""
    world = SmallWorld("billing", inline_rows=1, **settings)
    world.send(a=5, b=5)
    world.at(4)
    world.want("billing", messages="ab")
    dispatch_as_function(world.service)
    return world, world.service.queues.take_jobs()


def _working(job: Any) -> Callable[[Any], object]:
    return lambda ports: do_task(ports, job)


# ---- worlds: parts
def _part_twice() -> SmallWorld:
    """SQS delivers a part twice at one time, and another part once. The parts' marks are in two items."""
    marks.TOGETHER = 1
    world, (first, second) = _handed_out(part_rows=1)
    world.act("deliver", _working(first), again=True)
    world.act("deliver again", _working(first), again=True)
    world.act("deliver the other part", _working(second), again=True)
    return world


def _dying_worker() -> SmallWorld:
    """A worker dies anywhere. Only the sweep brings the part again."""
    world, (only,) = _handed_out()
    world.act("deliver", _working(only))
    return world


@scenario("a dispatch dies", "billing", inline_rows=1, faults=(Fault.DIES,))
def DYING_DISPATCH(world: SmallWorld) -> None:
    """A dispatch dies anywhere. Only the sweep continues."""
    world.send(a=5, b=5)
    world.send(c=7)
    world.at(4)
    world.want("billing", messages="abc")
    world.act("dispatch", dispatch_as_function)


@scenario("a subscription begins later", "billing", most=0)
def LATER(world: SmallWorld) -> None:
    """A new subscription starts behind a sealed slot before the slot is planned."""
    world.send(a=5)
    world.at(4)
    world.service.topic_states.seal(world.state, world.slot_of("a") + 1)
    world.want("billing", messages="a")
    world.unwanted.add(("late", "a"))
    world.subscribe("late")
    world.act("dispatch", dispatch_as_function)


# ---- worlds: generations of a subscription


def _unsubscribed() -> SmallWorld:
    """A client deletes a subscription and dies anywhere."""
    world, _ = _handed_out()
    world.wanted.clear()
    world.act("unsubscribe", lambda ports: delete_subscription(ports, TOPIC, "billing"))
    gone: list[bool] = []
    world.looks.append(lambda: gone.append(world.service.subscriptions.read(TOPIC, "billing") is None))
    world.at_end.append(
        lambda: require(not (gone[0] and world.received("billing")), "it was deleted, and got messages")
    )
    return world


# ---- worlds: replays
def _replaying(ports: Any, world: SmallWorld, opened: list[int]) -> None:
    try:
        opened.append(replay(ports, ports.clock, TOPIC, "billing").plans)
    except (InvalidValue, RetentionExpired, UnknownSubscription):
        opened.append(0)


def _kept(*, inline_rows: int = 2000) -> tuple[SmallWorld, list[int]]:
    """A delivered plan is kept for a minute more, and comes again with each replay."""
    world = SmallWorld("billing", kept_s=120, inline_rows=inline_rows)
    world.send(a=5)
    world.at(4)
    world.dispatch()
    world.at(6)
    world.may_repeat = True
    opened: list[int] = []

    def count() -> None:
        copies = world.received("billing").count("a")
        require(copies == 1 + sum(opened), f"a came {copies} times, and was replayed {sum(opened)} times")

    world.at_end.append(count)
    return world, opened


def _replay_and_collect() -> SmallWorld:
    """A collection runs during the replay of a plan."""
    world, opened = _kept()
    world.at(8.5)

    world.act("replay", lambda ports: _replaying(ports, world, opened))
    world.act("collect", lambda ports: collect(ports, TOPIC))
    return world


@scenario("replay against a slow worker", "billing", kept_s=900, inline_rows=1)
def REPLAY_WORKER(world: SmallWorld) -> None:
    """Another worker does a slow worker's part, and a replay delivers the part, before the slow worker ends."""
    world.send(a=5, b=5)
    world.at(4)
    dispatch_as_function(world.service)
    [only] = world.service.queues.take_jobs()
    world.may_repeat = True
    opened: list[int] = []

    def later(ports: Any) -> None:
        step(ports.actor, "time.passes", lambda: world.clock.advance_ms(_LEASE_MS))
        do_task(ports, only)
        _replaying(ports, world, opened)

    world.act("deliver", _working(only), again=True)
    world.act("deliver later, and replay", later)
    sent: list[int] = []
    world.looks.append(lambda: sent.append(world.received("billing").count("a")))

    def count() -> None:
        copies = world.received("billing").count("a")
        require(copies == sent[0] + sum(opened), "a replay was taken for done, and did not come")

    world.at_end.append(count)


TWICE = Scenario(name="a part comes twice", build=_part_twice, orders=((0, 1, 2), (2, 0, 1)))
DYING = Scenario(name="a worker dies", build=_dying_worker, faults=(Fault.DIES,))
UNSUBSCRIBED = Scenario(name="unsubscribe dies", build=_unsubscribed, faults=(Fault.DIES,))
REPLAY_COLLECT = Scenario(name="replay against collect", build=_replay_and_collect)
