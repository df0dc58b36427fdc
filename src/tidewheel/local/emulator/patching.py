"""Replaces attributes of moto while a local stack is open, and restores them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch


class Patches(ExitStack):
    """Holds a stack of replaced attributes. `close` restores the last first, whatever happened in between."""

    def set(self, owner: Any, name: str, value: object) -> None:
        """Replaces `owner.name`."""
        self.enter_context(patch.object(owner, name, value, create=True))
