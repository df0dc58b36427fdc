"""The port to set-aside items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidewheel.model.set_aside import SetAside, SetAsideKey


class SetAsideItems(Protocol):
    """The set-aside items of each topic."""

    def put(self, item: SetAside) -> None:
        """Puts an item. An item that exists stays as it is.

        `put ASIDE IF absent`.
        """
        ...

    def read(self, key: SetAsideKey) -> SetAside | None:
        """Reads an item."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[SetAside]:
        """Reads all items of a topic, by subscription.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        ...

    def change(self, seen: SetAside, item: SetAside) -> bool:
        """Replaces an item. Returns False if refused.

        `put ASIDE IF tries and next_check_ms as seen`.
        """
        ...

    def delete(self, keys: Iterable[SetAsideKey]) -> None:
        """Deletes items. Missing items are ignored."""
        ...
