"""Defines key entries, each with the message of a key.

    absent --claim--> names a message --newer version--> names another message
                           |    ^
                     cancel|    |newer version
                           v    |
                        cancelled

The version of a message is (sender's clock in ms, sender's count). Ids order messages with equal versions. A message
with `replace` moves the entry if its own version is newer. Otherwise the message is dropped. A message without
`replace` is dropped if it overlaps the entry's message, which means that the older message still waited when the newer
was sent. Messages older than the newest cancel, or than the newest message with `replace`, are dropped. The entry is
kept for 28 days after its message is due.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """The state of a key.

    Attributes:
        id: the newest message. None if the key was cancelled before a message came.
        sent_ms, seq: the version of that message, or of the cancel.
        ttl_s: Unix second after which the entry may be deleted.
        replace: whether the message replaces others.
        cancelled: whether the last change was a cancel.
        floor: the newest version of a cancel or of a message with `replace`. Older messages are dropped.
        tail_ms: due time of the last message that was superseded after its slot was sealed. That message may still be
            delivered. 0: none.
        latest_ms: no newer message with `replace` puts the delivery off to a time after this one. 0: without limit.
    """

    key: str
    id: MessageId | None
    sent_ms: int
    seq: int
    ttl_s: int
    replace: bool = False
    cancelled: bool = False
    floor: tuple[int, int] = (0, 0)
    tail_ms: int = 0
    latest_ms: int = 0

    @property
    def version(self) -> tuple[int, int, str]:
        """The version, by which the newer of two entries is found."""
        return self.sent_ms, self.seq, self.id or ""

    @property
    def deliver_at_ms(self) -> int:
        """The due time of the message, or 0 without a message."""
        return 0 if self.id is None else id_deliver_at_ms(id_bytes(self.id))
