"""Tells when the sweep has daily work, so that virtual years pass quickly over an idle stack."""

from __future__ import annotations

_DAY_MS = 86_400_000
_SOON_MS = 2 * _DAY_MS
"""An object is an orphan a day after its writer died. What else a change asks for, the next daily work finds."""
_LATE_MS = 30 * _DAY_MS
"""Large bodies and copies of damaged bytes are kept for 28 days, which the daily work counts from its own marks."""


class DailyWork:
    """Follows a stack's changes.

    The deployed service does its daily work every day. Here, the days are left out on which it would find nothing:

        a change       2 days           30 days    31 days
        |--------------|----------------|----------|----------> time
        every day      none             once       none
    """

    def __init__(self) -> None:
        self._changes: object = None
        self._changed_ms = 0

    def next_ms(self, at_ms: int | None, changes: object, now_ms: int) -> int | None:
        """Returns when the next daily work is to be done. Returns None if it would find nothing to do.

        Args:
            at_ms: when the next daily work may be claimed. None: no sweep has claimed one yet.
            changes: another value after each change of the stored items, except claims of daily work.
            now_ms: the time.
        """
        if changes != self._changes:
            self._changes, self._changed_ms = changes, now_ms
        if at_ms is None or at_ms >= self._changed_ms + _LATE_MS + _DAY_MS:
            return None
        return at_ms if at_ms <= self._changed_ms + _SOON_MS else max(at_ms, self._changed_ms + _LATE_MS)
