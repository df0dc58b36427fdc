"""Bundles all ports in memory for the flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidewheel.clock import Clock
from tidewheel.flows.ports import in_order
from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.queues import MemoryQueues
from tidewheel.memory.runs import MemoryRuns
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.topics import MemoryTopics
from tidewheel.memory.wheel import MemoryWheel


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryService:
    """Implements the port `Ports` in memory. With a ManualClock, every run is the same."""

    clock: Clock
    topics: MemoryTopics = field(default_factory=MemoryTopics)
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    queues: MemoryQueues
    wheel: MemoryWheel = field(default_factory=MemoryWheel)
    runs: MemoryRuns = field(default_factory=MemoryRuns)
    parallel: Callable[[Callable[[int], None], Iterable[int]], Iterable[None]] = in_order
    max_skew_ms: int = 100

    @classmethod
    def at(
        cls, clock: Clock, sqs: MemorySqs | None = None, *, stack: str | None = None, max_skew_ms: int = 100
    ) -> MemoryService:
        """Returns an empty service whose queues and objects use the same clock.

        Args:
            clock: the service's time.
            sqs: the queues to which the service sends; None: any URL is accepted, without consumers.
            stack: prefix of the names of the work queue and the queue of refused messages.
            max_skew_ms: maximum difference between SQS's clock and the local clock.
        """
        return cls(
            clock=clock,
            objects=MemoryObjects(clock.now_ms),
            queues=MemoryQueues(clock, sqs, prefix="" if stack is None else f"{stack}_"),
            max_skew_ms=max_skew_ms,
        )
