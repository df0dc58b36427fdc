"""The port to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Protocol, TypeVar

T = TypeVar("T")


_MOST_FAILED = 10
_TRIES = 4


class Parallel(Protocol):
    """Runs calls side by side."""

    def __call__(self, call: Callable[[int], None], arguments: Iterable[int], /) -> Iterable[None]:
        """Calls `call` with each argument, in any order. An exception is raised when its result is taken.

        The built-in `map` and an executor's `map` fit this port.
        """
        ...


def in_order(call: Callable[[int], None], arguments: Iterable[int], /) -> Iterator[None]:
    """Implements the port `Parallel` without threads, in order.

    Each call runs when its result is taken.
    """
    for argument in arguments:
        call(argument)
        yield


def each_alone(parallel: Parallel, call: Callable[[int], None], arguments: Iterable[int]) -> dict[int, Exception]:
    """Calls `call` with each argument, side by side. Returns the errors by argument.

    A single error stops no other call. Once _MOST_FAILED more calls have failed than succeeded, no further calls are
    made, so that an outage does not cost a call for each argument. The remaining arguments get the last error.
    """
    errors: dict[int, Exception] = {}
    last: list[Exception] = []
    surplus, lock = 0, Lock()

    def one(argument: int) -> None:
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

    for _ in parallel(one, arguments):
        pass
    return errors


def persistently(call: Callable[[], T]) -> T:
    """Makes a write whose failure costs copies, with at most _TRIES tries. Raises the last error.

    The adapters wait between their own tries.
    """
    for _ in range(_TRIES - 1):
        with suppress(Exception):
            return call()
    return call()
