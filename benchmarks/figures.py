"""A figure: what one number of a benchmark's results says, which direction is better, and what was aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rounds import SPREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that is shown, compared and written down.

    Attributes:
        at: its place in the benchmark's figures; dots lead into mappings, whole numbers into lists.
        says: what it is, in words, with its unit.
        more: whether more is better; None if neither is.
        goal: the value that it must reach.
        why_missed: what is known of it, where the goal is not reached: the profile, in words.
    """

    at: str
    says: str
    more: bool | None
    goal: float | None = None
    why_missed: str | None = None

    def of(self, figures: Mapping[str, object]) -> float | None:
        """Returns its value, None if the results do not have it."""
        return _number(figures, self.at)

    def spread_of(self, figures: Mapping[str, object]) -> tuple[float, float] | None:
        """Returns the quartiles of the rounds, None if it was not measured in rounds."""
        ends = _number(figures, f"{self.at}{SPREAD}.0"), _number(figures, f"{self.at}{SPREAD}.1")
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])

    def reached(self, value: float) -> bool | None:
        """Says whether a value reaches the goal, None if there is none."""
        if self.goal is None or self.more is None:
            return None
        return value >= self.goal if self.more else value <= self.goal

    def shown_goal(self) -> str:
        """Returns the goal as text, empty if there is none."""
        return "" if self.goal is None else f"{'≥' if self.more else '≤'} {shown(self.goal)}"

    def shown_of(self, figures: Mapping[str, object]) -> str:
        """Returns its value as text, with its spread; `missing` if there is none."""
        value, spread = self.of(figures), self.spread_of(figures)
        if value is None:
            return "missing"
        return shown(value) if spread is None else f"{shown(value)} ({shown(spread[0])} to {shown(spread[1])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: of its results, and on the command line.
        module: has `benchmark(*, quick)`.
        title: what it measures, as a heading.
        method: how, and what its floor is, in a paragraph.
        figures: those that are shown.
        slow: whether it runs with `--all` only.
        extra: what has to be installed beside, if anything: a module that is imported.
    """

    name: str
    module: str
    title: str
    method: str
    figures: Sequence[Figure]
    slow: bool = False
    extra: str | None = None

    @property
    def command(self) -> str:
        """What to type in a checkout to measure it."""
        return f"python -m benchmarks {self.name}"

    @property
    def anchor(self) -> str:
        """Its heading's anchor on a code host."""
        kept = "".join(each for each in self.title.lower() if each.isalnum() or each in " -")
        return kept.replace(" ", "-")


def shown(value: float) -> str:
    """Returns a number with three digits that count, and separators; large ones whole."""
    if value == 0:
        return "0"
    if abs(value) >= 100 or (value == int(value) and abs(value) < 100):
        return f"{value:,.0f}"
    if abs(value) < 0.0001:
        return f"{value:.2g}"
    return f"{value:#.3g}".rstrip(".")


def _number(figures: object, at: str) -> float | None:
    found = figures
    for step in at.split("."):
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif isinstance(found, Sequence) and not isinstance(found, str) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return float(found) if isinstance(found, int | float) else None
