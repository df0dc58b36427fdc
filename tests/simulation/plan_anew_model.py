"""Making an unreadable plan anew, as an executable specification.

A delivery of an unreadable plan has two open parts, with a job each. The plan named row a in one ledger and row b in
another. A merge may replace both ledgers; it leaves out rows that are planned.

FLOWS    job     1 lease the part   2 read ledgers and merged ledgers   3 put an ITEM a part IF absent
                 4 delete the delivery
         try     1 claim an ITEM   2 send its rows   3 delete the ITEM
         merge   is one write

INVARIANT   At each moment each row is sent, or named by the delivery or by an ITEM. A row is sent at most once more for
            each crash.

Every schedule is explored in which jobs are preempted, or crash, at most a few times. `guard` marks what the protocol
needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.few_deviations import Step, Violation, first_violation, play

GUARDS = {
    "one_job": "only the job of the least open part makes the plan anew",
    "items_first": "the items are put before the delivery is deleted",
    "merged": "ledgers that were merged since are read too",
    "by_content": "an item's name is made from its content, not from its place",
    "send_first": "an item is deleted after its rows were sent",
}


@dataclass
class World:
    """The stored state and the memory of the checks."""

    without: str | None = None
    delivery: bool = True
    merged: bool = False
    leases: set[int] = field(default_factory=set)
    items: dict[str, str] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    sent: str = ""
    crashes: int = 0

    def guard(self, name: str) -> bool:
        """Whether the protocol has this guard."""
        assert name in GUARDS
        return name != self.without

    def crashed(self) -> bool:
        """Ends leases and claims before the flow runs again."""
        self.crashes += 1
        self.leases.clear()
        self.claimed.clear()
        return False

    def parts(self) -> list[str]:
        """The rows of each part of a new plan."""
        if not self.merged:
            return ["a", "b"]
        return ["ab"] if self.guard("merged") else []

    def check(self) -> None:
        """Raises Violation if a row is lost, or sent too often."""
        for row in "ab":
            if not self.delivery and row not in self.sent and not any(row in rows for rows in self.items.values()):
                raise Violation(f"row {row} is lost")
            if self.sent.count(row) > 1 + self.crashes:
                raise Violation(f"row {row} is sent {self.sent.count(row)} times after {self.crashes} crashes")


def job(part: int) -> Callable[[World], Step]:
    """The job of a part."""

    def run(w: World) -> Step:
        if not w.delivery or part in w.leases or (part and w.guard("one_job")):
            return
        w.leases.add(part)
        yield
        found = w.parts()
        yield
        if not w.guard("items_first"):
            w.delivery = False
            yield
        for place, rows in enumerate(found):
            w.items.setdefault(rows if w.guard("by_content") else str(place), rows)
            yield
        w.delivery = False
        yield

    return run


def tries(w: World) -> Step:
    """Sends the rows of each item."""
    for name in list(w.items):
        if name in w.claimed or name not in w.items:
            continue
        w.claimed.add(name)
        rows = w.items[name]
        yield
        if not w.guard("send_first"):
            del w.items[name]
            yield
        w.sent += rows
        yield
        w.items.pop(name, None)
        w.claimed.discard(name)
        yield


def merge(w: World) -> Step:
    """Replaces the ledgers of the planned rows."""
    w.merged = True
    yield


SCENARIOS = {"jobs": (job(0), tries, job(1), tries, merge, tries), "merge": (job(0), merge)}
"""Actors in the order in which they run if nothing preempts them."""


def violation(without: str | None = None, deviations: int = 2) -> str | None:
    """Explores all schedules with few deviations. Returns the first violation.

    Args:
        without: a guard that is lacking.
    """
    return first_violation(SCENARIOS, lambda flows, schedule: play(World(without=without), flows, schedule), deviations)
