"""Replaces attributes of moto while a local stack is open, and restores them."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Holds a stack of replaced attributes. `undo` restores the last first, whatever happened in between."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, object]] = []

    def set(self, owner: Any, name: str, value: object) -> None:
        """Replaces `owner.name`."""
        self._undo.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restores everything, last first. Harmless when called twice."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
