"""Ctrl-C while a trial is being removed: the first is told, the second stops it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def patient(say: Callable[[str], None]) -> Iterator[None]:
    """Passes over the first interrupt inside the block, since what it would leave costs money."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            signal.default_int_handler(number, frame)
        say("still removing what was made; Ctrl-C once more leaves the rest to you")

    before = {number: signal.signal(number, on_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_on_termination() -> None:
    """Makes SIGTERM end the program as Ctrl-C does: what was made is removed."""

    def on_termination(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, on_termination)
