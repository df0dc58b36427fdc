"""Lets a worker finish the message in hand before Ctrl-C ends the worker."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """Makes Ctrl-C stop a worker between two messages, inside its `with` block.

    While a message is in hand, the first Ctrl-C sets `stop`, and the second Ctrl-C interrupts. While no message is in
    hand, the first Ctrl-C ends the wait and the block. Outside the main thread, or if the program has its own handler,
    this class has no effect.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._in_hand = False
        self._wait_ended = False
        self._installed = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupted)
            self._installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return kind is KeyboardInterrupt and self._wait_ended

    @contextmanager
    def message_in_hand(self) -> Iterator[None]:
        """Holds back the first Ctrl-C until the block ends."""
        self._in_hand = True
        try:
            yield
        finally:
            self._in_hand = False

    def _interrupted(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        again = self._stop.is_set()
        self._stop.set()
        if self._in_hand and not again:
            return
        self._wait_ended = not self._in_hand
        raise KeyboardInterrupt
