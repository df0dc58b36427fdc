"""The port to notes: numbers under names, which are kept for a while."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Note(NamedTuple):
    """A number, and to what it does not apply.

    Attributes:
        number: see `Notes`.
        waiting: 16-byte ids of the pack's messages that were not sent, whatever the number says.
    """

    number: int
    waiting: frozenset[bytes] = frozenset()


class Notes(Protocol):
    """The notes of each topic.

    There is one of each pack that was sent in part and comes again: the slot below which all of its rows are done.
    There is one of each held job whose messages were parked, one of each topic that a rebuild has deleted for a while,
    and one of each bucket that a merge took away while its pack may come again.
    """

    def read(self, topic: str, name: str) -> Note | None:
        """Returns a note. None: there is no note, or it cannot be read."""
        ...

    def put(self, topic: str, name: str, number: int, ttl_s: int, waiting: frozenset[bytes] = frozenset()) -> None:
        """Puts a note, in place of any of that name.

        Args:
            ttl_s: when the table may forget the note, in seconds of Unix time.
        """
        ...
