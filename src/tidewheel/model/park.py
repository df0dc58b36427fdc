"""Defines parks, which hold messages until a subscription's queue takes them.

    put ----> waiting ----> leased by a worker ----> deleted, when its messages are sent, dropped or parked anew
                 ^                  |
                 |                  |
                 +------------------+  the queue takes none; or the worker dies, and its lease ends

A park belongs to one generation of a subscription. Once that generation is deleted, the park has no owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidewheel.model.subscription_state import Owned

MAX_INLINE_PARK_BYTES = 300_000
"""A park's larger ledger is an object, because an item has at most 400 KB."""
MAX_WAIT_S = 300
"""The longest wait between two tries of a park: a period of the sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkKey(Owned):
    """Names a park.

    Attributes:
        id: hash of the park's ledger, so that a repetition makes the same park.
    """

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Messages waiting for a queue.

    Their ledger is in the park itself, or in an object.

    Attributes:
        rows: how many messages the park holds.
        size_bytes: size of the ledger.
        next_check_ms: when the sweep checks the park next.
        ledger: the ledger's bytes. None if the ledger is an object, or was not read.
        object_name: the ledger's object, if any.
        leased_ms: when a worker took the park.
        tries: drains after which messages of the park were left.
        first_due_ms: when the first message is due. None: the park was put before releases recorded the time.
        unreadable: why the last drain could not read the ledger. None if it could.
    """

    key: ParkKey
    rows: int
    size_bytes: int
    next_check_ms: int
    ledger: bytes | None = None
    object_name: str | None = None
    leased_ms: int | None = None
    tries: int = 0
    first_due_ms: int | None = None
    unreadable: str | None = None

    @property
    def wait_s(self) -> int:
        """Seconds until the next try: 30, doubled with each try up to 300."""
        return min(30 << min(self.tries, 4), MAX_WAIT_S)


def least_tried(parks: Iterable[Park]) -> list[Park]:
    """Returns parks in the order in which they are tried."""
    return sorted(parks, key=lambda park: (park.tries, park.key.id))
