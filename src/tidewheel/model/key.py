"""A key's entry: which message a key stands for.

    absent --claim--> names a message --newer version--> names another message
                           |    ^
                     cancel|    |newer version
                           v    |
                        cancelled

The version of a message is (sender's clock in ms, sender's count); ids tell apart what is equal in both. A message
that replaces moves the entry if its own version is newer, else it is dropped. One that does not replace is dropped if
the entry's message and it overlap: the older one still waited when the newer one was sent. Whatever is older than the
newest cancel, or the newest that replaced, is dropped. The entry is kept for 28 days after its message is due.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """What is known of a key.

    Attributes:
        id: the newest message; None if the key was cancelled before one came.
        sent_ms, seq: its version, or that of the cancel.
        ttl_s: Unix second after which the entry may be forgotten.
        replace: whether that message takes the place of others.
        cancelled: whether a cancel was the last to change it.
        floor: the newest version of a cancel, or of a message that replaces: whatever is older is dropped.
        tail_ms: when the last message is due that was superseded after its slot was sealed; it may still come. 0: none.
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

    @property
    def version(self) -> tuple[int, int, str]:
        """What tells which of two is newer."""
        return self.sent_ms, self.seq, self.id or ""

    @property
    def deliver_at_ms(self) -> int:
        """When its message is due; 0 without one."""
        return 0 if self.id is None else id_deliver_at_ms(id_bytes(self.id))
