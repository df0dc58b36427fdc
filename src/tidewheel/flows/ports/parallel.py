"""The port to threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from threading import Lock
from typing import Protocol, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_MOST_FAILED = 10
_TRIES = 4


class Parallel(Protocol):
    """Runs calls side by side."""

    def __call__(self, call: Callable[[T], object], arguments: Iterable[T], /) -> None:
        """Calls `call` with each argument, in any order. Waits for all, and raises the first error by argument."""
        ...


def in_order(call: Callable[[T], object], arguments: Iterable[T], /) -> None:
    """Implements the port `Parallel` without threads, in order. The first error stops the others."""
    for argument in arguments:
        call(argument)


def each_alone(parallel: Parallel, call: Callable[[K], object], arguments: Iterable[K]) -> dict[K, Exception]:
    """Calls `call` with each argument, side by side. Returns the errors by argument.

    A single error stops no other call. Once _MOST_FAILED more calls have failed than succeeded, no further calls are
    made, so that an outage does not cost a call for each argument. The remaining arguments get the last error.
    """
    errors: dict[K, Exception] = {}
    last: list[Exception] = []
    surplus, lock = 0, Lock()

    def one(argument: K) -> None:
        nonlocal surplus
        try:
            if surplus >= _MOST_FAILED:
                raise last[-1]
            call(argument)
        except Exception as error:
            errors[argument] = error
            last.append(error)
            change = 1
        else:
            change = -1
        with lock:
            surplus = max(0, surplus + change)

    parallel(one, arguments)
    return errors


def persistently(call: Callable[[], T]) -> T:
    """Makes a write whose failure costs copies, with at most _TRIES tries. Raises the last error.

    The adapters wait between their own tries.
    """
    for _ in range(_TRIES - 1):
        with suppress(Exception):
            return call()
    return call()
