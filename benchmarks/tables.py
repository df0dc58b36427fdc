"""Makes tables of a benchmark's figures, numbers first, then each list or mapping of cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from benchmarks.rounds import SPREAD


def tables(title: str, figures: Mapping[str, Any], goals: Mapping[str, str]) -> Iterator[Table]:
    """Yields a table of the single figures, and a table of each figure with several cases.

    Args:
        title: heads the first one.
        figures: from a benchmark.
        goals: figure -> its bound.
    """
    first = _table(title, "measured", "goal")
    for name, value in figures.items():
        if cases := _cases(value):
            continue
        if not name.endswith(SPREAD):
            goal = goals.get(name, "")
            colour = {True: "green", False: "red", None: "default"}[reached(value, goal) if goal else None]
            first.add_row(_words(name), f"[{colour}]{shown(value)}{_spread(figures.get(name + SPREAD))}[/]", goal)
    if first.row_count:
        yield first
    for name, value in figures.items():
        if cases := _cases(value):
            yield _of_cases(_words(name), cases)


def reached(value: float, goal: str) -> bool:
    """Says whether a value reaches a goal such as `>= 0.7`."""
    sign, bound = goal.split()
    return value >= float(bound) if sign == ">=" else value <= float(bound)


def shown(value: object) -> str:
    """Returns a value as text, a number with three significant digits and large ones whole."""
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) < 0.0001 else f"{value:#.3g}".rstrip(".")


def _cases(value: object) -> dict[str, dict[str, object]]:
    """Returns the figures by case, or {} for a single figure."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return {f"{shown(next(iter(each.values())))}": _flat(each) for each in value}
    if not isinstance(value, Mapping):
        return {}
    return {str(case): _flat(each if isinstance(each, Mapping) else {"": each}) for case, each in value.items()}


def _flat(figures: Mapping[str, Any], before: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in figures.items():
        found |= _flat(value, f"{before}{name} ") if isinstance(value, Mapping) else {_words(before + name): value}
    return found


def _of_cases(title: str, cases: Mapping[str, Mapping[str, object]]) -> Table:
    """Returns a table whose longer side goes down the page."""
    names = list(dict.fromkeys(name for case in cases.values() for name in case if not name.endswith(_words(SPREAD))))
    if len(names) > len(cases):
        table = _table(title, *cases)
        for name in names:
            table.add_row(name, *(_with_spread(case, name) for case in cases.values()))
        return table
    table = _table(title, *names)
    for case, figures in cases.items():
        table.add_row(_words(case), *(_with_spread(figures, name) for name in names))
    return table


def _with_spread(figures: Mapping[str, Any], name: str) -> str:
    return shown(figures.get(name)) + _spread(figures.get(name + _words(SPREAD)))


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _words(name: str) -> str:
    return name.replace("_", " ")


def _spread(ends: list[float] | None) -> str:
    return "" if ends is None else f" ({shown(ends[0])} to {shown(ends[1])})"
