"""Defines claims, which have the last word between a message's consumers and those who cancel or move it."""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import KEPT_S

CANCELLED_KEPT_S = 400 * 86_400
"""How long a cancelled message stays cancelled. A copy may wait in a paused subscription for longer than any queue."""
LATEST_CANCEL_MS = 14 * 86_400_000
"""How long after its due time a message can be cancelled: as long as a queue keeps a copy that nobody has claimed."""
LATE_REPLACE_MS = 3_600_000
"""How long after its due time a newer message of its key replaces a message that no consumer has."""


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
        cancelled: whether no other subscription gets it.
        to: the message that replaced it, if it was moved.
    """

    holders: tuple[str, ...] = ()
    cancelled: bool = False
    to: MessageId | None = None

    @property
    def comes(self) -> bool:
        """Whether a consumer has the message, or may still get it."""
        return bool(self.holders) or not self.cancelled


def claim_ttl_s(due_ms: int, now_ms: int, *, cancelled: bool) -> int:
    """Returns the Unix second until which a claim must be kept."""
    return max(due_ms, now_ms) // 1000 + (CANCELLED_KEPT_S if cancelled else KEPT_S)
