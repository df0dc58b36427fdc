"""Draws the demo's plot as SVG: the lateness of each message, and the messages that wait, a column a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

from tidewheel.local.replay import Result

_WIDTH, _HEIGHT = 480, 200
_LEFT, _TOP = 80, 40
_COLUMN, _ROW = _LEFT + _WIDTH + 20, _TOP + _HEIGHT + 40
_PROMISE_S = 1.1
_DAY_S = 86_400
_STYLE = """
text { font: 12px sans-serif; fill: #222 } .end { text-anchor: end } .middle { text-anchor: middle }
path { fill: none; stroke: #1f77b4 } .dots { stroke-width: 2; stroke-linecap: round; opacity: .4 }
.frame { stroke: #222 } .promise { stroke: #d62728; stroke-dasharray: 4 }
"""

Point = tuple[float, float]


def plot_of(results: Mapping[str, Result]) -> str:
    """Returns the plot of replays, by their names."""
    size = f'width="{_COLUMN * len(results)}" height="{2 * _ROW}"'
    columns = "".join(
        f'<g transform="translate({_COLUMN * i})">{_column(name, result)}</g>'
        for i, (name, result) in enumerate(results.items())
    )
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{background}{columns}</svg>\n'


def _column(name: str, result: Result) -> str:
    start = min(result.due_at)
    long = (max(result.due_at) - start).days > 2
    unit_s, unit = (_DAY_S, "days") if long else (1, "seconds")
    late = [
        ((due - start).total_seconds() / unit_s, ms / 1000)
        for due, ms in zip(result.due_at, result.lateness_ms, strict=True)
    ]
    waiting = [((at - start).total_seconds() / unit_s, float(count)) for at, count in result.backlog]
    most_x = max(x for x, _ in [*late, *waiting, (1.0, 0.0)])
    most_late = max(2 * _PROMISE_S, *(y for _, y in late))
    most_waiting = max(1.0, *(y for _, y in waiting))
    dots = sorted({f"M{x} {y}h0" for x, y in _scaled(late, most_x, most_late)})
    steps = [f"H{x}V{y}" for x, y in _scaled(waiting, most_x, most_waiting)]
    [(_, promise)] = _scaled([(0, _PROMISE_S)], most_x, most_late)
    upper = (
        f'<path class="dots" d="{"".join(dots)}"/><path class="promise" d="M{_LEFT} {promise}h{_WIDTH}"/>'
        f'<text class="end" x="{_LEFT + _WIDTH}" y="{promise - 4}">promise: 1 s + max_skew</text>'
    )
    lower = f'<path d="M{_LEFT} {_TOP + _HEIGHT}{"".join(steps)}"/>'
    return (
        _frame(name, "lateness (s)", most_late, f"due after ({unit})", most_x)
        + upper
        + f'<g transform="translate(0 {_ROW})">'
        + _frame("", "messages waiting", most_waiting, f"time ({unit})", most_x)
        + f"{lower}</g>"
    )


def _scaled(points: Sequence[Point], most_x: float, most_y: float) -> Iterable[Point]:
    for x, y in points:
        yield round(_LEFT + max(0.0, x) / most_x * _WIDTH, 1), round(_TOP + (1 - y / most_y) * _HEIGHT, 1)


def _frame(title: str, of_y: str, most_y: float, of_x: str, most_x: float) -> str:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    return (
        f'<path class="frame" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>'
        f'<text x="{_LEFT}" y="{_TOP - 20}">{escape(title)}</text><text x="{_LEFT}" y="{_TOP - 4}">{of_y}</text>'
        f'<text class="end" x="{_LEFT - 6}" y="{_TOP + 10}">{most_y:,.4g}</text>'
        f'<text class="end" x="{_LEFT - 6}" y="{bottom}">0</text><text x="{_LEFT}" y="{bottom + 16}">0</text>'
        f'<text class="middle" x="{(_LEFT + right) / 2}" y="{bottom + 16}">{of_x}</text>'
        f'<text class="end" x="{right}" y="{bottom + 16}">{most_x:,.4g}</text>'
    )
