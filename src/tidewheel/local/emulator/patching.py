"""Replacing attributes of moto for as long as a local stack is open, and putting them back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """A stack of replaced attributes. `undo` restores them last first, whatever happened between."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, object]] = []

    def set(self, owner: Any, name: str, value: object) -> Any:
        """Replaces `owner.name`; returns what stood there (None if nothing did)."""
        before = vars(owner).get(name, _ABSENT)
        self._undo.append((owner, name, before))
        current = getattr(owner, name, None)
        setattr(owner, name, value)
        return current

    def undo(self) -> None:
        """Restores everything, last first. Harmless when called twice."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
