"""Lets a worker finish what it has begun before SIGTERM or Ctrl-C ends it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

_USUAL: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
"""The handlers that Python sets. A program with others decides itself what a signal means."""


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
        self._installed: list[signal.Signals] = []

    def __enter__(self) -> Self:
        if self._wanted and threading.current_thread() is threading.main_thread():
            self._installed = [number for number, usual in _USUAL.items() if signal.getsignal(number) == usual]
            for number in self._installed:
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
        for number in self._installed[:1] if hasattr(signal, "pthread_kill") else ():
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
        for number in self._installed:
            signal.signal(number, _USUAL[number])
        self._installed = []
