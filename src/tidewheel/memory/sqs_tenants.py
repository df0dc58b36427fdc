"""Orders a standard queue's messages as SQS's fair queues do: quiet tenants first.

A group is a tenant. A tenant is noisy while it has more than a tenth of the messages in flight, and at least 30. A
message without a group is a tenant of its own, and never noisy. Of several noisy tenants, the tenant with the fewest
messages in flight comes first. Otherwise the oldest message comes first.

SQS's thresholds are approximate. Here they are exact. SQS also counts a tenant's processing time, without saying how.
Messages that were received before the queue's first message with a group do not count.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable

from tidewheel.memory.sqs_message import MemoryMessage

NOISY_SHARE = 0.1
NOISY_LEAST = 30

Heap = list[tuple[int, int, MemoryMessage]]
"""Messages, each behind the time from which it is receivable and its arrival."""


class Tenants:
    """The tenants of a queue. Callers hold the queue's lock.

    Args:
        prune: removes the first entries of a heap whose messages are gone or have another time by now. Returns whether
            any entry is left.
    """

    def __init__(self, prune: Callable[[Heap], bool]) -> None:
        self._prune = prune
        self._in_flight: Counter[str | None] = Counter()
        self._until_ms: dict[str, int] = {}  # of messages in flight
        self._ends: Heap = []
        self._held: dict[str | None, Heap] = {}

    def count(self, message: MemoryMessage, now_ms: int, *, in_flight: bool) -> None:
        """Counts a message as in flight until `ready_at_ms`, or as not in flight."""
        self._land(now_ms)
        if self._until_ms.pop(message.id, None) is not None:
            self._in_flight[message.group] -= 1
        if in_flight:
            self._until_ms[message.id] = message.ready_at_ms
            heapq.heappush(self._ends, (message.ready_at_ms, message.arrival, message))
            self._in_flight[message.group] += 1

    def next_heap(self, queue: Heap, now_ms: int) -> Heap:
        """Returns the heap that begins with the next message to receive, or to become receivable.

        Args:
            queue: all messages, except receivable messages of noisy tenants. These are moved to a heap of the tenant.
            now_ms: the time of the receive.
        """
        self._land(now_ms)
        self._held = {group: held for group, held in self._held.items() if self._prune(held)}
        while self._prune(queue) and queue[0][0] <= now_ms and self._is_noisy(queue[0][2].group):
            held = self._held.setdefault(queue[0][2].group, [])
            heapq.heappush(held, heapq.heappop(queue))
        heaps = [*self._held.values(), *([queue] if queue and queue[0][0] <= now_ms else [])]
        return min(heaps, key=self._rank, default=queue)

    def _rank(self, heap: Heap) -> tuple[int, int, int]:
        ready_at_ms, arrival, message = heap[0]
        noisy = self._is_noisy(message.group)
        return self._in_flight[message.group] if noisy else -1, ready_at_ms, arrival

    def _is_noisy(self, group: str | None) -> bool:
        own = self._in_flight[group]
        return group is not None and own >= NOISY_LEAST and own > NOISY_SHARE * len(self._until_ms)

    def _land(self, now_ms: int) -> None:
        """Counts the messages whose visibility time-out has ended as not in flight."""
        while self._ends and self._ends[0][0] <= now_ms:
            end_ms, _, message = heapq.heappop(self._ends)
            if self._until_ms.get(message.id) == end_ms:
                del self._until_ms[message.id]
                self._in_flight[message.group] -= 1
