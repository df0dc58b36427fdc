"""All ports in memory, as the flows take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidewheel.clock import Clock
from tidewheel.flows.ports import in_order
from tidewheel.memory.merge_runs import MemoryMergeRuns
from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.queues import MemoryQueues
from tidewheel.memory.topics import MemoryTopics
from tidewheel.memory.wheel import MemoryWheel


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryService:
    """The port `Ports` in memory; give it a ManualClock and every run is the same."""

    clock: Clock
    topics: MemoryTopics = field(default_factory=MemoryTopics)
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    queues: MemoryQueues
    wheel: MemoryWheel = field(default_factory=MemoryWheel)
    merge_runs: MemoryMergeRuns = field(default_factory=MemoryMergeRuns)
    parallel: Callable[[Callable[[int], None], Iterable[int]], Iterable[None]] = in_order
    max_skew_ms: int = 100

    @classmethod
    def at(cls, clock: Clock) -> MemoryService:
        """Returns an empty service whose queues follow this clock too."""
        return cls(clock=clock, queues=MemoryQueues(clock))
