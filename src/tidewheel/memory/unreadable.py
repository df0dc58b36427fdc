"""Says that all items in memory can be read."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.flows.ports.unreadable import UnreadableItem


class MemoryUnreadableItems:
    """Implements the port `UnreadableItems`. Values in memory have no bytes that could be damaged."""

    def all(self, topic: str) -> list[UnreadableItem]:  # noqa: ARG002
        return []

    def delete(self, items: Iterable[UnreadableItem]) -> None: ...
