"""Stores due checks and daily claims in memory."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from tidewheel.flows.ports.checks import MOST_DUE, DailyClaim, Due, owner_of
from tidewheel.memory.store import MemoryStore
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.set_aside import SetAsideKey
from tidewheel.model.subscription_state import Delivery, DeliveryKey

_Key = TypeVar("_Key", DeliveryKey, ParkKey, SetAsideKey)


class MemoryChecks:
    """Implements the port `Checks`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None, most: int = MOST_DUE) -> Due:  # noqa: ARG002
        with self._store.lock:
            states = [items.state for items in self._store.topics.values() if items.state is not None]
            deliveries = [delivery for items in self._store.topics.values() for delivery in items.deliveries.values()]
            parks = [park for items in self._store.topics.values() for park in items.parks.values()]
            asides = [item for items in self._store.topics.values() for item in items.set_aside.values()]
            waiting = [(each.next_check_ms, each.key) for each in asides if each.next_check_ms is not None]
            suspects = sorted(waiting, key=lambda each: each[0])
            topics = sorted((each.next_check_ms, each.topic) for each in states if each.next_check_ms is not None)
            return Due(
                [topic for next_check_ms, topic in topics if next_check_ms <= now_ms],
                _most(
                    [each.key for each in sorted(deliveries, key=_next_check_ms) if each.next_check_ms <= now_ms], most
                ),
                _most([each.key for each in sorted(parks, key=_next_check_ms) if each.next_check_ms <= now_ms], most),
                _most([key for next_check_ms, key in suspects if next_check_ms <= now_ms], most),
            )

    def next_check_ms(self) -> int | None:
        """Returns the earliest time at which `due` finds an item. Returns None if there is none."""
        with self._store.lock:
            checked = (
                each.next_check_ms
                for items in self._store.topics.values()
                for each in (items.state, *items.deliveries.values(), *items.parks.values(), *items.set_aside.values())
                if each is not None
            )
            return min((each for each in checked if each is not None), default=None)

    def next_daily_ms(self) -> int | None:
        """Returns the earliest time at which a daily work can be claimed again. Returns None if none ever was."""
        with self._store.lock:
            return min((at_ms for at_ms, _ in self._store.daily.values()), default=None)

    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        with self._store.lock:
            at_ms, after = self._store.daily.get(name, (now_ms, None))
            if at_ms > now_ms:
                return None
            self._store.daily[name] = next_ms, after
            return DailyClaim(after=after)

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        with self._store.lock:
            self._store.daily[name] = next_ms, after


def _next_check_ms(each: Delivery | Park) -> int:
    return each.next_check_ms


def _most(keys: list[_Key], most: int) -> list[_Key]:
    """Returns the first keys of each owner."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for key in keys:
        seen[owner_of(key)] += 1
        if seen[owner_of(key)] <= most:
            found.append(key)
    return found
