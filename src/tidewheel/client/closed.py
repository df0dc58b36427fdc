"""What is said to whoever uses something that was closed."""

from __future__ import annotations

from tidewheel.errors import TidewheelError


class Closed(TidewheelError):
    """It was closed, or belongs to another process; nothing was sent. Make a new one."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"this {what} {reason}: make a new one")
