"""The port to the due checks and the daily work of the sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidewheel.model.park import ParkKey
from tidewheel.model.set_aside import SetAsideKey
from tidewheel.model.subscription_state import DeliveryKey

MOST_DUE = 1000
"""Deliveries, parks and suspects each of one owner that one sweep sees. The others stay due for later sweeps."""
OwnedKey = DeliveryKey | ParkKey | SetAsideKey


def owner_of(key: OwnedKey) -> tuple[str, str, str]:
    """Returns the owner of an item, which is one generation of a subscription."""
    return key.topic, key.subscription, key.generation


class Due(NamedTuple):
    """The topics, deliveries, parks and set-aside items that the sweep must check."""

    topics: list[str]
    deliveries: list[DeliveryKey]
    parks: list[ParkKey]
    set_aside: list[SetAsideKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyClaim:
    """A claim of the caller on one daily work.

    Attributes:
        after: where the last holder of the claim stopped; None: it came to the end.
    """

    after: str | None


class Checks(Protocol):
    """The due checks of all topics, and the claims on daily work."""

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None, most: int = MOST_DUE) -> Due:
        """Returns topics, open deliveries, parks and suspects whose next check has come, earliest first.

        The read is eventually consistent. Names what the service itself stored: what a client put there is left out.

        Args:
            now_ms: the time.
            failed: gets the name and the error of each query that failed. None: the first error is raised.
            most: deliveries, parks and suspects each of one owner, the generation of a subscription.
        """
        ...

    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        """Claims a daily work. Returns None if the work is not due.

        `SERVICE name: next_at_ms = next_ms IF absent or its next_at_ms <= now_ms`.
        """
        ...

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        """Sets when and where a claimed daily work continues.

        `SERVICE name: next_at_ms = next_ms, after`.
        """
        ...
