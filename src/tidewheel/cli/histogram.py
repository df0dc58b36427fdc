"""Shows a histogram as lines of text."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewheel.client.histogram import EstimatedHistogram

_BLOCKS = " ▏▎▍▌▋▊▉█"


class Bars(StrEnum):
    """The time that a bar of a histogram stands for."""

    HOUR = "hour"
    DAY = "day"


def histogram_text(histogram: EstimatedHistogram, by: Bars, width: int, blocks: bool) -> str:
    """Returns a histogram as lines. A run of empty bars is a single line with its length.

    Args:
        histogram: the counts.
        by: the time that a bar stands for.
        width: of a line, in characters.
        blocks: whether the terminal shows block characters. Otherwise bars are made of '#'.
    """
    pattern = "%Y-%m-%d %H:%M" if by is Bars.HOUR else "%Y-%m-%d"
    rows = [(f"{at:{pattern}}", count) for at, count in zip(histogram.starts(), histogram.bars, strict=True)]
    numbers = [f"{count:,}" for _, count in rows] + [f"{histogram.later:,}"]
    label, number = len(rows[0][0]), max(len(each) for each in numbers)
    room = max(8, width - label - number - 4)
    most = max(histogram.bars)
    lines = [f"waiting by {by.value}, UTC (estimated)"]
    empty = 0
    for text, count in rows:
        if not count:
            empty += 1
            continue
        lines += _gap(empty, by)
        empty = 0
        lines.append(f"{text}  {count:>{number},}  {_bar(count / most, room, blocks)}")
    lines += _gap(empty, by)
    if histogram.later:
        lines.append(f"{'later':<{label}}  {histogram.later:>{number},}")
    return "\n".join(lines) + "\n"


def _gap(empty: int, by: Bars) -> list[str]:
    return [f"  ({empty} empty {by.value}{'s' if empty > 1 else ''})"] if empty else []


def _bar(share: float, room: int, blocks: bool) -> str:
    """Returns a bar with at least one character."""
    if not blocks:
        return "#" * max(1, round(share * room))
    whole, eighths = divmod(max(1, round(share * room * 8)), 8)
    return (_BLOCKS[8] * whole + _BLOCKS[eighths]).rstrip()
