"""Objects that a merge replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trash:
    """Objects that a merge replaced.

    Attributes:
        sealed: the topic state's, as read before the swap. No plan that names the objects ends above.
        read_until: the end of the last slot below `sealed` in which the objects may have rows. They are dead once
            `collected_until` reaches this slot. None: `sealed`.
    """

    sealed: int
    id: str
    objects: tuple[str, ...]
    read_until: int | None = None

    @property
    def dead_from(self) -> int:
        """The value of `collected_until` from which on nobody reads the objects."""
        return self.sealed if self.read_until is None else self.read_until
