"""The port to items of the table that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableItem:
    """An item of a topic that cannot be read.

    Attributes:
        what: "subscription", "ledger", "plan", "delivery", "park", "set-aside item", "merged ledger", "recurring
            message" or "cancelled message".
        name: names the item among these of its topic.
        error: why it cannot be read.
    """

    topic: str
    what: str
    name: str
    error: Exception


class UnreadableItems(Protocol):
    """The items of each topic that cannot be read."""

    def all(self, topic: str) -> list[UnreadableItem]:
        """Finds all items of a topic that cannot be read, except its keys. Reads all items of the topic."""
        ...

    def delete(self, items: Iterable[UnreadableItem]) -> None:
        """Deletes items. Missing items are ignored."""
        ...
