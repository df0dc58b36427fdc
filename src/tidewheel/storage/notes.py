"""Stores notes: numbers under names, which are kept for a while."""

from __future__ import annotations

from tidewheel.errors import CorruptMetadata, NewerRelease
from tidewheel.storage import items, table_keys
from tidewheel.storage.items import Note
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Put


class Notes(StoredItems):
    """The notes of each topic.

    There is one of each pack that was sent in part and comes again: the slot below which all of its rows are done.
    There is one of each topic that a rebuild has deleted for a while, one of each message that ingest sent, and one of
    each recurring message that ended: when it would come next.
    """

    def read(self, topic: str, name: str) -> Note | None:
        """Returns a note, or None for an absent or unreadable note."""
        item = self._table.get(table_keys.note_key(topic, name))
        try:
            return None if item is None else items.decode_note(item)
        except NewerRelease:
            raise
        except CorruptMetadata:
            return None

    def put(self, topic: str, name: str, number: int, ttl_s: int, waiting: frozenset[bytes] = frozenset()) -> None:
        """Puts a note, in place of any note with the name.

        Args:
            ttl_s: when the table may forget the note, in seconds of Unix time.
        """
        item = items.encode_note(table_keys.note_key(topic, name), Note(number, waiting), ttl_s)
        self._table.put(Put(item=item), action="put_note", topic=topic)
