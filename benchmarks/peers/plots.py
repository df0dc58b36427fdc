"""The plots of the peers: what they cost, how late they are, what waiting messages take up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import NAMES, Peer
from benchmarks.results import Result

IMAGES = Path(__file__).parents[2] / "docs" / "images"
COST, PRECISION, WAITING = "peers_cost.svg", "peers_precision.svg", "peers_waiting.svg"

# Okabe and Ito's colours, which the colour-blind tell apart.
_COLOURS = {
    Peer.TIDEWHEEL: "#0072B2",
    Peer.REDIS: "#D55E00",
    Peer.DYNEIN: "#009E73",
    Peer.AHEAD: "#56B4E9",
    Peer.SCHEDULES: "#CC79A7",
}
_STYLE: Any = {
    "svg.hashsalt": "peers",
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
}
_LATENESS = (
    ("tidewheel", Peer.TIDEWHEEL, ""),
    ("tidewheel_real", Peer.TIDEWHEEL, ", real time"),
    ("redis_fast", Peer.REDIS, " every 10 ms, real time"),
    ("redis_real", Peer.REDIS, " every second, real time"),
    ("dynein", Peer.DYNEIN, ""),
    ("ahead", Peer.AHEAD, ""),
    ("schedules", Peer.SCHEDULES, ", as documented"),
)


def save_plots(result: Result, folder: Path = IMAGES, names: Sequence[str] = (COST, PRECISION, WAITING)) -> list[Path]:
    """Draws plots of a result; the same result gives the same files.

    Args:
        result: as `benchmarks.peers.measure` measures it.
        folder: where to.
        names: of the files; all, if not given.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    draw = {COST: _cost, PRECISION: _precision, WAITING: _waiting}
    for name in names:
        with _figure(folder / name) as axes:
            draw[name](axes, result.figures)
        drawn.append(folder / name)
    return drawn


@contextmanager
def _figure(path: Path) -> Iterator[Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
        yield axes
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    # Matplotlib ends some lines with a space.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _cost(axes: Any, figures: Any) -> None:
    series = figures["series"]
    lines = [(peer.value, NAMES[peer], _COLOURS[peer], "--" if peer is Peer.AHEAD else "-") for peer in Peer]
    lines[0] = ("tidewheel", "Tidewheel, all told", _COLOURS[Peer.TIDEWHEEL], "-")
    lines[1] = ("redis", "Redis, one node and a task that polls", _COLOURS[Peer.REDIS], "-")
    lines.insert(1, ("tidewheel_one_by_one", "Tidewheel, all told, sent one by one", _COLOURS[Peer.TIDEWHEEL], ":"))
    lines.insert(3, ("redis_no_task", "Redis, one node alone", _COLOURS[Peer.REDIS], "--"))
    lines.insert(4, ("redis_durable", "Redis, durable, and the task", _COLOURS[Peer.REDIS], ":"))
    lines.append(("schedules_free_tier", "the same, in the free tier at first", _COLOURS[Peer.SCHEDULES], ":"))
    for name, label, colour, style in lines:
        points = [(row["per_day"], row[name]) for row in series if row.get(name) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), style, color=colour, label=label, linewidth=1.8)
    axes.set(xscale="log", yscale="log", xlabel="messages a day, due in 7 days on average", ylabel="dollars a month")
    _plain(axes, x="{x:,.0f}", y="${x:,g}")
    axes.set_title(
        "List prices, no free tier but where it is named. All told: with metrics, logs and traces,\n"
        "which the others' bills do not have.",
        loc="left",
        fontsize="small",
    )
    axes.legend(fontsize="small", frameon=False)


def _precision(axes: Any, figures: Any) -> None:
    shown = [row for row in _LATENESS if row[0] in figures["precision"]]
    for place, (name, peer, _) in enumerate(shown):
        found, colour = figures["precision"][name], _COLOURS[peer]
        most_ms = max(1, found["max_ms"])
        axes.barh(place, most_ms, left=0.5, height=0.5, color=colour, alpha=0.35)
        axes.text(most_ms * 1.15, place, _told(found), va="center", fontsize="small")
        if "p50_ms" in found:
            axes.plot([max(1, found["p50_ms"])], [place], "o", color=colour)
            axes.plot([max(1, found["p99_ms"])], [place], "|", color=colour, markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(shown)), [NAMES[peer] + more for _, peer, more in shown])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xscale="log", xlim=(0.5, 2_000_000), xlabel="late: bar to the latest, dot p50, line p99")
    axes.set_xticks([10**power for power in range(0, 6)], ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"])


def _told(found: Any) -> str:
    if "p50_ms" not in found:
        return f"up to {found['max_ms'] / 1000:.0f} s"
    return f"{found['p50_ms']:,} / {found['p99_ms']:,} / {found['max_ms']:,} ms"


def _waiting(axes: Any, figures: Any) -> None:
    held = figures["waiting"]
    lines = [
        (Peer.REDIS, "memory of Redis", held.get("redis", {}).get("memory_bytes", {})),
        (Peer.DYNEIN, "items in DynamoDB", held["dynein"]["dynamodb_bytes"]),
        (Peer.TIDEWHEEL, "Tidewheel: ledgers in S3", {n: row["s3_bytes"] for n, row in held["tidewheel"].items()}),
        (Peer.TIDEWHEEL, "Tidewheel: index", {n: row["dynamodb_bytes"] for n, row in held["tidewheel"].items()}),
    ]
    for peer, label, sizes in lines:
        points = sorted((int(waiting), size / 1e6) for waiting, size in sizes.items())
        if points:
            style = "o:" if label.endswith("index") else "o-"
            axes.plot(*zip(*points, strict=True), style, color=_COLOURS[peer], label=label, linewidth=1.8)
    axes.set(xscale="log", yscale="log", xlabel="messages waiting", ylabel="MB")
    _plain(axes, x="{x:,.0f}", y="{x:,g}")
    axes.legend(fontsize="small", frameon=False)


def _plain(axes: Any, *, x: str, y: str | None) -> None:
    """Writes 1,000 for what matplotlib writes as a power of ten."""
    axes.xaxis.set_major_formatter(x)
    if y is not None:
        axes.yaxis.set_major_formatter(y)
