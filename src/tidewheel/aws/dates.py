"""Tells a clock the times in AWS's answers."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from tidewheel.model.checked_clock import CheckedClock

if TYPE_CHECKING:
    from botocore.hooks import BaseEventHooks

_BEFORE = "tidewheel_before_ms"


def watch_dates(events: BaseEventHooks, clock: CheckedClock) -> None:
    """Tells a clock the `Date` of each answer, refusals included.

    Watches the clients that are made later with these events. A request that botocore repeats counts as one long call.
    """

    def before(context: dict[str, Any], **_: Any) -> None:
        context[_BEFORE] = clock.local.now_ms()

    def after(context: dict[str, Any], http_response: Any, **_: Any) -> None:
        after_ms = clock.local.now_ms()
        date, before_ms = http_response.headers.get("Date"), context.get(_BEFORE)
        if date is None or before_ms is None:
            return
        try:
            aws_ms = int(parsedate_to_datetime(date).timestamp()) * 1000
        except ValueError:
            return
        clock.observe(before_ms, after_ms, aws_ms)

    events.register("before-call", before)
    events.register("after-call", after)
