"""Where one segment of a ledger is, and what it must hold.

Imports no pyarrow: the SDK and the dispatcher use segments without reading any.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of a ledger's rows that can be read alone with one range GET.

    Attributes:
        offset: of its first byte in the object.
        length: in bytes.
        rows: how many messages.
        raw_bytes: of their payloads, keys and attributes before compression: what reading it takes of memory.
        first_deliver_at_ms: the earliest delivery time in it.
        last_deliver_at_ms: the latest.
    """

    offset: int
    length: int
    rows: int
    raw_bytes: int
    first_deliver_at_ms: int
    last_deliver_at_ms: int

    @property
    def last_byte(self) -> int:
        """Offset of its last byte, inclusive, as HTTP ranges count."""
        return self.offset + self.length - 1
