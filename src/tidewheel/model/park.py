"""Defines parks, which hold messages that a subscription's queue cannot take yet.

    put ----> waiting ----> leased by a worker ----> deleted, when its messages are sent
                 ^                  |
                 +------------------+  the queue refuses; or the worker dies, and its lease ends

A park belongs to one generation of a subscription. Once that generation is deleted, the park has no owner.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_INLINE_PARK_BYTES = 300_000
"""A park's larger ledger is an object, because an item has at most 400 KB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkKey:
    """Names a park.

    Attributes:
        id: hash of the park's ledger, so that a repetition makes the same park.
    """

    topic: str
    subscription: str
    generation: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Messages that wait for a queue.

    Their ledger is in the park itself, or in an object.

    Attributes:
        rows: how many messages the park holds.
        size_bytes: size of the ledger.
        next_check_ms: when the sweep checks the park next.
        ledger: the ledger's bytes. None if the ledger is an object, or was not read.
        object_name: the ledger's object, if any.
        leased_ms: when a worker took the park.
    """

    key: ParkKey
    rows: int
    size_bytes: int
    next_check_ms: int
    ledger: bytes | None = None
    object_name: str | None = None
    leased_ms: int | None = None
