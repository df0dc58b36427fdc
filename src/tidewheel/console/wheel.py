"""Draws the wheel, and the hours.

The wheel has the waiting messages by time until due, on a logarithmic axis from a second to ten years. The hours have
the messages that were sent in each of the last seven days' hours, and those that are due in each of the next 48.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tidewheel.client.history import SentHour
from tidewheel.client.operations.histogram import DueBar, EstimatedHistogram
from tidewheel.console.text import duration

WIDTH, FLOOR = 880, 220
"""The width of the picture, and where the bars stand, in its own units."""
_BAR = WIDTH / 11
_LEAST = 3
_HOUR = WIDTH / (24 * 9)


def bars(found: Sequence[DueBar], now: datetime) -> list[dict[str, Any]]:
    """Places the bars. Heights grow with the logarithm, so that one message is seen beside a million.

    Returns:
        For each bar, how long until its messages are due at most, such as "1 h", their number, the bar's place, and the
        first due time of its messages. None for the first bar, which has overdue ones.
    """
    most = math.log10(max([each.messages for each in found], default=0) + 1) or 1
    drawn, first = list[dict[str, Any]](), None
    for place, each in enumerate(found):
        height = (FLOOR - 44) * math.log10(each.messages + 1) / most
        height = round(max(_LEAST, height), 1) if each.messages else 0
        box = {"x": round(place * _BAR + 6, 1), "y": round(FLOOR - height, 1), "width": round(_BAR - 12, 1)}
        told = {"label": duration(each.until_s), "messages": each.messages, "first": first}
        drawn.append({**told, **box, "height": height})
        first = now + timedelta(seconds=each.until_s)
    return drawn


def hours(sent: Sequence[Sequence[SentHour]], due: Sequence[EstimatedHistogram]) -> dict[str, Any] | None:
    """Returns the values of the template of hours, for some topics. None: there are none."""
    past = [sum(same) for same in zip(*([each.messages for each in of] for of in sent), strict=True)]
    coming = [sum(same) for same in zip(*(each.bars for each in due), strict=True)]
    if not past or not coming:
        return None
    most = max(*past, *coming, 1)

    def bars(counts: list[int], first: int) -> str:
        tops = ((first + number, (FLOOR - 44) * count / most) for number, count in enumerate(counts) if count)
        return "".join(
            f"M{x * _HOUR:.1f} {FLOOR}v-{max(1, height):.1f}h{_HOUR - 0.6:.1f}V{FLOOR}z" for x, height in tops
        )

    days = [(_HOUR * 24 * day, f"{7 - day} d ago" if day < 7 else "now" if day == 7 else "+1 d") for day in range(9)]
    rows = [
        *(("sent this hour", past[-1]), ("sent in 24 hours", sum(past[-24:])), ("sent in 7 days", sum(past))),
        *(("due this hour", coming[0]), ("due in 24 hours", sum(coming[:24])), ("due in 48 hours", sum(coming))),
        ("most in an hour", most),
    ]
    return {"sent": bars(past, 0), "due": bars(coming, len(past) - 1), "days": days, "rows": rows, "most": most}


def place(seconds: float, found: Sequence[DueBar]) -> float:
    """Returns where a time from now lies on the axis."""
    before = 0.1
    for number, each in enumerate(found):
        if seconds <= each.until_s:
            share = math.log(max(seconds, before) / before) / math.log(each.until_s / before)
            return round((number + share) * _BAR, 1)
        before = each.until_s
    return WIDTH
