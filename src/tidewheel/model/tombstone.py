"""Defines tombstones, the records of cancelled, moved or superseded messages."""

from __future__ import annotations

from typing import NamedTuple

from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms

KEPT_S = 28 * 86_400
"""A message can wait 14 days in an ingest queue and 14 more in its dead-letter queue."""


class Tombstone(NamedTuple):
    """A record that a message must not be sent.

    Attributes:
        slot: the message's slot.
        ttl_s: Unix second after which the tombstone may be deleted.
        to: the message that replaces this message, if it was moved.
        certain: whether the tombstone was written before the slot was sealed, so that it surely took effect.
        put_ms: when the tombstone was made. 0: unknown, as after a rebuild.
    """

    slot: int
    id: MessageId
    ttl_s: int
    to: MessageId | None = None
    certain: bool = True
    put_ms: int = 0


def tombstone(
    message_id: MessageId, slot_ms: int, now_ms: int, *, to: MessageId | None = None, certain: bool = True
) -> Tombstone:
    """Returns a tombstone kept until 28 days after now or the due time.

    The later of the two counts. The message was sent before now, so no copy can leave an ingest queue after that time.
    """
    due_ms = id_deliver_at_ms(id_bytes(message_id))
    return Tombstone(due_ms // slot_ms, message_id, ttl_s(due_ms, now_ms), to, certain, now_ms)


def ttl_s(due_ms: int, now_ms: int) -> int:
    """Returns the Unix second until which a message's records must be kept."""
    return max(due_ms, now_ms) // 1000 + KEPT_S
