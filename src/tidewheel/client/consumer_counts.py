"""Counts the outcomes of a consumer's messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCounts:
    """The number of messages that a consumer has seen, by outcome.

    Attributes:
        handled: the function returned.
        failed: the function raised an error; SQS brings the message again.
        retried: sent again by `retry_later`.
        dead: sent to the dead-letter queue after the last attempt.
        expired: dropped, because the message was received after its expiry, or its retry would be.
        superseded: dropped, because the key was cancelled or has a newer message.
    """

    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    expired: int = 0
    superseded: int = 0
