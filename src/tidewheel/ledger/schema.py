"""Declares the columns of a ledger.

The Arrow schema, the footers, the schemas of Spark and Athena, and the table of columns in `docs/ledger-format.md` are
made from `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tidewheel.model.validation import Options


class ColumnType(Enum):
    """The type of a column. The value is the type's name in the documentation."""

    INT64 = "int64"
    INT8 = "int8"
    ID = "fixed 16 bytes"
    TEXT = "string"
    TEXTS = "map of string to string"
    BYTES = "binary"


TEXT_TYPES = frozenset({ColumnType.TEXT, ColumnType.TEXTS, ColumnType.BYTES})
"""The types of variable length. Their columns are compressed, and their bytes count for the size of a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a ledger.

    Attributes:
        nullable: whether a row may have no value.
        holds: the meaning of a value.
        of_options: returns the value from a message's rare options. None: ingest makes the value from the whole pack.
    """

    name: str
    type: ColumnType
    nullable: bool = False
    holds: str
    of_options: Callable[[Options], object] | None = None


COLUMNS = (
    Column(name="deliver_at_ms", type=ColumnType.INT64, holds="when it is due, ms since the Unix epoch"),
    Column(name="message_id", type=ColumnType.ID, holds="the id; its first 48 bits are `deliver_at_ms`"),
    Column(
        name="key",
        type=ColumnType.TEXT,
        nullable=True,
        holds="the sender's key, or the recurring message's name",
        of_options=lambda options: options.key or options.recurring,
    ),
    Column(name="attributes", type=ColumnType.TEXTS, nullable=True, holds="the sender's attributes"),
    Column(name="payload", type=ColumnType.BYTES, holds="the body: UTF-8 text, or the bytes themselves"),
    Column(name="encoding", type=ColumnType.INT8, holds="0 text, 1 JSON, 2 bytes"),
    Column(name="sent_at_ms", type=ColumnType.INT64, holds="when its sender sent it"),
    Column(
        name="expires_at_ms",
        type=ColumnType.INT64,
        nullable=True,
        holds="from when on it is no longer handed out",
        of_options=lambda options: options.expires_at_ms,
    ),
    Column(
        name="message_group",
        type=ColumnType.TEXT,
        nullable=True,
        holds="the sender's group",
        of_options=lambda options: options.group,
    ),
)
"""All columns, in the order of the file. Rows are sorted by the first two."""
VIEW_COLUMNS = {
    **dict.fromkeys(("ledger", "cancelled"), ColumnType.TEXT),
    **dict.fromkeys(("first_ms", "end_ms", "sent_before_ms"), ColumnType.INT64),
}
"""The columns of a live view: `tidewheel.flows.maintenance.live_view`."""
SCHEMA_VERSION = "1"
"""The version of the columns, in every footer."""
