"""Stores the list of all topics, which tells their names without reading the whole table."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems, Table
from tidewheel.storage.writes import Put, Value, item_of

GAP_MS = 3_600_000
"""A time without sweeps, in which an earlier release may have run."""


class TopicList(StoredItems):
    """The names of the topics. A name is listed before its topic is created, and until it is gone.

    Clients of releases without the list create topics that it lacks. So it counts only while it has a mark:

        unmarked ---> marked    the first sweep of a new table, or a client that has read the whole table
        marked ---> unmarked    a sweep after GAP_MS without sweeps

    From then on, sweeps list what such clients create.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: set[str] = set()
        self.checked = False
        """Whether a sweep of this process has looked at the mark."""

    def read(self) -> tuple[list[str], bool]:
        """Reads the names in their order, and whether none is missing. A topic that is gone may be among them."""
        found = self._table.query("pk = :pk", {"pk": layout.LISTED}, projection="pk, sk")
        names = [items.key_of(item)[1] for item in found]
        return [name for name in names if name != layout.LIST_MARK], layout.LIST_MARK in names

    def add(self, names: Iterable[str]) -> None:
        """Lists topics. `put LISTED` for each."""
        for name in names:
            self._put(name)

    def add_missing(self, names: Iterable[str]) -> None:
        """Lists topics, but those that this process has seen in the list."""
        if missing := set(names) - self._known:
            self._known |= {*self.read()[0]}
            self.add(sorted(missing - self._known))
            self._known |= missing

    def remove(self, name: str) -> None:
        """Takes a topic from the list. `delete LISTED`."""
        self._known.discard(name)
        self._table.delete((layout.LISTED, name), action="unlist_topic", topic=name)

    def mark(self) -> None:
        """Marks the list as complete. `put LISTED #`."""
        self._put(layout.LIST_MARK)

    def unmark(self) -> None:
        """Takes the mark away. `delete LISTED #`."""
        self._table.delete((layout.LISTED, layout.LIST_MARK), action="unmark_list", topic=layout.LIST_MARK)

    def _put(self, name: str) -> None:
        fields: dict[str, Value | None] = {"v": items.VERSION}
        self._table.put(Put(item=item_of((layout.LISTED, name), fields)), action="list_topic", topic=name)
