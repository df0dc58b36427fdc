"""Stores keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge, nlargest

from tidewheel.model.key import KeyEntry
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.tombstones import late_tombstone, slot_open
from tidewheel.storage.writes import Change, Put, Value, Write, as_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInLedgers:
    """Selects the keys lost to a rebuild, because no ledger has them.

    These are cancelled and replaced keys, and keys of messages that are sealed and not due.

    Attributes:
        now_ms: a key also counts if a message that was superseded too late is due after it.
        first_id, end_id: ids of the sealed messages that are not due are in [first_id, end_id).
        most: how many entries at most. The newest cancelled and replaced keys count.
    """

    now_ms: int
    first_id: MessageId
    end_id: MessageId
    most: int

    def selects(self, entry: KeyEntry) -> bool:
        """Returns whether a key counts."""
        return entry.floor[0] > 0 or self._comes(entry)

    def most_of(self, entries: Iterable[KeyEntry]) -> list[KeyEntry]:
        """Returns the most important entries, in the order of their keys."""
        found = nlargest(self.most, entries, key=lambda each: (self._comes(each), each.version))
        return sorted(found, key=lambda each: each.key)

    def _comes(self, entry: KeyEntry) -> bool:
        return entry.tail_ms > self.now_ms or (entry.id is not None and self.first_id <= entry.id < self.end_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKeys:
    """Found keys.

    Attributes:
        examined: how many keys were read for that.
    """

    entries: list[KeyEntry]
    examined: int


_FIRST_PAGE = 16
"""Of a partition. The first fifty keys by a prefix are seldom more than this in one of the sixteen partitions."""
_LAST = "\U0010ffff"
"""Above every other character, in the order of UTF-8 and of code points."""
_PAGES = 16
"""Pages of each partition that one search reads at most: 256 MB together, or about 1,700,000 keys."""


class Keys(StoredItems):
    """The keys of each topic.

    A topic's keys are spread over sixteen partitions by a hash of the key. So no partition is hot, and all keys can be
    listed.
    """

    def read(self, topic: str, key: str) -> KeyEntry | None:
        """Reads a key's entry."""
        return self._table.read(table_keys.key_key(topic, key), items.decode_key)

    def claim(self, topic: str, entry: KeyEntry) -> KeyEntry | None:
        """Creates a key's entry. Returns None, or the existing entry.

        `put KEY IF absent`.
        """
        put = Put(item=items.encode_key(topic, entry), if_absent=True)
        item = self._table.put_or_get(put, action="claim_key", topic=topic)
        return None if item is None else items.decode_key(item)

    def move(
        self,
        topic: str,
        seen: KeyEntry,
        entry: KeyEntry,
        superseded: Tombstone | None = None,
        claim: Change | None = None,
        state: TopicState | None = None,
    ) -> bool:
        """Replaces a key's entry. Returns False if refused.

        `T{KEY = entry IF its version and floor are as seen; put TOMB IF absent; STATE check sealed <= slot, if the
        tombstone is to be certain}`. With a claim: `put TOMB IF absent or uncertain; CLAIM as given; STATE check
        subscriptions_version as read`.

        Args:
            claim: cancels the superseded message, whose slot is sealed.
            state: the topic state from which the caller knows the plain readers.
        """
        # A late cancel raises the floor alone.
        same = as_seen({"sent_ms": seen.sent_ms, "seq": seen.seq, "id": seen.id, **items.floor_fields(seen)})
        put = Put(item=items.encode_key(topic, entry), **same)
        if superseded is None:
            return self._table.put(put, action="move_key", topic=topic)
        if claim is not None:
            late = late_tombstone(topic, superseded, state)
            return self._table.commit([put, claim, *late], action="move_key", topic=topic)
        entombed = Put(item=items.encode_tombstone(topic, superseded), if_absent=True)
        writes: list[Write] = [put, entombed]
        if superseded.certain:
            writes.append(slot_open(topic, superseded.slot))
        return self._table.commit(writes, action="move_key", topic=topic)

    def with_prefix(self, topic: str, prefix: str, after: str | None = None) -> Iterator[KeyEntry]:
        """Yields the readable entries of keys with a prefix, in the order of keys.

        One query a partition and page. The first pages are small, for a caller who takes a few keys of many.

        Args:
            after: only keys above this key.
        """
        first = prefix if after is None else max(prefix, f"{after}\0")
        values = {"first": first or "\0", "last": f"{prefix}{_LAST}"}
        if values["first"] > values["last"]:
            return iter(())
        condition = "pk = :pk AND sk BETWEEN :first AND :last"
        pages = [
            self._table.query(condition, {"pk": partition, **values}, first_page=_FIRST_PAGE)
            for partition in table_keys.key_partitions(topic)
        ]
        entries = [items.each_readable(page, items.decode_key, "", {}) for page in pages]
        return merge(*entries, key=lambda each: each.key)

    def not_in_ledgers(self, topic: str, wanted: NotInLedgers) -> FoundKeys:
        """Finds keys that a rebuild could not find in ledgers. May miss changes of the last second.

        Reads a bounded number of keys. Leaves out entries that cannot be read.
        """
        examined = 0
        sought = "floor_ms > :zero OR tail_ms > :now OR id BETWEEN :first AND :end"
        values: dict[str, Value] = {"zero": 0, "now": wanted.now_ms, "first": wanted.first_id, "end": wanted.end_id}

        def found() -> Iterator[KeyEntry]:
            nonlocal examined
            for partition in table_keys.key_partitions(topic):
                pages = self._table.query_filtered(
                    "pk = :pk", {"pk": partition}, lambda: (sought, values), most_pages=_PAGES
                )
                for items_of_page, scanned in pages:
                    examined += scanned
                    # A caller who may cancel can put any item there.
                    readable = items.each_readable(items_of_page, items.decode_key, "", {})
                    yield from filter(wanted.selects, readable)

        entries = wanted.most_of(found())
        return FoundKeys(entries=entries, examined=examined)
