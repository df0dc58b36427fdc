"""Shows a histogram of due times."""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from tidewheel.cli.output import table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tidewheel.client.histogram import EstimatedHistogram

_LONGEST = 40
"""Characters of the longest bar."""


class Bars(StrEnum):
    """The time that a bar of a histogram stands for."""

    HOUR = "hour"
    DAY = "day"


def histogram_parts(histogram: EstimatedHistogram, by: Bars, blocks: bool) -> list[RenderableType]:
    """Returns a histogram with a heading. A run of empty bars is a single line with its length.

    Args:
        histogram: the counts.
        by: the time that a bar stands for.
        blocks: whether the terminal shows block characters. Otherwise bars are made of '#'.
    """
    pattern = "%Y-%m-%d %H:%M" if by is Bars.HOUR else "%Y-%m-%d"
    most = max(histogram.bars)
    rows: list[tuple[str, object, str]] = []
    for count, bars in groupby(zip(histogram.starts(), histogram.bars, strict=True), key=lambda bar: bar[1]):
        starts = [at for at, _ in bars]
        if not count:
            rows.append((f"({len(starts)} empty {by.value}{'s' if len(starts) > 1 else ''})", "", ""))
        else:
            bar = ("█" if blocks else "#") * max(1, round(count / most * _LONGEST))
            rows += [(f"{at:{pattern}}", count, bar) for at in starts]
    if histogram.later:
        rows.append(("later", histogram.later, ""))
    return [f"waiting by {by.value}, UTC (estimated)", table(["", "", ""], rows)]
