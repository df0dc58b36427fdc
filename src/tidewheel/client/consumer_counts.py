"""What a consumer has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCounts:
    """What became of the messages that a consumer has seen.

    Attributes:
        handled: the function returned.
        failed: it raised; SQS brings them again.
        retried: sent again by `retry_later`.
        dead: had their last attempt, and went to the dead-letter queue.
        expired: dropped, since they came out of the queue after their expiry, or would have come again after it.
        superseded: dropped, since their key was cancelled, or has a newer message.
    """

    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    expired: int = 0
    superseded: int = 0
