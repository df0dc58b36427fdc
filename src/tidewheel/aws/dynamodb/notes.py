"""Stores notes in DynamoDB."""

from __future__ import annotations

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Put
from tidewheel.errors import CorruptMetadata, NewerRelease
from tidewheel.flows.ports.notes import Note


class DynamoNotes:
    """Implements the port `Notes`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, topic: str, name: str) -> Note | None:
        """Reads a note with a single GetItem. One that cannot be read counts as none."""
        item = self._table.get(layout.note_key(topic, name))
        try:
            return None if item is None else items.decode_note(item)
        except NewerRelease:
            raise
        except CorruptMetadata:
            return None

    def put(self, topic: str, name: str, number: int, ttl_s: int, waiting: frozenset[bytes] = frozenset()) -> None:
        """Writes a note with a single PutItem."""
        item = items.encode_note(layout.note_key(topic, name), Note(number, waiting), ttl_s)
        self._table.put(Put(item=item), action="put_note", topic=topic)
