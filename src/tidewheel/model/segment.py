"""Defines segments, each with a place in a ledger and the expected content.

Imports no pyarrow: the SDK and the dispatcher use segments without reading any.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of a ledger's rows, readable alone with one range GET.

    Attributes:
        offset: of the first byte in the object.
        length: in bytes.
        rows: how many messages.
        raw_bytes: size of the payloads, keys and attributes before compression, which is the memory for reading them.
        first_deliver_at_ms: the earliest delivery time in the segment.
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
        """Offset of the last byte, inclusive, as in HTTP ranges."""
        return self.offset + self.length - 1
