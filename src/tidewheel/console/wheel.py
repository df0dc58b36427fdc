"""Draws the wheel: waiting messages by time until due, on a logarithmic axis from a second to ten years."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidewheel.client.operations.histogram import DueBar
from tidewheel.console.text import duration

WIDTH, FLOOR = 880, 220
"""The width of the picture, and where the bars stand, in its own units."""
_BAR = WIDTH / 11
_LEAST = 3


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the picture and a row of the table.

    Attributes:
        label: how long until it is due at most, such as "1 h".
        first, end: the due times of its messages; first is None for the first bar, which has overdue ones.
    """

    label: str
    messages: int
    x: float
    y: float
    width: float
    height: float
    first: datetime | None
    end: datetime


def bars(found: Sequence[DueBar], now: datetime) -> list[Bar]:
    """Places the bars. Heights grow with the logarithm, so that one message is seen beside a million."""
    most = math.log10(max([each.messages for each in found], default=0) + 1) or 1
    drawn, first = [], None
    for place, each in enumerate(found):
        height = (FLOOR - 44) * math.log10(each.messages + 1) / most
        height = max(_LEAST, height) if each.messages else 0
        end = now + timedelta(seconds=each.until_s)
        drawn.append(
            Bar(
                duration(each.until_s),
                each.messages,
                round(place * _BAR + 6, 1),
                round(FLOOR - height, 1),
                round(_BAR - 12, 1),
                round(height, 1),
                first,
                end,
            )
        )
        first = end
    return drawn


def together(many: Sequence[Sequence[DueBar]]) -> list[DueBar]:
    """Adds the bars of several topics."""
    return [
        DueBar(until_s=same[0].until_s, messages=sum(each.messages for each in same))
        for same in zip(*many, strict=True)
    ]


def place(seconds: float, found: Sequence[DueBar]) -> float:
    """Returns where a time from now lies on the axis."""
    before = 0.1
    for number, each in enumerate(found):
        if seconds <= each.until_s:
            share = math.log(max(seconds, before) / before) / math.log(each.until_s / before)
            return round((number + share) * _BAR, 1)
        before = each.until_s
    return WIDTH
