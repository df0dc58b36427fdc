"""Simulated time, as an offset in a file that every process of the artifact adds to the machine's time."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_OFFSET = struct.Struct("=q")
_NS_PER_MS = 1_000_000


class MovedClock:
    """The clock shared by all processes started with `inside/launch.py` and this clock's file.

    It runs on its own and jumps ahead when told to: work takes the time that it takes.
    """

    def __init__(self, file: Path, start_ms: int) -> None:
        self.file = file
        file.write_bytes(_OFFSET.pack(0))
        with file.open("r+b") as opened:
            self._view = mmap.mmap(opened.fileno(), _OFFSET.size)
        self._set(start_ms)

    def now_ms(self) -> int:
        """Returns the simulated time in milliseconds since the Unix epoch."""
        return (time.time_ns() + _OFFSET.unpack_from(self._view)[0]) // _NS_PER_MS

    def jump_to(self, at_ms: int) -> None:
        """Moves ahead to a time. Does nothing for a past time."""
        if at_ms > self.now_ms():
            self._set(at_ms)

    def _set(self, at_ms: int) -> None:
        _OFFSET.pack_into(self._view, 0, at_ms * _NS_PER_MS - time.time_ns())
