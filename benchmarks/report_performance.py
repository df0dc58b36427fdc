"""The text of `docs/performance.md`: tables and words around results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.figures import Benchmark, Figure, shown
from benchmarks.peers import section as peers_section
from benchmarks.plots import PLOTS, image_name
from benchmarks.registry import BENCHMARKS
from benchmarks.results import Result, load_text

PEERS = "peers"
_HEAD = """# Performance

This page is written by `python -m benchmarks.report` from the files in `benchmarks/results/`, and a test compares them.
Nothing ran on AWS: hot paths ran beside their bare floors on one machine, everything else on emulated or in-memory
services.

A floor is the same work by the same tools' own means, as one would write it: Arrow's own writer and reader, boto3's own
loop. A ratio is the floor's time divided by ours, so 1 is as fast as the floor, and above 1 is faster: where we leave
out work that the tool does by default, which the section then names. Floor and ours run in turns, and a ratio is the
median over rounds of neighbours, with its quartiles in brackets. Where other programs took more than half a core just
before, the section says so.

To repeat it: `make bench` for the quick ones, `make bench-all` for all, which takes an hour and more; results go to
`build/benchmarks/`. `python -m benchmarks --compare` shows in red what is more than 10 % worse than the figures on this
page; it is worth little on another machine. `make bench-record` writes this page anew.
"""
_UNMEASURED = """## What nothing here can measure

- AWS's own times: of requests, of starting an environment, of Glue, and how late SQS and EventBridge Scheduler are.
  `src/tidewheel/cost/function_time.py` and `docs/capacity.md` name those that they assume.
- Of the assumptions behind `tidewheel cost` (`src/tidewheel/cost/assumptions.py`), `stored_fixed_bytes`,
  `stored_share`, `live_ledgers`, `sources_a_ledger` and `rewrites` are measured by the benchmarks `ledger` and `cost`.
  Not measured are `batching_pollers`, `receives_a_second` and `idle_poll_s` (how Lambda polls), `plan_segment_bytes`
  and `bucket_bytes` (rough averages), `function_merge_bytes`, `log_bytes` and `traced_share`; `clients` and `metrics`
  are facts of a deployment.
- A Lambda function's processor. Times here are of the machine above; the bill takes Graviton2 to be 1.25 times as slow.
"""


def document(results: Mapping[str, Result]) -> str:
    """Returns the whole page.

    Args:
        results: all that there are, by name; benchmarks without results are named as such.
    """
    known = {name: results[name] for name in BENCHMARKS if name in results}
    parts = [_HEAD, _machines(known.values()), _goals(known)]
    parts += [_section(BENCHMARKS[name], result) for name, result in known.items()]
    if PEERS in results:
        parts.append(peers_section.markdown(results[PEERS]))
    missing = [name for name in BENCHMARKS if name not in known]
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.\n")
    return "\n".join([*parts, _UNMEASURED])


def _machines(results: Iterable[Result]) -> str:
    """Says on what was measured: each machine once, with what was measured on it if there are several."""
    by_machine: dict[str, list[str]] = {}
    for result in results:
        by_machine.setdefault(_machine(result.machine), []).append(result.name)
    if not by_machine:
        return "## Machine\n\nNothing was measured yet.\n"
    lines = [text if len(by_machine) == 1 else f"- {', '.join(names)}: {text}" for text, names in by_machine.items()]
    return "## Machine\n\n" + "\n".join(lines) + "\n"


def _machine(machine: Mapping[str, object]) -> str:
    versions = ", ".join(f"{name} {machine[name]}" for name in ("pyarrow", "boto3", "moto") if machine.get(name))
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['os']}, "
        f"Python {machine['python']}, {versions}."
    )


def _goals(results: Mapping[str, Result]) -> str:
    lines = ["## Goals", "", "| | measured | goal | |", "|---|---|---|---|"]
    for name, result in results.items():
        for figure in BENCHMARKS[name].figures:
            value = figure.of(result.figures)
            if value is not None and figure.goal is not None:
                verdict = "reached" if figure.reached(value) else "**missed**"
                link = f"[{figure.says}](#{BENCHMARKS[name].anchor})"
                lines.append(f"| {link} | {figure.shown_of(result.figures)} | {figure.shown_goal()} | {verdict} |")
    return "\n".join(lines) + "\n"


def _section(benchmark: Benchmark, result: Result) -> str:
    parts = [f"## {benchmark.title}", wrapped(benchmark.method), wrapped(_origin(result))]
    parts.append(_figures(benchmark.figures, result))
    parts += [wrapped(_why(figure)) for figure in benchmark.figures if _missed(figure, result)]
    if benchmark.name in SERIES:
        parts.append(SERIES[benchmark.name](result.figures))
    if benchmark.name in PLOTS:
        parts.append(f"![{benchmark.title}](images/{image_name(benchmark.name)})")
    return "\n\n".join(parts) + "\n"


def wrapped(text: str) -> str:
    """Returns a paragraph in lines of at most 120 characters; links stay whole."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _origin(result: Result) -> str:
    return f"`{result.command}`, {result.date}{load_text(result)}."


def _figures(figures: Sequence[Figure], result: Result) -> str:
    lines = ["| | measured | goal |", "|---|---|---|"]
    for figure in figures:
        if figure.of(result.figures) is not None:
            lines.append(f"| {figure.says} | {figure.shown_of(result.figures)} | {figure.shown_goal()} |")
    return "\n".join(lines)


