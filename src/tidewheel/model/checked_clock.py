"""Checks the local clock by the times in AWS's answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock

from tidewheel.clock import Clock
from tidewheel.errors import ClockDoubted

MAX_ERROR_MS = 2_000
"""A local clock with a smaller error is not doubted. An error a second larger, plus the length of a call, always is. A
front end of AWS may have the same error beside the others."""
_DATE_MS = 1_000
"""AWS's answers tell whole seconds."""
_MOST_ASKED = 3


class CheckedClock:
    """A clock that raises `ClockDoubted` if AWS's answers contradict the time. Safe for several threads.

    An answer's time, and the local times before and after the call, bound the error of the local clock. The bounds of
    all answers of an invocation are intersected. If the error is still not known to 2 s when the time is asked for, a
    cheap read is repeated. An answer without a time tells nothing.

    Args:
        local: the machine's clock.
        ask: makes a cheap read of AWS, whose answer is observed. By default nothing.

    Attributes:
        local: the machine's clock.
    """

    def __init__(self, local: Clock, ask: Callable[[], object] = lambda: None) -> None:
        self.local, self.ask = local, ask
        self._lock = Lock()
        self.forget()

    def forget(self) -> None:
        """Forgets all answers. Each invocation begins so, because a machine may have been frozen before."""
        with self._lock:
            self._least_ms, self._most_ms = -math.inf, math.inf
            self._aws_ms, self._local_ms = 0, 0
            self._asked = 0

    def observe(self, before_ms: int, after_ms: int, aws_ms: int) -> None:
        """Notes an answer.

        Args:
            before_ms: local time before the call.
            after_ms: local time after the call.
            aws_ms: the answer's time, in whole seconds.
        """
        with self._lock:
            self._least_ms = max(self._least_ms, before_ms - aws_ms - _DATE_MS)
            self._most_ms = min(self._most_ms, after_ms - aws_ms)
            self._aws_ms, self._local_ms = aws_ms, after_ms

    def now_ms(self) -> int:
        """Returns the local time in milliseconds since the Unix epoch.

        Raises:
            ClockDoubted: the local clock is wrong by more than 2 s, or has jumped.
        """
        while not self._most_ms - self._least_ms < MAX_ERROR_MS and self._asked < _MOST_ASKED:
            self._asked += 1
            with suppress(Exception):  # the answer of a refusal has a time, too
                self.ask()
            if self._most_ms == math.inf:  # answers here have no time
                self._asked = _MOST_ASKED
        doubt = self.doubt()
        if doubt is not None:
            raise doubt
        return self.local.now_ms()

    @property
    def spread_ms(self) -> float:
        """How far AWS's answers contradict each other, beyond their whole seconds and the length of the calls."""
        return max(0.0, self._least_ms - self._most_ms)

    @property
    def error_ms(self) -> float:
        """How far the local clock is ahead by the answers so far. 0 while they do not tell, or tell nonsense."""
        error_ms = (self._least_ms + self._most_ms) / 2
        return error_ms if abs(error_ms) < MAX_ERROR_MS else 0.0

    def doubt(self) -> ClockDoubted | None:
        """Returns the error raised by `now_ms` after the answers so far, if any."""
        with self._lock:
            ahead, behind = self._least_ms >= MAX_ERROR_MS, self._most_ms < -MAX_ERROR_MS
            jumped = self._least_ms - self._most_ms > MAX_ERROR_MS
            if not (ahead or behind or jumped):
                return None
            return ClockDoubted(_utc(self._local_ms), _utc(self._aws_ms))


def begin_invocation(clock: Clock) -> None:
    """Forgets the times reported by AWS in an earlier invocation."""
    if isinstance(clock, CheckedClock):
        clock.forget()


def unchecked_ms(clock: Clock) -> int:
    """Returns the local time without a check, where a wrong time does no harm."""
    return clock.local.now_ms() if isinstance(clock, CheckedClock) else clock.now_ms()


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).isoformat()
