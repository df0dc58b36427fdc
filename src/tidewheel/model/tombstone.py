"""Defines tombstones and claims, which say that a message must not come.

A tombstone records that a message was cancelled, moved or superseded, before its slot was sealed. Of a message that
consumers claim, the claim has the last word between consumers and a cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms

KEPT_S = 28 * 86_400
"""A message can wait 14 days in an ingest queue and 14 more in its dead-letter queue."""
CANCELLED_KEPT_S = 400 * 86_400
"""How long a cancelled message stays cancelled. A copy may wait in a paused subscription for longer than any queue."""
LATEST_CANCEL_MS = 14 * 86_400_000
"""How long after its due time a message can be cancelled: as long as a queue keeps a copy that nobody has claimed."""
LATE_REPLACE_MS = 3_600_000
"""How long after its due time a newer message of its key replaces a message that no consumer has."""


class Tombstone(NamedTuple):
    """A record of a cancelled message.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A subscription whose consumers may have a message. A subscription made anew has another generation."""

    subscription: str
    generation: str

    def __str__(self) -> str:
        """Returns the attribute that counts the holder's claims."""
        return f"{self.subscription}#{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is known of a message between its consumers and its cancels.

    Attributes:
        holders: the subscriptions whose consumers have the message.
        taken: subscription -> when its consumer claimed the message last, in Unix seconds, as far as consumers note it.
        cancelled: whether no other subscription gets it.
        to: the message that replaced it, if it was moved.
    """

    holders: tuple[str, ...] = ()
    taken: Mapping[str, int] = field(default_factory=dict)
    cancelled: bool = False
    to: MessageId | None = None

    @property
    def comes(self) -> bool:
        """Whether a consumer has the message, or may still get it."""
        return bool(self.holders) or not self.cancelled


def claim_ttl_s(due_ms: int, now_ms: int, *, cancelled: bool) -> int:
    """Returns the Unix second until which a claim must be kept."""
    return max(due_ms, now_ms) // 1000 + (CANCELLED_KEPT_S if cancelled else KEPT_S)
