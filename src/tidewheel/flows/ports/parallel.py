"""The port to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol


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
