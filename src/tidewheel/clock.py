"""Provides clocks, the only source of time in this package."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol
from weakref import WeakKeyDictionary


class Clock(Protocol):
    """Returns the current time."""

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC."""
        ...


def utc(at_ms: int) -> datetime:
    """Returns a time in milliseconds since the Unix epoch as a datetime."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000


class MovedClock(SystemClock):
    """The machine's clock, ahead by the time that was skipped.

    Attributes:
        offset_ms: how far this clock is ahead of the machine's.
    """

    def __init__(self, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch, UTC, of the moved time."""
        return super().now_ms() + self.offset_ms

    def set_ms(self, now_ms: int) -> None:
        """Moves the clock forward to a time. Does nothing for an earlier time."""
        self.offset_ms += max(0, now_ms - self.now_ms())


class ManualClock:
    """A clock that only its methods move, for tests and virtual time."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """Returns the time to which the clock was last moved."""
        return self._now_ms

    def set_ms(self, now_ms: int) -> None:
        """Moves the clock to a time. Raises ValueError for an earlier time."""
        if now_ms < self._now_ms:
            raise ValueError(f"time does not go back from {self._now_ms} to {now_ms}")
        self._now_ms = now_ms

    def advance_ms(self, delta_ms: int) -> None:
        """Moves the clock forward by delta_ms."""
        self.set_ms(self._now_ms + delta_ms)


def pauses(clock: Clock) -> Callable[[int], None]:
    """Returns a wait of some milliseconds. The wait returns at once if only its owner moves the clock."""
    return (lambda ms: time.sleep(ms / 1000)) if isinstance(clock, SystemClock) else (lambda _: None)


_told: WeakKeyDictionary[object, Clock] = WeakKeyDictionary()


def tell(core_session: object, clock: Clock) -> None:
    """Makes `of` return a clock for a botocore session, and for the boto3 sessions that are made of it."""
    _told[core_session] = clock


def of(session: Any) -> Clock:
    """Returns the clock of a boto3 session's local stack, or `current()`. None: boto3's default session."""
    core = getattr(session, "_session", None)
    return (core and _told.get(core)) or current()


_current: ContextVar[Clock | None] = ContextVar("tidewheel_clock", default=None)


def current() -> Clock:
    """Returns the clock of the enclosing `use`, or the machine's clock."""
    return _current.get() or SystemClock()


@contextmanager
def use(clock: Clock) -> Iterator[Clock]:
    """Makes `current` return this clock inside the block."""
    token = _current.set(clock)
    try:
        yield clock
    finally:
        _current.reset(token)
