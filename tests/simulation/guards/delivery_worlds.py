"""Small worlds of deliveries and replays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.simulation.actors import Fault, require, step
from tests.simulation.exploring import Scenario
from tests.simulation.healing import MINUTE, TOPIC, dispatch_as_function
from tests.simulation.small_world import SmallWorld
from tidewheel.errors import InvalidValue, RetentionExpired, UnknownSubscription
from tidewheel.flows.administration.pause import delete_subscription, pause
from tidewheel.flows.administration.replay import replay
from tidewheel.flows.administration.subscribe import create_subscription
from tidewheel.flows.delivery.work import do_job
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.model.job import PartJob
from tidewheel.model.subscription_state import SubscriptionState

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
    return lambda ports: do_job(ports, job)


# ---- worlds: parts
def _part_twice() -> SmallWorld:
    """SQS delivers a part twice at one time, and another part once."""
    world, (first, second) = _handed_out(part_rows=1)
    world.act("deliver", _working(first), again=True)
    world.act("deliver again", _working(first), again=True)
    world.act("deliver the other part", _working(second), again=True)
    return world


def _slow_worker() -> SmallWorld:
    """A worker outlives its lease, and another worker does the same part."""
    world, (only,) = _handed_out()
    world.may_repeat = True

    def later(ports: Any) -> None:
        step(ports.actor, "time.passes", lambda: world.clock.advance_ms(_LEASE_MS))
        do_job(ports, only)

    world.act("deliver", _working(only), again=True)
    world.act("deliver later", later, again=True)
    return world


def _dying_worker() -> SmallWorld:
    """A worker dies anywhere. Only the sweep brings the part again."""
    world, (only,) = _handed_out()
    world.act("deliver", _working(only))
    return world


def _dying_dispatch() -> SmallWorld:
    """A dispatch dies anywhere. Only the sweep continues."""
    world = SmallWorld("billing", inline_rows=1)
    world.send(a=5, b=5)
    world.send(c=7)
    world.at(4)
    world.want("billing", messages="abc")
    world.act("dispatch", dispatch_as_function)
    return world


def _two_sweeps() -> SmallWorld:
    """Two sweeps find the same old delivery."""
    world, _ = _handed_out()
    world.clock.advance_ms(20 * MINUTE)
    world.act("sweep", sweep)
    world.act("another sweep", sweep)

    def look() -> None:
        parts = [job for job in world.service.queues.jobs if isinstance(job, PartJob)]
        require(len(parts) == 1, f"one part was enqueued {len(parts)} times")

    world.looks.append(look)
    return world


def _began_later() -> SmallWorld:
    """A new subscription starts behind a sealed slot before the slot is planned."""
    world = SmallWorld("billing")
    world.send(a=5)
    world.at(4)
    world.service.topic_states.seal(world.state, world.slot_of("a") + 1)
    world.want("billing", messages="a")
    world.unwanted.add(("late", "a"))
    world.subscribe("late")
    world.act("dispatch", dispatch_as_function)
    return world


# ---- worlds: generations of a subscription
def _again(ports: Any, position: Any = "earliest", queue: str = "queue-billing") -> None:
    """Deletes a subscription and creates a new subscription with the same name."""
    delete_subscription(ports, TOPIC, "billing")
    create_subscription(ports, ports.clock, TOPIC, "billing", queue, position)


def _recreated_and_handed_out() -> SmallWorld:
    """A subscription is deleted and created again during the hand-out of a plan."""
    world = SmallWorld("billing")
    collect(world.service, TOPIC)
    world.send(a=5)
    world.at(4)
    world.plan_only()
    world.want("new", messages="a")
    world.act("dispatch", dispatch_as_function)
    world.act("subscribe again", lambda ports: _again(ports, queue="queue-new"))
    return world


def _recreated_and_changed(change: Callable[[Any], SubscriptionState | None]) -> SmallWorld:
    world = SmallWorld("billing")
    world.send(a=5)
    world.want("billing", messages="a")
    meant: list[str] = []

    def changing(ports: Any) -> None:
        found = change(ports)
        if found is not None:
            meant.append(found.generation)

    world.act("change", changing)
    world.act("subscribe again", _again)

    def look() -> None:
        now = world.service.subscriptions.read(TOPIC, "billing")
        require(now is not None, "the new subscription is gone")
        changed = now.state != "ACTIVE"
        require(
            not changed or now.generation in meant, "the new subscription was changed by what was meant for the old"
        )

    world.looks.append(look)
    return world


def _paused_old(ports: Any) -> SubscriptionState | None:
    try:
        return pause(ports, TOPIC, "billing")
    except UnknownSubscription:
        return None


def _broken_old() -> SmallWorld:
    """The queue of a subscription refuses a part, and the subscription is deleted and created again."""
    world, (only,) = _handed_out()
    world.service.queues.remove("queue-billing")
    world.act("deliver", _working(only), again=True)
    world.act("subscribe again", lambda ports: _again(ports, "latest"))
    world.wanted.clear()

    def look() -> None:
        now = world.service.subscriptions.read(TOPIC, "billing")
        require(now is not None and now.state == "ACTIVE", "the new subscription is broken by a part of the old")

    world.looks.append(look)
    return world


def _deleted_twice() -> SmallWorld:
    """One client deletes a subscription while another client deletes and creates the same subscription."""
    world = SmallWorld("billing")
    world.send(a=5)
    world.want("billing", messages="a")

    def deleting(ports: Any) -> None:
        found = ports.subscriptions.read(TOPIC, "billing")
        if found is not None and found.generation == old.generation:
            ports.subscriptions.delete(found)

    old = world.service.subscriptions.read(TOPIC, "billing")
    world.act("unsubscribe", deleting)
    world.act("subscribe again", _recreate)
    return world


def _recreate(ports: Any) -> None:
    with suppress(UnknownSubscription):  # the other client was faster
        delete_subscription(ports, TOPIC, "billing")
    create_subscription(ports, ports.clock, TOPIC, "billing", "queue-billing", "earliest")


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
    world = SmallWorld("billing", retention_s=120, inline_rows=inline_rows)
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


def _replay_and_pause() -> SmallWorld:
    """A subscription is paused during the replay of a plan."""
    world, opened = _kept()
    world.act("replay", lambda ports: _replaying(ports, world, opened))
    done: list[int] = []

    def pausing(ports: Any) -> None:
        pause(ports, TOPIC, "billing")
        done.append(len(world.service.deliveries.all(TOPIC)))

    world.act("pause", pausing)
    world.looks.append(
        lambda: require(
            len(world.service.deliveries.all(TOPIC)) <= done[0], "a replay was opened to a subscription that is paused"
        )
    )
    return world


def _replay_and_unsubscribe() -> SmallWorld:
    """A subscription is deleted during the replay of a plan."""
    world, opened = _kept()
    world.at_end.clear()

    def look() -> None:
        alive = world.service.subscriptions.read(TOPIC, "billing").generation
        dead = [each for each in world.service.deliveries.all(TOPIC) if each.key.generation != alive]
        require(not dead, "a replay was opened to a subscription that is gone")

    world.looks.append(look)
    world.act("replay", lambda ports: _replaying(ports, world, opened))
    world.act("subscribe again", lambda ports: _again(ports, "latest"))
    return world


def _replay_and_worker() -> SmallWorld:
    """Another worker does a slow worker's part, and a replay delivers the part, before the slow worker ends."""
    world = SmallWorld("billing", retention_s=900, inline_rows=1)
    world.send(a=5, b=5)
    world.at(4)
    dispatch_as_function(world.service)
    [only] = world.service.queues.take_jobs()
    world.may_repeat = True
    opened: list[int] = []

    def later(ports: Any) -> None:
        step(ports.actor, "time.passes", lambda: world.clock.advance_ms(_LEASE_MS))
        do_job(ports, only)
        _replaying(ports, world, opened)

    world.act("deliver", _working(only), again=True)
    world.act("deliver later, and replay", later)
    sent: list[int] = []
    world.looks.append(lambda: sent.append(world.received("billing").count("a")))

    def count() -> None:
        copies = world.received("billing").count("a")
        require(copies == sent[0] + sum(opened), "a replay was taken for done, and did not come")

    world.at_end.append(count)
    return world


