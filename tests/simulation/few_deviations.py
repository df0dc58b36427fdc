"""Explores the schedules of a small model in which flows are preempted, or crash, at most a few times."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

Step = Generator[int | None, None, None]
"""A flow under way. It gives the turn back after each step, and may tell how many copies its death makes there."""
Choice = tuple[int, str]
"""How many flows are passed over in favour of a later flow, and what befalls the flow in turn, such as "dies"."""
Schedule = dict[int, Choice]
"""Step -> how the step deviates from running one flow after the other."""


class Violation(Exception):
    """An invariant does not hold."""


class World(Protocol):
    """The stored state of a model."""

    def check(self) -> None:
        """Raises Violation if the invariant does not hold."""

    def crashed(self) -> bool:
        """Counts the crash of a flow. Returns whether the flow runs again at once, or else after the others."""


W = TypeVar("W", bound=World)
S = TypeVar("S")


def play(world: W, flows: Sequence[Callable[[W], Step]], schedule: Schedule) -> list[list[Choice]]:
    """Runs one schedule. A flow goes on until it is preempted.

    Args:
        flows: in the order in which they run if nothing preempts them.

    Returns:
        For each step the other choices that there were.

    Raises:
        Violation: the invariant does not hold after a step.
    """
    waiting = [(flow, flow(world)) for flow in flows]
    choices: list[list[Choice]] = []
    while waiting:
        later, how = schedule.get(len(choices), (0, ""))
        choices.append([*((place, "") for place in range(1, len(waiting))), (0, "dies")])
        flow, running = waiting.pop(later)
        if how == "dies":
            running.close()
            waiting.insert(0 if world.crashed() else len(waiting), (flow, flow(world)))
        else:
            with suppress(StopIteration):
                next(running)
                waiting.insert(0, (flow, running))
        world.check()
    return choices


def first_violation(
    scenarios: Mapping[str, S], run: Callable[[S, Schedule], list[list[Choice]]], deviations: int
) -> str | None:
    """Runs all schedules with few deviations, in ascending number of deviations. Returns the first violation.

    Args:
        scenarios: by name.
        run: runs one schedule of a scenario. Returns for each step the other choices that there were.
        deviations: at most so many are tried.
    """

    def explore(name: str, schedule: Schedule, after: int, left: int) -> str | None:
        try:
            choices = run(scenarios[name], schedule)
        except Violation as error:
            return f"{name} {schedule}: {error}"
        for step in range(after, len(choices) if left else after):
            for choice in choices[step]:
                found = explore(name, schedule | {step: choice}, step + 1, left - 1)
                if found is not None:
                    return found
        return None

    found = (explore(name, {}, 0, most) for most in range(deviations + 1) for name in scenarios)
    return next((each for each in found if each is not None), None)
