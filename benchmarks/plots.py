"""The plots of the benchmarks, from their results alone: the same results give the same files.

SVG with text as text and ids from a fixed salt, on white, so that they can be read in a dark page as well; colours are
Okabe and Ito's, which the colour-blind tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.registry import BENCHMARKS
from benchmarks.results import Result

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BLUE, ORANGE, GREEN, PURPLE, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#777777"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
_STYLE: Any = {
    "svg.hashsalt": "tidewheel",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "legend.frameon": False,
}
Draw = Callable[[Any, Mapping[str, Any]], None]
"""Draws figures on an empty matplotlib figure."""


def image_name(benchmark: str) -> str:
    """Returns the name of a benchmark's plot."""
    return f"bench_{benchmark}.svg"


def save_plot(result: Result, folder: Path = IMAGES) -> Path | None:
    """Draws a benchmark's results.

    Args:
        result: of a benchmark of the registry.
        folder: where to; `docs/images`, if not given.

    Returns:
        The file; None if there is no plot of this benchmark.
    """
    draw = PLOTS.get(result.name)
    if draw is None:
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / image_name(result.name)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE, "backend": "Agg"}):
        figure = pyplot.figure(layout="constrained")
        try:
            draw(figure, result.figures)
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    # Matplotlib ends some lines with a space.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return path


def ratios(name: str) -> Draw:
    """Returns what draws a benchmark's ratios as bars: the floor is 1, whiskers are quartiles, a goal is a mark."""
    shown: Sequence[Figure] = [each for each in BENCHMARKS[name].figures if "_ratio" in each.at]

    def draw(figure: Any, figures: Mapping[str, Any]) -> None:
        figure.set_size_inches(8, 0.9 + 0.5 * len(shown))
        axes = figure.subplots()
        for row, each in enumerate(shown):
            value = each.of(figures)
            if value is None:
                continue
            low, high = each.spread_of(figures) or (value, value)
            whiskers = [[max(0.0, value - low)], [max(0.0, high - value)]]
            axes.barh(row, value, 0.55, color=BLUE, xerr=whiskers, error_kw={"ecolor": "black", "capsize": 3})
            axes.annotate(
                f"{value:.2f} ", (0, row), xytext=(4, 0), textcoords="offset points", va="center", color="white"
            )
            if each.goal is not None:
                label = "goal" if "goal" not in axes.get_legend_handles_labels()[1] else None
                axes.plot([each.goal] * 2, [row - 0.38, row + 0.38], color=ORANGE, linewidth=2.5, label=label)
        axes.axvline(1, color="black", linewidth=1, linestyle="--", label="floor")
        axes.set_yticks(range(len(shown)), [each.says for each in shown])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("share of the floor's speed; whiskers: quartiles of the rounds")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.22), ncols=2)

    return draw


