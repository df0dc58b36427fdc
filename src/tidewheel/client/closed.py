"""The error for the use of a closed object."""

from __future__ import annotations

from tidewheel.errors import TidewheelError


class Closed(TidewheelError):
    """The object was closed, or belongs to another process. Nothing was sent. Create a new object."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"this {what} {reason}: make a new one")
