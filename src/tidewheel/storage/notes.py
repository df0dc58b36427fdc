"""Stores notes: numbers under names, which are kept for a while."""

from __future__ import annotations

from tidewheel.errors import CorruptMetadata, NewerRelease
from tidewheel.storage import items, layout
from tidewheel.storage.items import Note
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Put


class Notes(StoredItems):
    """The notes of each topic.

    There is one of each pack that was sent in part and comes again: the slot below which all of its rows are done.
    There is one of each held job whose messages were parked, one of each topic that a rebuild has deleted for a while,
    one of each bucket that a merge took away while its pack may come again, and one of each message that ingest sent.
    """

    def read(self, topic: str, name: str) -> Note | None:
        """Returns a note. None: there is no note, or it cannot be read."""
        item = self._table.get(layout.note_key(topic, name))
        try:
            return None if item is None else items.decode_note(item)
        except NewerRelease:
            raise
        except CorruptMetadata:
            return None

    def put(self, topic: str, name: str, number: int, ttl_s: int, waiting: frozenset[bytes] = frozenset()) -> None:
        """Puts a note, in place of any of that name.

        Args:
            ttl_s: when the table may forget the note, in seconds of Unix time.
        """
        item = items.encode_note(layout.note_key(topic, name), Note(number, waiting), ttl_s)
        self._table.put(Put(item=item), action="put_note", topic=topic)
