"""The outcome of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from tidewheel.flows.upkeep.orphans import Orphans


@dataclass(slots=True, kw_only=True)
class SweepResult:
    """The work that a sweep started.

    Attributes:
        dispatched: topics whose dispatch was started.
        redriven: parts that were enqueued again.
        drains: parks that were enqueued.
        tries: set-aside items that were enqueued.
        tried: broken subscriptions of which a park was enqueued.
        orphans: the deletions of the daily orphan sweep in this portion; None if the daily sweep was not due.
        payloads: large bodies that were deleted.
        lock: held while a count is raised, because topics and deliveries are handled side by side.
        refused_schedules: missing schedules that the scheduler refused.
        ended: deleted topics, some of which may have left objects or items.
        left: actions for which there was no time.
        held: topics of which nothing was collected, because an item of theirs cannot be read -> the error.
        failures: topic, delivery or park -> the error; the others were handled.
    """

    dispatched: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    merging: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    redriven: int = 0
    drains: int = 0
    tries: int = 0
    tried: set[tuple[str, str]] = field(default_factory=set)
    orphans: Orphans | None = None
    payloads: int = 0
    refused_schedules: int = 0
    ended: list[str] = field(default_factory=list)
    left: int = 0
    held: dict[str, Exception] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)
