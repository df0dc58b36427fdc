"""Two runs of the same benchmarks, figure by figure: what became better, and what became worse by more than a tenth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks import results
from benchmarks.figures import Figure, shown
from benchmarks.registry import BENCHMARKS
from benchmarks.results import Result
from tidewheel.errors import InvalidValue

WORSE_BY = 0.10
"""From this change on, a figure is shown in red."""
_COMPARABLE = ("cpu", "cores", "python", "pyarrow", "boto3", "moto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure of two runs.

    Attributes:
        benchmark: its name.
        figure: what it is.
        old, new: its values; `new` differs from `old` by `share`.
    """

    benchmark: str
    figure: Figure
    old: float
    new: float

    @property
    def share(self) -> float | None:
        """By how much it changed, as a share of the old value; None if that was 0 and this is not."""
        if self.old == self.new:
            return 0.0
        return (self.new - self.old) / abs(self.old) if self.old else None

    @property
    def worse_by(self) -> float:
        """How much slower or larger it became: a rate that halves and a time that doubles are both 1.0 worse.

        Below 0 if it became better; 0 if neither direction is better; infinite if it left 0, or came to it, for the
        worse.
        """
        if self.figure.more is None or self.old == self.new:
            return 0.0
        before, after = (self.new, self.old) if self.figure.more else (self.old, self.new)
        if before <= 0:
            return float("inf") if after > before else 0.0
        return after / before - 1

    @property
    def is_worse(self) -> bool:
        """Whether it became worse by more than `WORSE_BY`."""
        return self.worse_by > WORSE_BY


def read(path: Path) -> dict[str, Result]:
    """Reads results by name.

    Args:
        path: a directory of results, or the file of one.

    Raises:
        InvalidValue: there are none, or one is not readable.
    """
    if path.is_file():
        found = results.load(path.stem, path.parent)
        return {found.name: found}
    names = results.names(path)
    if not names:
        raise InvalidValue("compare", str(path), "Give a directory with results, or the file of one.")
    return {name: results.load(name, path) for name in names}


def changes(old: Mapping[str, Result], new: Mapping[str, Result]) -> list[Change]:
    """Returns the figures that both runs have, in the registry's order; runs of different scale have none."""
    found = []
    for name, benchmark in BENCHMARKS.items():
        if name in old and name in new and _quick(old[name]) == _quick(new[name]):
            for figure in benchmark.figures:
                before, after = figure.of(old[name].figures), figure.of(new[name].figures)
                if before is not None and after is not None:
                    found.append(Change(benchmark=name, figure=figure, old=before, new=after))
    return found


def doubts(old: Mapping[str, Result], new: Mapping[str, Result]) -> list[str]:
    """Returns what speaks against a comparison: other machines, versions or scales, and machines that were busy."""
    said = []
    for name in (name for name in new if name in old):
        if _quick(old[name]) != _quick(new[name]):
            said.append(f"{name}: one of the two is a quick run, which is not compared")
            continue
        before, after = old[name].machine, new[name].machine
        for part in _COMPARABLE:
            if before.get(part) != after.get(part):
                said.append(f"{name}: {part} was {before.get(part)}, and is {after.get(part)}")
        for word, machine in (("old", before), ("new", after)):
            load = machine.get("load_at_start")
            if isinstance(load, int | float) and results.is_busy(load):
                said.append(f"{name}: the machine was busy in the {word} run (load {load:g})")
    return said


def table(found: Iterable[Change]) -> Table:
    """Returns the changes as a table: red is worse by more than a tenth, green better by as much."""
    drawn = Table(title="Compared with the earlier run", title_justify="left")
    drawn.add_column("")
    for heading in ("old", "new", "change"):
        drawn.add_column(heading, justify="right")
    for change in found:
        share = change.share
        text = "from 0" if share is None else f"{share:+.1%}"
        colour = "red" if change.is_worse else "green" if change.worse_by < -WORSE_BY / (1 + WORSE_BY) else ""
        shown_change = f"[{colour}]{text}[/]" if colour else text
        drawn.add_row(f"{change.benchmark}: {change.figure.says}", shown(change.old), shown(change.new), shown_change)
    return drawn


def as_json(found: Iterable[Change]) -> str:
    """Returns the changes as a JSON list."""
    return json.dumps(
        [
            {
                "benchmark": each.benchmark,
                "figure": each.figure.at,
                "old": each.old,
                "new": each.new,
                "worse": each.is_worse,
            }
            for each in found
        ],
        indent=1,
    )


def _quick(result: Result) -> bool:
    return bool(result.figures.get("quick"))