TWICE = Scenario(name="a part comes twice", build=_part_twice, orders=((0, 1, 2), (2, 0, 1)))
SLOW = Scenario(name="a worker is slow", build=_slow_worker)
DYING = Scenario(name="a worker dies", build=_dying_worker, faults=(Fault.DIES,))
DYING_DISPATCH = Scenario(name="a dispatch dies", build=_dying_dispatch, faults=(Fault.DIES,))
TWO_SWEEPS = Scenario(name="two sweeps find a delivery", build=_two_sweeps)
LATER = Scenario(name="a subscription begins later", build=_began_later, most=0)
RECREATED = Scenario(name="subscribe again against dispatch", build=_recreated_and_handed_out)
PAUSED_OLD = Scenario(name="subscribe again against pause", build=lambda: _recreated_and_changed(_paused_old))
BROKEN_OLD = Scenario(name="subscribe again against a refused part", build=_broken_old)
DELETED_TWICE = Scenario(name="subscribe again against unsubscribe", build=_deleted_twice)
UNSUBSCRIBED = Scenario(name="unsubscribe dies", build=_unsubscribed, faults=(Fault.DIES,))
REPLAY_COLLECT = Scenario(name="replay against collect", build=_replay_and_collect)
REPLAY_PAUSE = Scenario(name="replay against pause", build=_replay_and_pause)
REPLAY_UNSUBSCRIBE = Scenario(name="replay against subscribe again", build=_replay_and_unsubscribe)
REPLAY_WORKER = Scenario(name="replay against a slow worker", build=_replay_and_worker)
