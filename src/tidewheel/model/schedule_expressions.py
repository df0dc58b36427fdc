"""Reads schedule expressions of EventBridge Scheduler (`at(...)` and `rate(...)`)."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)\Z")
_RATE = re.compile(r"rate\(([1-9]\d*) (minute|hour|day)(s?)\)\Z")
_UNIT_MS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Fires once."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Fires repeatedly, at intervals from the schedule's creation."""

    interval_ms: int

    def first_at_or_after_ms(self, created_ms: int, from_ms: int) -> int:
        """Returns the first tick at or after from_ms.

        The very first tick is an interval after the schedule's creation.
        """
        ticks = max(1, -(-(from_ms - created_ms) // self.interval_ms))
        return created_ms + ticks * self.interval_ms


def parse(expression: str, timezone: str | None = None) -> Once | Every:
    """Reads an expression.

    Raises:
        ValueError: the expression is malformed, not a date, or of a kind (cron) that the local runtime does not fire.
    """
    at = _AT.match(expression)
    if at:
        try:
            zone = ZoneInfo(timezone or "UTC")
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"{timezone!r} is not a time zone") from None
        when = dt.datetime.fromisoformat(at[1]).replace(tzinfo=zone)
        return Once(at_ms=int(when.timestamp()) * 1000)
    rate = _RATE.match(expression)
    if rate and (int(rate[1]) == 1) != bool(rate[3]):
        return Every(interval_ms=int(rate[1]) * _UNIT_MS[rate[2]])
    raise ValueError(f"invalid schedule expression {expression!r}: write at(2026-01-31T12:00:00) or rate(5 minutes)")
