"""Where time comes from: nothing else in this package asks the machine what time it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to: for tests and for the local runtime's virtual time."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """Returns what it was last moved to."""
        return self._now_ms

    def set_ms(self, now_ms: int) -> None:
        """Moves to a time; moving back is refused with ValueError."""
        if now_ms < self._now_ms:
            raise ValueError(f"time does not go back from {self._now_ms} to {now_ms}")
        self._now_ms = now_ms

    def advance_ms(self, delta_ms: int) -> None:
        """Moves forward by delta_ms."""
        self.set_ms(self._now_ms + delta_ms)


_current: ContextVar[Clock | None] = ContextVar("tidewheel_clock", default=None)


def current() -> Clock:
    """Returns the clock that `use` put in place, else the machine's."""
    return _current.get() or SystemClock()


@contextmanager
def use(clock: Clock) -> Iterator[Clock]:
    """Makes `current` return this clock inside the block."""
    token = _current.set(clock)
    try:
        yield clock
    finally:
        _current.reset(token)
