"""Lets a worker finish messages in hand before SIGTERM or Ctrl-C ends the process."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

_USUAL: dict[signal.Signals, tuple[Any, ...]] = {
    signal.SIGTERM: (signal.SIG_DFL, signal.default_int_handler),
    signal.SIGINT: (signal.default_int_handler,),
}
"""The handlers that Python sets, and that which makes SIGTERM a Ctrl-C. A program with others decides itself."""


class Interrupts:
    """Notes the first SIGTERM or Ctrl-C, inside its `with` block in the main thread.

    The second one meets the handlers of before. Outside the main thread, or if the program has its own handler, this
    class has no effect. A handler runs between any two steps of the main thread, so it takes no lock.
    """

    def __init__(self) -> None:
        self._caught = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            found = {number: signal.getsignal(number) for number in _USUAL}
            self._before = {number: handler for number, handler in found.items() if handler in _USUAL[number]}
            for number in self._before:
                signal.signal(number, self._noted)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def is_caught(self) -> bool:
        """Returns whether there was a signal."""
        return self._caught

    def _noted(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._caught:
            self._restore()
            signal.raise_signal(number)
        self._caught = True

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
