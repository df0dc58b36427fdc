"""Parses delays and times given by callers."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from tidewheel.errors import InvalidValue

MAX_DELAY_MS = 3653 * 86_400_000
"""Ten years, with their leap days."""

MIN_WINDOW_MS = 1000
"""A shorter window has no effect: SQS delays by whole seconds."""
MAX_WINDOW_MS = 7 * 86_400_000

_BEYOND_MS = 1e15
"""Above every limit here, but small enough for a float to distinguish milliseconds."""
_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_PART = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(reversed(_UNITS_MS))})", re.ASCII)  # ms before m
_PARTS = re.compile(f"({_PART.pattern})+", re.ASCII)
_TIME = re.compile(r"(\d{4}[\dW-]*(?:[T ][\d:.,]+)?) *(Z|UTC|GMT|[+-][\d:.]+)?\Z", re.ASCII | re.IGNORECASE)
_MILLISECOND = timedelta(milliseconds=1)
Typed = TypeVar("Typed", str, str | None)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_CHARACTERS = 200
_UNITS = " ".join(_UNITS_MS)
_HOW = f"give seconds as a number, a timedelta, or text such as '90s', '15m' or '3d 4h' (units {_UNITS})"
_WHEN = "give an aware datetime or Unix seconds"


def delay_ms(delay: float | timedelta | str, field: str = "delay") -> int:
    """Returns a delay in whole milliseconds, rounded up.

    Args:
        delay: seconds, a timedelta, or text such as "3d 4h".
        field: the argument's name for the error.

    Raises:
        InvalidValue: the value is not a delay, is negative, or is over ten years.
    """
    if isinstance(delay, timedelta):
        result = _ceil_ms(delay)
    elif isinstance(delay, str):
        result = _parse(delay, field)
    elif isinstance(delay, (int, float)) and not isinstance(delay, bool):
        result = _whole_ms(delay, field, delay, _HOW)
    else:
        raise InvalidValue(field, delay, _HOW)
    if result < 0:
        raise InvalidValue(field, delay, "a delay cannot be negative; for a time in the past use deliver_at")
    if result > MAX_DELAY_MS:
        raise InvalidValue(field, delay, "at most ten years (3653 days)")
    return result


def delay_of(text: Typed) -> float | Typed:
    """Returns the delay that a person typed: seconds, text for `delay_ms`, or None."""
    try:
        return float(text or "")
    except ValueError:
        return text


def window_ms(window: float | timedelta | str) -> int:
    """Returns the length of a window in milliseconds.

    Args:
        window: seconds, a timedelta, or text such as "15m".

    Raises:
        InvalidValue: the value is not a duration, or not from one second to seven days.
    """
    result = delay_ms(window, "window")
    if not MIN_WINDOW_MS <= result <= MAX_WINDOW_MS:
        raise InvalidValue("window", window, "give 1 s to 7 days, or no window")
    return result


def _parse(text: str, field: str) -> int:
    stripped = text.strip()
    if len(stripped) > _MOST_CHARACTERS or _PARTS.fullmatch(stripped) is None:
        raise InvalidValue(field, text, _HOW)
    total = sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(stripped))
    return _whole_ms(total / 1000, field, text, _HOW)


def _ceil_ms(delta: timedelta) -> int:
    whole, rest = divmod(delta, _MILLISECOND)
    return whole + bool(rest)


def _whole_ms(seconds: float, field: str, value: object, advice: str) -> int:
    """Rounds up to a millisecond, without errors of float arithmetic."""
    if type(seconds) is int and -_BEYOND_MS < seconds * 1000 < _BEYOND_MS:
        return seconds * 1000
    try:
        ms = float(seconds) * 1000
    except OverflowError:  # an int that no float holds, and perhaps too long to print
        raise InvalidValue(field, f"a number of {int(seconds).bit_length()} bits", advice) from None
    if not math.isfinite(seconds):
        raise InvalidValue(field, value, advice)
    return math.ceil(round(max(-_BEYOND_MS, min(_BEYOND_MS, ms)), 3))


def at_ms(field: str, at: datetime | float) -> int:
    """Returns a time in milliseconds since the epoch, rounded up.

    Args:
        field: the name of the caller's argument, for the error.
        at: an aware datetime, or Unix seconds.

    Raises:
        InvalidValue: the value is a naive datetime, or not a time.
    """
    if isinstance(at, datetime):
        if at.tzinfo is None or at.utcoffset() is None:
            raise InvalidValue(field, at, "add a time zone, for example datetime(..., tzinfo=timezone.utc)")
        return _ceil_ms(at - _EPOCH)
    if isinstance(at, (int, float)) and not isinstance(at, bool):
        return _whole_ms(at, field, at, _WHEN)
    raise InvalidValue(field, at, _WHEN)


def read_time(text: str) -> datetime | None:
    """Returns a time in ISO 8601, such as 2027-01-31T09:00Z, or None for another text.

    Seconds and the zone may be missing. A space may stand for the T, and before the zone.
    """
    found = _TIME.match(text.strip())
    if found is None:
        return None
    zone = found[2] or ""
    try:
        return datetime.fromisoformat(f"{found[1].upper()}{zone if zone[:1] in '+-' else 'Z'}")
    except ValueError:
        return None


def deliver_at_ms(deliver_at: datetime | float, now_ms: int) -> int:
    """Returns a due time in milliseconds since the epoch. A past time means now.

    Args:
        deliver_at: an aware datetime, or Unix seconds.
        now_ms: the sender's time.

    Raises:
        InvalidValue: the value is a naive datetime, not a time, or more than ten years ahead.
    """
    result = at_ms("deliver_at", deliver_at)
    if result > now_ms + MAX_DELAY_MS:
        raise InvalidValue("deliver_at", deliver_at, "at most ten years ahead; are these milliseconds?")
    return max(result, now_ms)
