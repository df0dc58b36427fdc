"""A pack received again after a merge took its bucket away, as an executable specification.

FLOWS    ingest  1 read the topic state   2 read the note   3 put the bucket IF absent, and IF swap_version as read
                 4 acknowledge
         merge   1 read the buckets   2 put the note of the bucket   3 swap IF the bucket is there, swap_version + 1

         merge   1 read the buckets   2 put the note of the bucket   3 swap IF it is there, swap_version + 1

INVARIANT   The rows of the pack are committed at most once, and once when they are acknowledged.

Every schedule is explored in which flows are preempted, or crash, at most a few times. `guard` marks what the protocol
needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.few_deviations import Step, Violation, first_violation, play

GUARDS = {
    "note": "a bucket that was taken away counts as committed",
    "note_first": "the note is put before the swap",
    "same_swaps": "no swap came between the read of the topic state and the commit",
    "state_first": "the topic state is read before the note",
    "absent": "the bucket that is there is not committed again",
}


@dataclass
class World:
    """The stored state and the memory of the checks."""

    without: str | None = None
    bucket: bool = False
    note: bool = False
    swap_version: int = 0
    commits: int = 0
    acknowledged: bool = False

    def guard(self, name: str) -> bool:
        """Whether the protocol has this guard."""
        assert name in GUARDS
        return name != self.without

    def crashed(self) -> bool:
        """Lets the flow run again after the others."""
        return False

    def check(self) -> None:
        """Raises Violation if the rows are doubled or lost."""
        if self.commits > 1:
            raise Violation("the rows are committed twice")
        if self.acknowledged and not self.commits:
            raise Violation("the rows are lost")


def ingest(w: World) -> Step:
    """Commits the pack's ledger."""
    while True:
        seen = w.swap_version
        yield
        replaced = w.note
        yield
        if not w.guard("state_first"):
            seen = w.swap_version
            yield
        if replaced and w.guard("note"):
            break
        if w.bucket and w.guard("absent"):
            break
        if w.swap_version == seen or not w.guard("same_swaps"):
            w.bucket = True
            w.commits += 1
            yield
            break
        yield
    w.acknowledged = True
    yield


def merge(w: World) -> Step:
    """Replaces the ledger."""
    if not w.bucket:
        return
    yield
    if w.guard("note_first"):
        w.note = True
        yield
    if w.bucket:
        w.bucket = False
        w.swap_version += 1
        yield
    w.note = True
    yield


SCENARIOS = {"copy": (ingest, ingest, merge), "again": (ingest, merge, ingest)}
"""Actors in the order in which they run if nothing preempts them."""


def violation(without: str | None = None, deviations: int = 3) -> str | None:
    """Explores all schedules with few deviations. Returns the first violation.

    Args:
        without: a guard that is lacking.
    """
    return first_violation(SCENARIOS, lambda flows, schedule: play(World(without=without), flows, schedule), deviations)
