"""Orders a standard queue's messages as SQS's fair queues do: quiet tenants first.

| a tenant | when |
|---|---|
| is noisy | it has more than a tenth of the messages in flight, and at least 30; or of the recent processing time |
| is quiet again | both shares fall, its backlog is empty, or it had no message in flight for five minutes |

A group is a tenant. A message without a group is a tenant of its own, and never noisy. Of several noisy tenants, the
tenant with the fewest messages in flight comes first. Otherwise the oldest message comes first.

SQS's thresholds are approximate. Here they are exact, and "recent", which AWS does not define, is about a minute.
Messages that were received before the queue's first message with a group do not count.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from tidewheel.memory.sqs_message import MemoryMessage

NOISY_SHARE = 0.1
NOISY_LEAST = 30
QUIET_AFTER_MS = 300_000
RECENT_MS = 60_000

Heap = list[tuple[int, int, MemoryMessage]]
"""Messages, each behind the time from which it is receivable and its arrival."""


@dataclass(slots=True)
class _Load:
    """The messages in flight of a tenant, or of the whole queue.

    Attributes:
        recent: the mean of `in_flight` until `at_ms`, in which a minute ago counts little. As a share of the whole
            queue's, this is the share of the recent processing time.
        at_ms: when `in_flight` changed last.
    """

    in_flight: int = 0
    recent: float = 0.0
    at_ms: int = 0

    def recent_at(self, now_ms: int) -> float:
        """Returns the mean until now."""
        if not self.in_flight and now_ms - self.at_ms >= QUIET_AFTER_MS:
            return 0.0
        return self.in_flight + (self.recent - self.in_flight) * math.exp(min(0, self.at_ms - now_ms) / RECENT_MS)

    def add(self, messages: int, now_ms: int) -> None:
        self.recent, self.at_ms = self.recent_at(now_ms), now_ms
        self.in_flight += messages


class Tenants:
    """The tenants of a queue. Its callers hold the queue's lock.

    Args:
        prune: removes the first entries of a heap whose messages are gone or have another time by now. Returns whether
            any entry is left.
    """

    def __init__(self, prune: Callable[[Heap], bool]) -> None:
        self._prune = prune
        self._loads: dict[str | None, _Load] = defaultdict(_Load)  # None: of the whole queue
        self._until_ms: dict[str, int] = {}  # of messages in flight
        self._ends: Heap = []
        self._held: dict[str | None, Heap] = {}

    def count(self, message: MemoryMessage, now_ms: int, *, in_flight: bool) -> None:
        """Counts a message as in flight until its `ready_at_ms`, or as not in flight."""
        self._land(now_ms)
        if self._until_ms.pop(message.id, None) is not None:
            self._add(message.group, -1, now_ms)
        if in_flight:
            self._until_ms[message.id] = message.ready_at_ms
            heapq.heappush(self._ends, (message.ready_at_ms, message.arrival, message))
            self._add(message.group, 1, now_ms)

    def next_heap(self, queue: Heap, now_ms: int) -> Heap:
        """Returns the heap that begins with the next message to receive, or to become receivable.

        Args:
            queue: all messages, except receivable messages of noisy tenants. These are moved to a heap of the tenant.
            now_ms: the time of the receive.
        """
        self._land(now_ms)
        self._forget([group for group, held in self._held.items() if not self._prune(held)], now_ms)
        while self._prune(queue) and queue[0][0] <= now_ms and self._is_noisy(queue[0][2].group, now_ms):
            held = self._held.setdefault(queue[0][2].group, [])
            heapq.heappush(held, heapq.heappop(queue))
        heaps = [*self._held.values(), *([queue] if queue and queue[0][0] <= now_ms else [])]
        if not heaps:
            self._forget([*self._loads], now_ms)
        return min(heaps, key=lambda heap: self._rank(heap, now_ms), default=queue)

    def _forget(self, groups: list[str | None], now_ms: int) -> None:
        """Forgets the processing time of tenants whose backlogs are empty."""
        for group in groups:
            self._held.pop(group, None)
            self._loads[group] = _Load(self._loads[group].in_flight, at_ms=now_ms)

    def _rank(self, heap: Heap, now_ms: int) -> tuple[int, int, int]:
        ready_at_ms, arrival, message = heap[0]
        noisy = self._is_noisy(message.group, now_ms)
        return self._loads[message.group].in_flight if noisy else -1, ready_at_ms, arrival

    def _is_noisy(self, group: str | None, now_ms: int) -> bool:
        load, whole = self._loads[group], self._loads[None]
        many = load.in_flight >= NOISY_LEAST and load.in_flight > NOISY_SHARE * whole.in_flight
        return group is not None and (many or load.recent_at(now_ms) > NOISY_SHARE * whole.recent_at(now_ms))

    def _land(self, now_ms: int) -> None:
        """Counts the messages whose visibility time-out has ended as not in flight."""
        while self._ends and self._ends[0][0] <= now_ms:
            end_ms, _, message = heapq.heappop(self._ends)
            if self._until_ms.get(message.id) == end_ms:
                del self._until_ms[message.id]
                self._add(message.group, -1, end_ms)

    def _add(self, group: str | None, messages: int, at_ms: int) -> None:
        for each in {None, group}:
            self._loads[each].add(messages, at_ms)