def _bars(axes: Any, values: Mapping[str, float], label: str, colours: Sequence[str] = (BLUE,)) -> None:
    """Draws named values as bars, with their numbers."""
    names = list(values)
    for row, name in enumerate(names):
        axes.barh(row, values[name], 0.6, color=colours[row % len(colours)])
        text = f"{values[name]:,.0f}" if values[name] >= 100 else f"{values[name]:.3g}"
        axes.annotate(text, (values[name], row), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(label)
    axes.margins(x=0.15)


def _plan(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(8, 4)
    axes, series = figure.subplots(), figures["by_buckets"]
    counts = [each["buckets"] for each in series]
    for name, label, colour, style in (
        ("read_and_choose_ms", "read items and choose", BLUE, "o-"),
        ("bare_read_ms", "floor: bare decoding", BLUE, "o--"),
        ("choose_ms", "choose", ORANGE, "s-"),
        ("bitmaps_ms", "floor: two calls a bitmap", ORANGE, "s--"),
    ):
        axes.plot(counts, [each[name] for each in series], style, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="buckets of the topic", ylabel="CPU time, ms")
    axes.legend()


def _memory(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(8, 2.6)
    axes = figure.subplots()
    _bars(axes, figures["dispatch_peak_mib"], "peak of a dispatch's resident memory, MiB")
    axes.set_ylabel("messages waiting")


def _index(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(8, 4)
    axes, series = figure.subplots(), figures["by_rows"]
    rows = [each["rows"] for each in series]
    axes.plot(rows, [each["index"] for each in series], "o-", color=BLUE, label="item and tail")
    axes.plot(rows, [each["bitmap"] or None for each in series], "s--", color=ORANGE, label="bitmap of slots")
    merged = figures["merged"]
    axes.plot(
        [merged["rows"] / merged["ledgers"]], [merged["index"]], "D", color=GREEN, label="after a merge", markersize=8
    )
    axes.axhline(1, color="black", linewidth=1, linestyle=":", label="goal, from 50,000 on")
    axes.set(xscale="log", yscale="log", xlabel="messages of a ledger", ylabel="index bytes a message")
    axes.legend()


def _precision(figure: Any, figures: Mapping[str, Any]) -> None:
    rates = figures["rates"]
    figure.set_size_inches(8, 1.0 + 1.6 * len(rates))
    for axes, each, colour in zip(
        figure.subplots(len(rates), sharex=True, squeeze=False)[:, 0], rates, COLOURS, strict=False
    ):
        starts, counts = zip(*each["histogram"], strict=True)
        width = starts[1] - starts[0] if len(starts) > 1 else 50
        axes.bar(starts, [count / each["copies"] for count in counts], width, align="edge", color=colour)
        for name, style in (("p50_ms", ":"), ("p99_ms", "--")):
            axes.axvline(each[name], color="black", linewidth=1, linestyle=style)
        axes.set_title(f"{each['messages_a_second']} messages a second", loc="left", fontsize=10)
        # Above the bars, where nothing crosses it.
        told = f"dotted: p50 {each['p50_ms']:,.0f} ms; dashed: p99 {each['p99_ms']:,.0f} ms"
        axes.set_title(told, loc="right", fontsize=9)
        axes.set_ylabel("share")
    figure.axes[-1].set_xlabel("lateness, ms")


def _growth(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(10, 6.4)
    columns = (
        ("by_backlog", "waiting", "messages waiting"),
        ("by_topics", "topics", "topics"),
        ("by_subscriptions", "subscriptions", "subscriptions"),
    )
    flows = ("ingest", "dispatch", "cancel", "sweep", "daily_sweep")
    rows = (("requests", "AWS requests"), ("cpu_ms", "CPU time, ms"))
    grid = figure.subplots(2, 3, sharex="col", sharey="row")
    for line, (what, says) in zip(grid, rows, strict=True):
        for axes, (series, axis, label) in zip(line, columns, strict=True):
            for flow, colour, marker in zip(flows, COLOURS, "os^Dv", strict=True):
                points = [(each[axis], each[flow].get(what)) for each in figures[series]]
                if all(value for _, value in points):
                    axes.plot(*zip(*points, strict=True), marker + "-", color=colour, label=flow.replace("_", " "))
            axes.set(xscale="log", yscale="log")
            sizes = [each[axis] for each in figures[series]]
            axes.set_xticks(sizes, [_short(size) for size in sizes], minor=False)
            axes.minorticks_off()
            if what == "cpu_ms":
                axes.set_xlabel(label)
        line[0].set_ylabel(says)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(flows))


def _short(count: int) -> str:
    """Returns a count as an axis has room for it: 10k, 100M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return f"{count}"


def _merge(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(9, 3.6)
    left, right = figure.subplots(1, 2, sharey=True)
    runs = {name: run for name, run in figures.items() if isinstance(run, dict) and "seconds" in run}
    colours = [BLUE if name.split()[0] in ("function", "spark") else GREY for name in runs]
    _bars(left, {name: run["seconds"] for name, run in runs.items()}, "seconds", colours)
    _bars(right, {name: run["peak_mb"] for name, run in runs.items()}, "peak of memory, MB", colours)
    right.invert_yaxis()  # shared, so that both calls turned it round
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(color=BLUE, label="Tidewheel's merge (x2: twice the ledgers)"),
            Patch(color=GREY, label="floor"),
        ],
        loc="outside upper center",
        ncols=2,
    )


def _rebuild(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(8, 2.8)
    parts = {name: figures[f"{name}_s"] for name in ("list", "inspect", "compare", "write", "total")}
    _bars(
        figure.subplots(), {**parts, "floor: bare Arrow read": figures["bare_read_s"]}, "seconds", [BLUE] * 5 + [GREY]
    )


def _import(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(8, 2.2)
    values = {
        "import": figures["import_s"],
        "the same again (all skipped)": figures["repeated_import_s"],
        "floor: DuckDB's sort": figures["duckdb_sort_s"],
    }
    _bars(figure.subplots(), values, "seconds", (BLUE, SKY, GREY))


def _cold_start(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(8, 4.2)
    functions = {name.removesuffix("_init_ms"): ms for name, ms in figures.items() if name.endswith("_init_ms")}
    floors = {
        f"floor: {name.removesuffix('_floor_ms').replace('_', ' ')}": ms
        for name, ms in figures.items()
        if name.endswith("_floor_ms")
    }
    axes = figure.subplots()
    colours = [BLUE] * len(functions) + [GREY] * len(floors)
    _bars(axes, functions | floors, "CPU time of imports at the start, ms", colours)


def _cost(figure: Any, figures: Mapping[str, Any]) -> None:
    runs = [name for name in ("merged", "unmerged") if name in figures]
    figure.set_size_inches(5 * len(runs), 2.6)
    for axes, name in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        _bars(axes, figures[name]["dollars_a_million"], f"{name}: dollars for a million messages")


def _contention(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(9, 3.6)
    runs = {name: run for name, run in figures.items() if isinstance(run, dict)}
    colours = [BLUE if "a second each" in name else ORANGE for name in runs]
    _bars(figure.subplots(), {name: run["p99_ms"] for name, run in runs.items()}, "p99 of a call, ms", colours)


def _soak(figure: Any, figures: Mapping[str, Any]) -> None:
    figure.set_size_inches(9, 6.4)
    kept, drained = figure.subplots(2, 1)
    for axes, scenario, title, names in (
        (kept, "steady", "six weeks at a steady rate", ("waiting", "objects", "buckets", "tombstones")),
        (drained, "outage", "three hours in which nothing is dispatched", ("waiting", "plans", "deliveries")),
    ):
        series = figures[scenario]["series"]
        for name, colour in zip(names, COLOURS, strict=False):
            points = [(day, value) for day, value in zip(series["day"], series[name], strict=True) if value > 0]
            axes.plot(*zip(*points, strict=True), color=colour, label="messages waiting" if name == "waiting" else name)
        axes.set(yscale="log", ylabel="kept, all topics")
        axes.set_title(title, loc="left", fontsize=10)
        axes.legend(loc="upper right", ncols=len(names))
    drained.set_xlabel("virtual days")


PLOTS: Mapping[str, Draw] = {
    "ledger": ratios("ledger"),
    "ingest": ratios("ingest"),
    "plan": _plan,
    "dispatch": ratios("dispatch"),
    "memory": _memory,
    "index": _index,
    "precision": _precision,
    "growth": _growth,
    "merge": _merge,
    "rebuild": _rebuild,
    "import": _import,
    "cold_start": _cold_start,
    "cost": _cost,
    "contention": _contention,
    "soak": _soak,
}
"""By the result's name."""
