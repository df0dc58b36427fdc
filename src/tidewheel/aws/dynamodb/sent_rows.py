"""Stores the progress of packs in DynamoDB."""

from __future__ import annotations

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Put
from tidewheel.errors import CorruptMetadata, NewerRelease


class DynamoSentRows:
    """Implements the port `SentRows`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, topic: str, name: str) -> int | None:
        """Reads a pack's progress with a single GetItem."""
        item = self._table.get(layout.sent_rows_key(topic, name))
        try:
            return None if item is None else items.decode_sent_rows(item)
        except NewerRelease:
            raise
        except CorruptMetadata:
            return None

    def put(self, topic: str, name: str, below_slot: int, ttl_s: int) -> None:
        """Writes a pack's progress with a single PutItem."""
        item = items.encode_sent_rows(layout.sent_rows_key(topic, name), below_slot, ttl_s)
        self._table.put(Put(item=item), action="put_sent_rows", topic=topic)
