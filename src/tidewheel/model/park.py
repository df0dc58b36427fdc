"""A park: messages that a subscription's queue must not have yet, or does not take, held until it does.

    put ----> waiting ----> leased by a worker ----> deleted, when its messages are sent
                 ^                  |
                 +------------------+  the queue refuses; or the worker dies, and its lease ends

A park belongs to one generation of a subscription, and is nobody's once that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_INLINE_PARK_BYTES = 300_000
"""Ledgers of parks above it are objects: an item has 400 KB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkKey:
    """Names a park.

    Attributes:
        id: hash of its ledger, so that a repetition makes the same park.
    """

    topic: str
    subscription: str
    generation: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Messages that wait for a queue, as a ledger: in the park itself, or as an object.

    Attributes:
        rows: how many messages it holds.
        size_bytes: of the ledger.
        next_check_ms: when the sweep looks at it next.
        ledger: the ledger's bytes; None if it is an object, or was not asked for.
        object_name: the ledger's object, if it is one.
        leased_ms: when a worker took it.
    """

    key: ParkKey
    rows: int
    size_bytes: int
    next_check_ms: int
    ledger: bytes | None = None
    object_name: str | None = None
    leased_ms: int | None = None
