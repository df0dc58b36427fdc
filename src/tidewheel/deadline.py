"""Bounds the time of a call: a deadline that travels with the call's context, in no signature.

A function is ended at its time-out, in the middle of an AWS call. What stands behind that call would never happen. So
the deadline ends earlier, and each AWS call asks `check` before each try. A flow keeps time for what must follow with
`reserve`, and divides time among topics or queues with `share`. Work that has no time left raises `OutOfTime`, and goes
the way of a refused call: it comes again or is parked.

A call of the SDK has `patience`: its deadline moves with each answer of AWS, so that long work may go on.

Without a deadline, as in a job, nothing is bounded here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from tidewheel.errors import OutOfTime

TRY_S = 7
"""The longest that one try of an AWS call takes: no try begins with less before the end of the call."""
_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Deadline:
    """The end of a call, and how much before it the present work must end.

    Attributes:
        remaining_s: tells how many seconds the call has left.
        kept_s: seconds at the end that are kept for other work.
        answered: moves the end, when AWS did what it was asked.
    """

    remaining_s: Callable[[], float]
    kept_s: float = 0.0
    answered: Callable[[], None] = lambda: None


_current: ContextVar[_Deadline | None] = ContextVar("tidewheel_deadline", default=None)


def left_s() -> float:
    """Returns how many seconds the present work has left; infinity without a deadline, negative after it."""
    deadline = _current.get()
    return inf if deadline is None else deadline.remaining_s() - deadline.kept_s


def check(try_s: float = TRY_S, what: str = "another AWS call") -> None:
    """Returns if a try of an AWS call may begin.

    Args:
        try_s: the longest that the try takes.
        what: the AWS call, for the error.

    Raises:
        OutOfTime: the present work has used up its time, or the call ends before the try would.
    """
    deadline = _current.get()
    if deadline is None:
        return
    remaining_s = deadline.remaining_s()
    if remaining_s < try_s or remaining_s <= deadline.kept_s:
        raise OutOfTime(what)


def sleep(seconds: float) -> None:
    """Waits, at most until the present work's time is over."""
    time.sleep(max(0.0, min(seconds, left_s())))


def ends_in(remaining_s: Callable[[], float]) -> AbstractContextManager[None]:
    """Begins a call that has so many seconds left."""
    return _use(_Deadline(remaining_s))


@contextmanager
def patience(seconds: float | Callable[[], float]) -> Iterator[None]:
    """Gives the block some seconds, and as many again after each answer. A block inside another changes nothing.

    Args:
        seconds: a function's answer may change while the block waits.
    """
    last_s = deque([time.monotonic()], maxlen=1)

    def remaining_s() -> float:
        return last_s[0] + (seconds() if callable(seconds) else seconds) - time.monotonic()

    own = _Deadline(remaining_s, answered=lambda: last_s.append(time.monotonic()))
    with _use(_current.get() or own):
        yield


def answered() -> None:
    """Tells the present call that AWS did the request."""
    deadline = _current.get()
    if deadline is not None:
        deadline.answered()


def within(seconds: float) -> AbstractContextManager[None]:
    """Gives the block some seconds, or the remaining time if less."""
    deadline = _current.get()
    if deadline is None:
        end_s = time.monotonic() + seconds
        deadline = _Deadline(lambda: end_s - time.monotonic())
    return _use(replace(deadline, kept_s=max(deadline.kept_s, deadline.remaining_s() - seconds)))


def share(of: int) -> AbstractContextManager[None]:
    """Gives the block one of several equal shares of the remaining time."""
    left = left_s()
    return nullcontext() if left == inf else within(left / of)


def reserve(seconds: float) -> AbstractContextManager[None]:
    """Reserves some seconds, at most half of the remaining time, for the work after the block.

    The last try of the block may take TRY_S of them.
    """
    left = left_s()
    return nullcontext() if left == inf else within(left - min(seconds, left / 2))


def carried(call: Callable[[_Argument], _Result]) -> Callable[[_Argument], _Result]:
    """Returns a function that other threads can call with the present deadline and clock."""
    context = copy_context()

    def run(argument: _Argument) -> _Result:
        return context.copy().run(call, argument)

    return run


@contextmanager
def _use(deadline: _Deadline) -> Iterator[None]:
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)
