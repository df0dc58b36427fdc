"""Defines sinks, which take an object's bytes piece by piece."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """Takes an object's bytes in order, such as a file or an upload."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Takes the next bytes."""
        ...
