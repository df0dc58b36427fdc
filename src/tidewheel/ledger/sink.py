"""Where bytes go that are written piece by piece."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """Takes an object's bytes in order: a file, an upload."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Takes the next bytes."""
        ...
