"""Setting aside unreadable items, as an executable specification.

A plan of one subscription has four rows in two objects. A read of object B fails until somebody restores it. In one
scenario S3 has trouble: it fails to give object A first, and then object B.

    row   object   fate
    a     A        sent
    b     B        sent once B can be read
    c     B        cancelled when the plan was made
    d     B        purged at some time

STATE    DELIVERY (open until its part is done), ASIDE of B (suspect or damaged, tries), ASIDE of A (suspect), mark (of
         the purge), collected

FLOWS    deliver   1 put ASIDE IF absent   2 send the rows that were read   3 part done
         retry     1 ASIDE.tries + 1 IF as read   2 send what can be read now   3 delete ASIDE
                   still damaged at the third try: 2 copy the bytes to aside/   3 ASIDE = damaged IF as read
         collect   reads DELIVERY, then ASIDE; neither holds: 1 collected   2 delete A and B
                   3 forget the mark, unless ASIDE
         purge, restore, and an operator's retry of a damaged ASIDE (suspect again), are one write each

INVARIANT   At each moment each row is sent, dropped (cancelled, purged), named by DELIVERY while its object exists, or
            named by ASIDE while its bytes are in the object or in aside/. No dropped row is sent. A row is sent at most
            once more for each crash.

ASSUMPTION  A function ends before the next try of its item is due, or dies.

Every schedule is explored in which actors are preempted, or crash, at most a few times. `guard` marks what the protocol
needs. The mutant of that name lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.few_deviations import Step, Violation, first_violation, play

GUARDS = {
    "aside_first": "the item is put before the part is done",
    "named_by_rows": "another try of the part that misses other rows puts another item",
    "collect_order": "collection reads deliveries before what is set aside",
    "suspect_holds": "collection deletes nothing that a suspect names",
    "copy_first": "bytes are copied before a suspect becomes damaged",
    "cancelled_kept": "the item knows the ids that were cancelled",
    "purge_kept": "a purge's mark stays while something is set aside",
    "claim": "two jobs of one try do not both send",
    "send_first": "the item is deleted after its rows were sent",
}
TRIES = 2
Flow = Callable[["World"], Step]


@dataclass
class World:
    """The stored state and the memory of the checks."""

    without: str | None = None
    delivery: bool = True
    aside: dict[str, int | bool] | None = None
    objects: set[str] = field(default_factory=lambda: {"A", "B"})
    readable: bool = False
    readable_a: bool = True
    aside_a: bool = False
    copied: bool = False
    mark: bool = False
    ever_purged: bool = False
    collected: bool = False
    sent: list[str] = field(default_factory=list)
    crashes: int = 0
    trying: object = None

    def guard(self, name: str) -> bool:
        """Whether the protocol has this guard."""
        assert name in GUARDS
        return name != self.without

    def crashed(self) -> bool:
        """Time passes, and the flow runs again."""
        self.crashes += 1
        return True

    def send(self, rows: str) -> None:
        """Sends rows to the queue."""
        if "c" in rows:
            raise Violation("a cancelled row is sent")
        if "d" in rows and self.ever_purged:
            raise Violation("a purged row is sent")
        self.sent += rows
        for row in set(rows):
            if self.sent.count(row) > 1 + self.crashes:
                raise Violation(f"row {row} is sent {self.sent.count(row)} times after {self.crashes} crashes")

    def check(self) -> None:
        """Raises Violation if a row is lost."""
        rows = {"a", "b"} - set(self.sent)
        for row in rows:
            kept = ("A" if row == "a" else "B") in self.objects
            suspect = self.aside is not None and not self.aside["damaged"]
            damaged = self.aside is not None and bool(self.aside["damaged"])
            if self.delivery and kept:
                continue
            if row == "a" and self.aside_a and kept:
                continue
            # An operator's suspect may lose its object to a collection under way. Its bytes were copied.
            if row == "b" and (suspect or damaged) and (kept or self.copied):
                continue
            raise Violation(f"row {row} is lost")


def deliver(w: World) -> Step:
    """Delivers the part. The work queue delivers the job again after a crash."""
    while w.delivery:
        rows, unread, unread_a = "a" if w.readable_a else "", not w.readable, not w.readable_a
        if not unread:
            rows += "b" if w.mark else "bd"
        yield
        there = (w.aside is not None or w.aside_a) and not w.guard("named_by_rows")
        if unread and w.aside is None and w.guard("aside_first") and not there:
            w.aside = {"tries": 0, "damaged": False}
        w.aside_a |= unread_a and not there
        yield
        w.send(rows.replace("d", "") if w.mark else rows)
        yield
        w.delivery = False
        yield
        if unread and w.aside is None and not w.guard("aside_first"):
            w.aside = {"tries": 0, "damaged": False}
        return


def retry(w: World) -> Step:
    """Tries a suspect. The sweep starts another retry after a crash."""
    token = object()
    try:
        while w.aside is not None and not w.aside["damaged"] and w.trying in (None, token):
            seen = w.aside["tries"]
            yield
            if w.aside is None or (w.aside["tries"] != seen and w.guard("claim")):
                return
            w.aside, w.trying = {"tries": seen + 1, "damaged": False}, token
            yield
            if w.readable and "B" in w.objects:
                rows = ("b" if w.mark else "bd") + ("" if w.guard("cancelled_kept") else "c")
                if not w.guard("send_first"):
                    w.aside = None
                    yield
                w.send(rows)
                yield
                w.aside = None
                return
            if seen + 1 < TRIES:
                yield
                continue
            if w.guard("copy_first"):
                w.copied = True
            yield
            if w.aside is not None and w.aside["tries"] == seen + 1:
                w.aside = {"tries": seen + 1, "damaged": True}
            return
    finally:
        if w.trying is token:
            w.trying = None


def retry_a(w: World) -> Step:
    """Tries the suspect of A."""
    while w.aside_a:
        yield
        if not w.readable_a or "A" not in w.objects:
            return
        w.send("a")
        yield
        w.aside_a = False
        yield


def collect(w: World) -> Step:
    """Deletes unneeded items."""
    aside = w.aside
    if not w.guard("collect_order"):
        yield
    delivery = w.delivery
    if w.guard("collect_order"):
        yield
        aside = w.aside
    suspect = w.aside_a or (aside is not None and not aside["damaged"])
    held = delivery or (suspect and w.guard("suspect_holds"))
    yield
    if held:
        return
    w.collected = True
    yield
    w.objects -= {"A", "B"}
    yield
    if w.aside is None or not w.guard("purge_kept"):
        w.mark = False


def purge(w: World) -> Step:
    """Drops row d, unless the row was sent."""
    w.mark = w.ever_purged = True
    yield


def restore(w: World) -> Step:
    """Puts a good version of B back, and lets the service try again."""
    w.readable = True
    w.objects.add("B")
    yield
    if w.aside is not None and w.aside["damaged"]:
        w.aside = {"tries": int(w.aside["tries"]) + 1, "damaged": False}
    yield


def trouble(w: World) -> Step:
    """S3 fails to give A."""
    w.readable_a, w.readable = False, True
    yield


def other_trouble(w: World) -> Step:
    """S3 gives A again, and fails to give B."""
    w.readable_a, w.readable = True, False
    yield


SCENARIOS: dict[str, tuple[Flow, ...]] = {
    "damage": (deliver, retry, collect, retry, collect),
    "restored": (deliver, retry, purge, retry, collect, restore, retry, collect),
    "healed": (deliver, restore, retry, retry, collect),
    "trouble": (trouble, deliver, other_trouble, retry_a, restore, retry, collect),
    "operator": (deliver, purge, retry, collect, restore, retry),
}
"""Actors in the order in which they run if nothing preempts them."""


def violation(without: str | None = None, deviations: int = 2) -> str | None:
    """Explores all schedules with few deviations. Returns the first violation.

    Args:
        without: a guard that is lacking.
    """
    return first_violation(SCENARIOS, lambda flows, schedule: play(World(without=without), flows, schedule), deviations)
