"""Runs a floor and its contender in turns, so that both meet the same disturbances.

    floor, ours, floor, ours, ...

A ratio is taken round by round, between two runs that were neighbours; what is reported is the median of these ratios,
with the quartiles as its spread. So a machine that becomes slow for a while moves both sides of a few rounds, and
neither the median nor, if it was less than a quarter of the time, the spread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Timer = Callable[[Callable[[], object]], float]
"""Runs an action and returns how many milliseconds it took."""
SPREAD = "_spread"
"""What follows a figure's name where its quartiles are."""


def cpu_ms(action: Callable[[], object]) -> float:
    """Returns an action's CPU time in this process, which other programs disturb least."""
    before = time.process_time_ns()
    action()
    return (time.process_time_ns() - before) / 1e6


def wall_ms(action: Callable[[], object]) -> float:
    """Returns an action's duration."""
    before = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - before) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The times of interleaved rounds.

    Attributes:
        times_ms: of each action, a time a round, in the order of the rounds.
    """

    times_ms: Mapping[str, tuple[float, ...]]

    def median_ms(self, action: str) -> float:
        """Returns the middle one of an action's times."""
        return statistics.median(self.times_ms[action])

    def ratio(self, name: str, floor: str, ours: str) -> dict[str, object]:
        """Returns our share of the floor's speed as a figure, and the quartiles as another.

        Args:
            name: of the first figure; that of the second one ends in `_spread`.
            floor, ours: the actions; 1 is as fast as the floor, 0.5 takes twice its time.
        """
        return spread_figures(
            name, [bare / own for bare, own in zip(self.times_ms[floor], self.times_ms[ours], strict=True)]
        )


def spread_figures(name: str, values: list[float]) -> dict[str, object]:
    """Returns the median of some values and their quartiles, as two figures."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {name: statistics.median(values), name + SPREAD: [low, high]}


def interleaved(rounds: int, timer: Timer, actions: Mapping[str, Callable[[], object]], *, warmups: int = 1) -> Rounds:
    """Runs actions in turns.

    Args:
        rounds: how often each is timed.
        timer: `cpu_ms` or `wall_ms`.
        actions: by name, the floor first.
        warmups: rounds before, which do not count: they fill caches and load what is loaded late.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(warmups + rounds):
        for name, action in actions.items():
            took_ms = timer(action)
            if number >= warmups:
                times[name].append(took_ms)
    return Rounds(times_ms={name: tuple(own) for name, own in times.items()})
