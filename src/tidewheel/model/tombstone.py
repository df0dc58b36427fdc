"""A tombstone: the record that a message was cancelled, moved or superseded."""

from __future__ import annotations

from typing import NamedTuple

from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms

KEPT_S = 28 * 86_400
"""A message can wait 14 days in an ingest queue and 14 more in its dead-letter queue."""


class Tombstone(NamedTuple):
    """A message that is not to be sent.

    Attributes:
        slot: of the message.
        ttl_s: Unix second after which it may be forgotten.
        to: the message that took its place, if it was moved.
        certain: whether it was put before its slot was sealed, so that it surely took effect.
    """

    slot: int
    id: MessageId
    ttl_s: int
    to: MessageId | None = None
    certain: bool = True


def tombstone(
    message_id: MessageId, slot_ms: int, now_ms: int, *, to: MessageId | None = None, certain: bool = True
) -> Tombstone:
    """Returns a tombstone that is kept until 28 days after now, or after the message is due.

    The message was sent before now, so it cannot come out of an ingest queue after that.
    """
    due_ms = id_deliver_at_ms(id_bytes(message_id))
    return Tombstone(due_ms // slot_ms, message_id, ttl_s(due_ms, now_ms), to, certain)


def ttl_s(due_ms: int, now_ms: int) -> int:
    """Returns the Unix second until which what is known of a message must be kept."""
    return max(due_ms, now_ms) // 1000 + KEPT_S
