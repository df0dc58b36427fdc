"""Notes under names."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """A number, and the messages to which it does not apply.

    Attributes:
        number: see `tidewheel.storage.notes.Notes`.
        waiting: 16-byte ids of the pack's messages that were not sent, whatever the number says.
    """

    number: int
    waiting: frozenset[bytes] = frozenset()
