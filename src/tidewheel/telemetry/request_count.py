"""Counts the requests of a function's clients."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.hooks import BaseEventHooks


class RequestCount:
    """Counts requests since the last `take`, by "service.Operation".

    Counts requests of clients made later with these events. A request that botocore repeats counts once. The cost is
    one Python call per request.
    """

    def __init__(self, events: BaseEventHooks) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        events.register("after-call", self._count)

    def take(self) -> Counter[str]:
        """Returns the counts and resets them."""
        with self._lock:
            taken, self._counts = self._counts, Counter()
        return taken

    def _count(self, event_name: str = "", **_: Any) -> None:
        # after-call.<service>.<operation>
        with self._lock:
            self._counts[event_name.partition(".")[2]] += 1
