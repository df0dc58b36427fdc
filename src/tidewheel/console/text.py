"""Shows values as text: times with their zone, numbers, and characters that would deceive the eye."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Undefined
from markupsafe import Markup, escape

from tidewheel.model.untrusted import DECEIVING, visible

BODY_IN_LISTS = 200
"""Characters of a body in a list."""
BODY_IN_DETAIL = 64 * 1024
"""Characters of a body on the message's own page."""

_UNITS = ((31_536_000, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def printed(value: Any) -> Any:
    """Returns a value as Jinja prints it: text without deceiving characters, and nothing for None."""
    if isinstance(value, (Markup, Undefined)) or not isinstance(value, str):
        return "" if value is None else value
    return visible(value)


def exact(value: str) -> Markup:
    """Returns text for the value of a field. The browser sends it back as it is, deceiving characters included."""
    return Markup(DECEIVING.sub(lambda found: f"&#x{ord(found[0]):x};", escape(value)))


def short(text: str, most: int = BODY_IN_LISTS) -> str:
    """Returns the beginning of a text."""
    return text if len(text) <= most else text[:most] + "..."


def number(value: float | None) -> str:
    """Returns a whole number with commas, or a dash."""
    return "-" if value is None else f"{value:,.0f}"


def size(value: float) -> str:
    """Returns a number of bytes with its unit."""
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:,.0f} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


def money(value: float) -> str:
    """Returns dollars. Small sums keep two digits that count."""
    return f"${value:,.2f}" if value >= 0.01 or value == 0 else f"${value:.8f}".rstrip("0")


def duration(span: timedelta | float) -> str:
    """Returns a duration in its two largest units, such as "2 d 18 h"."""
    left = int(abs(span.total_seconds() if isinstance(span, timedelta) else span))
    parts: list[str] = []
    for unit_s, unit in _UNITS:
        count, left = divmod(left, unit_s)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def relative(at: datetime, now: datetime) -> str:
    """Returns a time from now, such as "in 3 min 12 s" or "2 h ago"."""
    span = at - now
    return f"in {duration(span)}" if span > timedelta(0) else f"{duration(span)} ago"


def moment(at: datetime | None, now: datetime, *, relation: bool = True) -> Markup:
    """Returns a time element with its zone, and beside it the time from now.

    The page's script keeps the time from now right, and shows the time in the reader's own zone.
    """
    if at is None:
        return Markup("-")
    at = at.astimezone(UTC)
    text = f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at.microsecond // 1000:03d}" if at.microsecond else "") + " UTC"
    shown = Markup('<time datetime="{}">{}</time>').format(at.isoformat(timespec="milliseconds"), text)
    return shown + Markup(" ") + rel(at, now) if relation else shown


def rel(at: datetime, now: datetime) -> Markup:
    """Returns a time from now, which the page's script keeps right."""
    at_ms = int(at.timestamp() * 1000)
    return Markup('<span class="rel" data-at="{}">{}</span>').format(at_ms, relative(at, now))


def zoned(at: datetime, zone: str) -> Markup:
    """Returns a time element in a zone of its own, with the day of the week. The page's script leaves it."""
    text = f"{at.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M:%S %Z}"
    return Markup('<time class="fixed" datetime="{}">{}</time>').format(at.isoformat(timespec="milliseconds"), text)
