"""The parts of `README.md` that are made of results: goals, what reliability rests on, where others are better.

Each stands between `<!-- name -->` and `<!-- end of name -->`, and is empty where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.registry import BENCHMARKS
from benchmarks.report_performance import PEERS, wrapped
from benchmarks.results import Result
from tidewheel.errors import InvalidValue

_PERFORMANCE = "docs/performance.md"
_RELIABILITY = "docs/reliability.md"


def renewed(text: str, results: Mapping[str, Result]) -> str:
    """Returns README with its parts made anew; what stands around them is kept.

    Args:
        text: README as it is.
        results: all that there are, by name.

    Raises:
        InvalidValue: a part's marks are missing.
    """
    for name, part in _PARTS.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, found_start, rest = text.partition(start)
        _, found_end, after = rest.partition(end)
        if not (found_start and found_end):
            raise InvalidValue("README.md", name, f"Put {start.strip()} and {end.strip()} on lines of their own.")
        text = f"{before}{start}{part(results)}{end}{after}"
    return text


def _goals(results: Mapping[str, Result]) -> str:
    """Returns a table of all figures with a goal; a benchmark's name stands before its first."""
    lines = []
    for benchmark in (each for name, each in BENCHMARKS.items() if name in results):
        figures = results[benchmark.name].figures
        title = f"[{benchmark.title}]({_PERFORMANCE}#{benchmark.anchor})"
        for figure in benchmark.figures:
            value = figure.of(figures)
            if value is None or figure.goal is None:
                continue
            missed = "" if figure.reached(value) else ", **missed**"
            lines.append(f"| {title} | {figure.says} | {figure.shown_goal()} | {figure.shown_of(figures)}{missed} |")
            title = ""
    return "\n".join(["", "| | | goal | measured |", "|---|---|---|---|", *lines, "", ""]) if lines else ""


def _shown(results: Mapping[str, Result]) -> str:
    """Says in a sentence or two what was run to show that nothing is lost."""
    said = []
    if "simulation" in results:
        figures: Mapping[str, Any] = results["simulation"].figures
        failed = f"**{figures['failed']} broke a promise**" if figures["failed"] else "none broke a promise"
        said.append(
            f"{sum(figures['runs'].values()):,} runs of the real flows under seeds (several functions at once, calls "
            f"that fail, deaths, late and lost triggers): {failed}."
        )
    if "mutants" in results:
        figures = results["mutants"].figures
        said.append(
            f"Of the protocol's {figures['guards']} guards each was taken away by itself: a promise then broke for "
            f"{figures['caught']}."
        )
    if not said:
        return ""
    said.append(f"What else was tried, and what cannot be tried here: [{_RELIABILITY}]({_RELIABILITY}).")
    return wrapped(" ".join(said)) + "\n"


def _peers(results: Mapping[str, Result]) -> str:
    """Says below which rates others are cheaper, and who is more precise."""
    if PEERS not in results:
        return ""
    figures: Any = results[PEERS].figures
    below, precision = figures["cheaper_from"], figures["precision"]
    said = []
    if below["schedules"]:
        text = f"a schedule a message is cheaper below {_claim(below['schedules'])} messages a day"
        if below["schedules_after_free_tier"]:
            text += f", with its free tier below {_claim(below['schedules_after_free_tier'])}"
        said.append(text)
    if below["ahead"]:
        said.append(f"a table with a function each minute below {_claim(below['ahead'])}")
    if "redis_fast" in precision:
        half_ms = precision["redis_fast"]["p50_ms"]
        said.append(f"Redis, polled often, is the most precise, half of its messages within {half_ms} ms of their time")
    if not said:
        return ""
    link = f"[The same real messages]({_PERFORMANCE}#beside-others-on-the-same-stream)"
    text = f"{link} through others, against Tidewheel's bill all told: "
    return wrapped(text + "; ".join(said) + ".") + "\n"


def _claim(value: float) -> str:
    """Returns a number of two digits that count, as a claim should be."""
    return f"{float(f'{value:.2g}'):,.0f}"


_PARTS: Mapping[str, Callable[[Mapping[str, Result]], str]] = {
    "reliability": _shown,
    "benchmarks": _goals,
    "peers": _peers,
}