def _missed(figure: Figure, result: Result) -> bool:
    value = figure.of(result.figures)
    return value is not None and figure.reached(value) is False


def _why(figure: Figure) -> str:
    why = figure.why_missed or "Why is not known yet."
    return f"*{figure.says[0].upper()}{figure.says[1:]}*: the goal is missed. {why}"


def _rows(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; numbers as `figures.shown` shows them."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = (shown(cell) if isinstance(cell, int | float) else "" if cell is None else str(cell) for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _plan(figures: Mapping[str, Any]) -> str:
    names = ("buckets", "due_segments", "bitmaps_ms", "choose_ms", "bare_read_ms", "read_and_choose_ms")
    heads = (
        "buckets",
        "due segments",
        "two calls a bitmap, ms",
        "choose, ms",
        "bare decoding, ms",
        "read and choose, ms",
    )
    return _rows(heads, ([each[name] for name in names] for each in figures["by_buckets"]))


def _memory(figures: Mapping[str, Any]) -> str:
    peaks = figures["dispatch_peak_mib"].items()
    cases = zip(peaks, figures["ledgers"], strict=True)
    return _rows(("waiting", "ledgers", "peak, MiB"), ((says, ledgers, peak) for (says, peak), ledgers in cases))


def _index(figures: Mapping[str, Any]) -> str:
    names = ("rows", "slots", "segments", "bitmap", "item", "tail", "index")
    heads = ("messages", "slots", "segments", "bitmap", "whole item", "tail", "item and tail")
    return _rows(heads, ([each[name] for name in names] for each in figures["by_rows"]))


def _precision(figures: Mapping[str, Any]) -> str:
    names = ("messages_a_second", "copies", "p1_ms", "p10_ms", "p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms")
    heads = ("messages a second", "copies", "p1", "p10", "p50", "p90", "p99", "p99.9", "max, ms", "sender behind, ms")
    return _rows(heads, ([each[name] for name in (*names, "sender_behind_ms")] for each in figures["rates"]))


def _growth(figures: Mapping[str, Any]) -> str:
    """Returns a table for each thing that grows: requests, CPU time and dollars of each flow."""
    tables = []
    for series, axis in (("by_backlog", "waiting"), ("by_topics", "topics"), ("by_subscriptions", "subscriptions")):
        flows = [name for name in figures[series][0] if name != axis]
        rows = ([each[axis], *(_cell(each[flow]) for flow in flows)] for each in figures[series])
        tables.append(_rows((axis, *(flow.replace("_", " ") for flow in flows)), rows))
    merges = ([each["sources"], _cell(each["merge"])] for each in figures["by_merged"])
    tables.append(_rows(("ledgers merged", "merge"), merges))
    about = "Requests / CPU time in ms / dollars for a million of these runs, of a thousand messages each:"
    return "\n\n".join([about, *tables])


def _cell(flow: Mapping[str, float]) -> str:
    time = f" / {shown(flow['cpu_ms'])}" if "cpu_ms" in flow else ""
    return f"{shown(flow['requests'])}{time} / ${shown(flow['dollars_a_million'])}"


def _merge(figures: Mapping[str, Any]) -> str:
    """Returns a table of the runs, and why twice the input takes more than twice the time."""
    runs = {name: run for name, run in figures.items() if isinstance(run, Mapping) and "rows" in run}
    heads = ("", "seconds", "rows written", "merges", "ledgers left", "peak, MB")
    names = ("seconds", "rows", "merges", "ledgers_left", "peak_mb")
    parts = [_rows(heads, ([name, *(run.get(each) for each in names)] for name, run in runs.items()))]
    if "function" in runs and "function x2" in runs:
        once, twice = (runs[name] for name in ("function", "function x2"))
        waiting = figures["ledgers"] * figures["rows_each"]
        parts.append(
            wrapped(
                f"x2 is the same with twice the ledgers. Memory stays, time does not: the function takes "
                f"{shown(twice['seconds'] / once['seconds'])} times as long. It writes each row "
                f"{shown(twice['rows'] / (2 * waiting))} times, in {twice['merges']} merges, where it wrote it "
                f"{shown(once['rows'] / waiting)} times, since what it merged first is merged again. A row written "
                f"takes {shown(twice['seconds'] / twice['rows'] * 1e6)} µs, and "
                f"{shown(once['seconds'] / once['rows'] * 1e6)} µs before. However many ledgers there are, a row is "
                "written about once for each power of eight in their size. A topic merges as they come, so it never "
                "has 600 small ones at a time."
            )
        )
    return "\n\n".join(parts)


def _cold_start(figures: Mapping[str, Any]) -> str:
    about = "Where a start's time goes, ms of one traced start, which is longer than one that is not traced:"
    table = _rows(("modules of", "start of dispatch"), figures["dispatch_profile"].items())
    return f"{about}\n\n{table}"


def _contention(figures: Mapping[str, Any]) -> str:
    runs = {name: run for name, run in figures.items() if isinstance(run, Mapping)}
    heads = list(next(iter(runs.values())))
    return _rows(
        ("", *(head.replace("_", " ") for head in heads)), ([name, *run.values()] for name, run in runs.items())
    )


SERIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "plan": _plan,
    "memory": _memory,
    "index": _index,
    "precision": _precision,
    "growth": _growth,
    "merge": _merge,
    "cold_start": _cold_start,
    "contention": _contention,
}
"""Tables of more than single figures, by the benchmark's name."""
