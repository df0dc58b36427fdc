"""Explores each schedule of a small world exactly once, schedules with few deviations first.

    plain order    A A A A B B B B
    one            A A|B B B B|A A         before A's third call B moves on, and A goes on when B has ended
    two            A A|B B|A A|B B

The first found wrong is a shortest one, and the same whenever and wherever it is looked for.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import permutations
from random import Random
from typing import Any
from unittest.mock import patch

from tests.simulation.actors import EXPECTED, Actor, Fault, Violation
from tests.simulation.interleaving import Died
from tests.simulation.small_world import SmallWorld
from tests.stored_ports import TABLE_CALLS, TABLE_PORTS
from tidewheel.model import marks, settings

_MOST_STEPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A deviation from the plain order.

    Attributes:
        at: before which step, counted over all actors.
        to: the actor that moves on instead, by its number.
        fault: or what goes wrong with the call.
    """

    at: int
    to: int | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """An order of the actors' moves, with faults.

    Attributes:
        order: numbers of the actors: whoever comes first moves, while nothing deviates.
        deviations: in the order of their steps.
    """

    order: tuple[int, ...]
    deviations: tuple[Deviation, ...] = ()

    @property
    def calm(self) -> bool:
        """Whether no call goes wrong."""
        return all(each.fault is None for each in self.deviations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A small world and the limits of its exploration.

    Attributes:
        build: arranges the world anew.
        most: deviations at most.
        faults: what may go wrong with calls.
        points: beginnings of the calls before which another actor may move on.
        orders: plain orders; None: all permutations.
    """

    name: str
    build: Callable[[], SmallWorld]
    most: int = 1
    faults: tuple[Fault, ...] = ()
    points: tuple[str, ...] = (*TABLE_CALLS, "time.")
    orders: tuple[tuple[int, ...], ...] | None = None


_LIMITS = {each.name for each in fields(Scenario)}


def scenario(name: str, *subscriptions: str, **given: Any) -> Callable[[Callable[[SmallWorld], None]], Scenario]:
    """Makes a scenario of a function that arranges a world with these subscriptions.

    Args:
        given: limits of the exploration, and settings of the world.
    """
    limits = {key: value for key, value in given.items() if key in _LIMITS}
    settings = {key: value for key, value in given.items() if key not in _LIMITS}

    def decorated(arrange: Callable[[SmallWorld], None]) -> Scenario:
        def build() -> SmallWorld:
            world = SmallWorld(*subscriptions, **settings)
            arrange(world)
            return world

        return Scenario(name=name, build=build, **limits)

    return decorated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    actor: int
    call: str | None
    others: tuple[int, ...]
    stood: tuple[int, str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A schedule under which a promise is broken.

    Attributes:
        schedules: how many were tried, this one included.
        schedule: the last of these.
        violation: what was broken.
        story: who did what, for people.
    """

    schedules: int
    schedule: Schedule
    violation: Violation
    story: str


def explore(scenario: Scenario, most_schedules: int | None = None) -> Found | int:
    """Tries schedules until a schedule breaks a promise.

    Returns:
        That one, or how many were tried if none does.
    """
    count = 0
    for schedule, replay in _schedules(scenario):
        if count == most_schedules:
            break
        count += 1
        try:
            replay(schedule)
        except Violation as error:
            return Found(schedules=count, schedule=schedule, violation=error, story=story(scenario, schedule))
    return count


def _schedules(scenario: Scenario) -> Iterator[tuple[Schedule, Callable[[Schedule], None]]]:
    """Yields schedules, the fewest deviations first. The consumer runs each schedule before the next is made."""
    with _same_chance():
        actors = len(scenario.build().actors)
    orders = scenario.orders or tuple(permutations(range(actors)))
    level = [Schedule(order=order) for order in orders]
    for depth in range(scenario.most + 1):
        following: list[Schedule] = []

        def replay(schedule: Schedule, depth: int = depth, following: list[Schedule] = following) -> None:
            steps: list[_Step] = []
            try:
                run(scenario, schedule, steps)
            finally:
                if depth < scenario.most:
                    following += _children(scenario, schedule, steps)

        for schedule in level:
            yield schedule, replay
        level = following


def _children(scenario: Scenario, schedule: Schedule, steps: list[_Step]) -> Iterator[Schedule]:
    """Yields the schedules with another deviation after the last deviation."""
    first = schedule.deviations[-1].at + 1 if schedule.deviations else 0
    for at in range(first, len(steps)):
        step = steps[at]
        if step.call is None:  # an actor's beginning: that is another order
            continue
        more = [Deviation(at=at, fault=fault) for fault in scenario.faults if _may_go_wrong(fault, step.call)]
        if step.call.startswith(scenario.points):
            more += [Deviation(at=at, to=other) for other in step.others]
        for each in more:
            yield Schedule(order=schedule.order, deviations=(*schedule.deviations, each))


def _may_go_wrong(fault: Fault, call: str) -> bool:
    if call.startswith("time."):
        return False
    return fault is Fault.DIES or call not in _READS


_READS = frozenset(
    (
        *(f"{port}.{read}" for port in TABLE_PORTS for read in ("read", "all")),
        *("plans.next", "plans.ranges", "plans.objects", "merges.trash", "buckets.imported", "tombstones.ids"),
        *("checks.due", "objects.get_range", "objects.list"),
    )
)
"""Calls that change nothing: to lose their answers is to die."""


def run(scenario: Scenario, schedule: Schedule, steps: list[_Step] | None = None) -> SmallWorld:
    """Runs a world under one schedule, then heals and checks the world.

    Args:
        steps: what was done is added.

    Raises:
        Violation: a promise is broken.
    """
    with _same_chance():
        world = scenario.build()
        try:
            _move(world, schedule, [] if steps is None else steps)
            for actor in world.actors:
                _check_end(actor)
            for look in world.looks:
                look()
            world.heal()
            world.check(calm=schedule.calm)
        finally:
            for actor in world.actors:
                actor.task.kill()
    return world


def _move(world: SmallWorld, schedule: Schedule, steps: list[_Step]) -> None:
    deviations = {each.at: each for each in schedule.deviations}
    current: int | None = None
    while alive := [number for number in schedule.order if not world.actors[number].task.over]:
        if current not in alive:
            current = alive[0]
        assert current is not None
        deviation = deviations.get(len(steps))
        stood = None
        if deviation is not None and deviation.to is not None:
            stood = current, world.actors[current].pending
            current = deviation.to
        actor = world.actors[current]
        others = tuple(number for number in alive if number != current)
        steps.append(_Step(actor=current, call=actor.pending, others=others, stood=stood))
        if deviation is not None:
            actor.fault = deviation.fault
        actor.task.step()
        world.watch()
        if len(steps) > _MOST_STEPS:
            raise Violation("it does not come to an end")


def _check_end(actor: Actor) -> None:
    error = actor.task.error
    if error is not None and not isinstance(error, (Died, *EXPECTED)):
        raise Violation(f"{actor.name} ended with {type(error).__name__}: {error}") from error


def story(scenario: Scenario, schedule: Schedule) -> str:
    """Tells a schedule in one line."""
    steps: list[_Step] = []
    with _same_chance():
        world = scenario.build()
        names = [actor.name for actor in world.actors]
        try:
            _move(world, schedule, steps)
        except Violation:
            pass
        finally:
            for actor in world.actors:
                actor.task.kill()
    told = []
    for each in schedule.deviations:
        if each.at >= len(steps):
            continue
        step = steps[each.at]
        if each.fault is not None:
            told.append(f"{names[step.actor]} {each.fault.value} {step.call}")
            continue
        assert step.stood is not None
        told.append(f"{names[step.stood[0]]} stands before {step.stood[1]}, {names[step.actor]} moves on")
    order = ", then ".join(names[number] for number in schedule.order)
    return "; ".join([order, *told])


@contextmanager
def _same_chance() -> Iterator[None]:
    """Makes ids and names the same in every run."""
    random = Random(1)
    with (
        patch.object(os, "urandom", random.randbytes),
        patch.object(secrets, "token_hex", lambda length=16: random.randbytes(length).hex()),
        patch.object(settings, "DAY_MS", settings.DAY_MS),  # a world may have shorter days
        patch.object(marks, "TOGETHER", marks.TOGETHER),  # and marks in more items
    ):
        yield
