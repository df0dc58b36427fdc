"""Tells when the sweep has work, so that virtual years pass quickly over an idle stack."""

from __future__ import annotations

from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.model.schedule_expressions import Every
from tidewheel.storage import items
from tidewheel.storage.checks import Checks
from tidewheel.storage.table_keys import SERVICE

_EXPIRY_LATE_S = 2 * 86_400
"""DynamoDB deletes most expired items within two days."""
_DAY_MS = 86_400_000
_SOON_MS = 2 * _DAY_MS
"""An object is an orphan a day after its writer died. What else a change asks for, the next daily work finds."""
_LATE_MS = 30 * _DAY_MS
"""Large bodies and copies of damaged bytes are kept for 28 days, which the daily work counts from its own marks."""


class SweepWork:
    """Follows the changes of a stack's table.

    The deployed service does its daily work every day. Here, the days are left out on which it would find nothing:

        a change       2 days           30 days    31 days
        |--------------|----------------|----------|----------> time
        every day      none             once       none
    """

    def __init__(self) -> None:
        self._changes = -1
        self._changed_ms = 0
        self._beaten = 0

    def next_ms(self, stored: MemoryDynamoDBClient, now_ms: int) -> int | None:
        """Returns when the sweep next has work, of any kind. Returns None if it would find nothing to do."""
        changes = stored.writes(but=SERVICE)
        if changes != self._changes:
            self._changes, self._changed_ms = changes, now_ms
        # None: no sweep has claimed a daily work yet.
        claims = [each for each in stored.items(SERVICE) if "next_at_ms" in each]  # not the heartbeat
        claimed_ms = min(map(items.next_at_ms_of, claims), default=None)
        times = (stored.first_indexed(), None if claimed_ms is None else self._daily_ms(claimed_ms))
        return min((each for each in times if each is not None), default=None)

    def beat(self, checks: Checks, every: Every, created_ms: int, now_ms: int) -> None:
        """Notes the last tick. Either its sweep has run, or it was left out, since it would have done nothing else."""
        ticks = (now_ms - created_ms) // every.interval_ms
        if ticks > self._beaten:
            self._beaten = ticks
            checks.beat(created_ms + ticks * every.interval_ms)

    def expire(self, stored: MemoryDynamoDBClient, now_ms: int) -> None:
        """Deletes the expired items before a sweep, as DynamoDB does by itself."""
        stored.expire(now_ms // 1000 - _EXPIRY_LATE_S)

    def _daily_ms(self, claimed_ms: int) -> int | None:
        if claimed_ms >= self._changed_ms + _LATE_MS + _DAY_MS:
            return None
        return claimed_ms if claimed_ms <= self._changed_ms + _SOON_MS else max(claimed_ms, self._changed_ms + _LATE_MS)
