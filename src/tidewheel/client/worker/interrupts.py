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

    Attributes:
        caught: whether there was a signal.
    """

    def __init__(self, wanted: bool) -> None:
        self.caught = False
        self._wanted = wanted
        self._late = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if self._wanted and threading.current_thread() is threading.main_thread():
            found = {number: signal.getsignal(number) for number in _USUAL}
            self._before = {number: handler for number, handler in found.items() if handler in _USUAL[number]}
            for number in self._before:
                signal.signal(number, self._noted)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._restore()
        return kind is KeyboardInterrupt and self._late

    def interrupt(self) -> None:
        """Ends the block in the main thread, from another thread, by a KeyboardInterrupt that the block keeps.

        The block must wait for this call, or the signal could come after it. Windows cannot do this: there the block
        goes on.
        """
        for number in list(self._before)[:1] if hasattr(signal, "pthread_kill") else ():
            self._late = True
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _noted(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._late:
            raise KeyboardInterrupt
        if self.caught:
            self._restore()
            signal.raise_signal(number)
        self.caught = True

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
