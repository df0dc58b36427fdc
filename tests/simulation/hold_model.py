"""Holding rows during an outage of the storage, as an executable specification.

A pack of two subscriptions, A and B, has four rows.

    row   due    fate
    d     soon   sent directly
    k     soon   lost its key to d: superseded
    l     later  in a ledger; sent directly once its slot is sealed
    w     later  as l, and has a key that cannot be settled at times: then it waits, and the others do not

STATE    PACK (in the ingest queue until it is acknowledged), NOTE (rows of the pack that need no second send),
         tombstone of k, ledgers, PARK (subscription, rows), JOB (subscription, rows, since), NOTE of each parked job

FLOWS    ingest  1 tombstone of k   2 a retry, or w waits: NOTE as read   3 send   4 put a PARK, or else enqueue a JOB
                 5 a retry: NOTE   6 put and commit the ledger IF its slot is open
                 7 if w waits: NOTE of all other rows; otherwise acknowledge PACK
                 after an error: NOTE, if something was sent
         work    1 end if the job has a NOTE   2 put PARK and NOTE IF there is no NOTE   3 acknowledge JOB
                 after an error: enqueue JOB with the same since, or refuse the rows if their time is over
         drain   sends a PARK and deletes it, in one step; `protocol_model` has its steps

INVARIANT   At each moment each row is in PACK, committed, sent, parked, held or refused. A row comes once, and at most
            once more for each *excuse*: a death between a send and its note, a call without an answer, a note that is
            refused (in a retry, or if w waits: after the table took the write before the send), and an acknowledged
            pack that SQS delivers again. Row k never comes. Without an excuse, no row is both refused and sent, unless
            two workers had the same job. A job is refused once its time is over, and not before.

ASSUMPTION  A refused call has no effect. All writes of the table are refused together. A function ends before its
            message comes again, or SQS delivers the message twice. Reads are answered.

`hold_flows` has the flows. `hold_schedules` explores the schedules in which actors are preempted, die, or get no
answer, at most a few times. `guard` marks what the protocol needs. The mutant of that name lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.few_deviations import Violation

GUARDS = {
    "keys_first": "keys are settled before rows are sent",
    "note_on_failure": "a try that sent rows and fails notes the rows",
    "note_before": "a retry sends nothing before the table takes its note",
    "note_after": "a retry notes its rows at once",
    "waits_alone": "a pack with a row that waits comes again",
    "rest_noted": "the other rows of a pack with a row that waits are noted when they are done",
    "sends_first": "direct rows are sent before the ledger is committed",
    "pack_waits": "a pack waits for an unknown topic",
    "refuse_rest": "a refused pack keeps the note of its rows that were sent",
    "job_waits": "a job waits for an unknown topic",
    "away_counts": "the wait for an unknown topic begins when the topic is gone",
    "job_note": "a job that was parked has a note",
    "note_with_park": "a job's note and park are one write",
    "job_note_named": "the note of a job names its subscription",
    "enqueue_first": "a job that is put off is enqueued again before it is acknowledged",
    "since_kept": "a job that is put off keeps its first time",
    "note_first": "a job's note is read before its topic",
}
LACKING = {
    "shares_noted": "a try that fails for one subscription notes the rows of the others",
}
"""Guards that the flows do without. The violation without each of them shows what the flows do.

`shares_noted` needs a mark for each subscription in each note, and a filter by it in each send. It saves copies only
while the table refuses the parks of a subscription and takes notes, and the work queue refuses, too. A table that
refuses all writes makes one copy at most. S3 makes none: `parking.park_inline` puts parks that need no object, where
this model holds the rows.
"""


class FailedCall(Exception):
    """A call was refused, or had no answer."""


@dataclass(kw_only=True, eq=False)
class Job:
    """A job of the work queue with held rows. `first` is the hour of its first copy."""

    subscription: str
    rows: str
    since: int
    first: int
    taken: bool = False
    refused: bool = False

    def named(self, *, subscription: bool = True) -> str:
        """The name of the job's note."""
        return f"{self.subscription if subscription else ''} {self.rows} {self.since}"


@dataclass
class World:
    """The stored state and the memory of the checks. `down` names all unavailable parts."""

    without: str | None = None
    down: set[str] = field(default_factory=set)
    hour: int = 0
    away_hour: int = 0
    sealed: bool = False
    acknowledged: bool = False
    taken: bool = False
    receives: int = 0
    settled: bool = False
    noted: set[str] = field(default_factory=set)
    ledgers: set[str] = field(default_factory=set)
    parks: set[tuple[str, str]] = field(default_factory=set)
    jobs: list[Job] = field(default_factory=list)
    last: Job | None = None
    job_notes: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    excuses: int = 0
    overlap: bool = False
    unanswered: str = ""
    called: bool = False

    def guard(self, name: str) -> bool:
        """Whether the protocol has this guard."""
        assert name in GUARDS or name in LACKING
        return name != self.without

    def call(self, needs: str, effect: Callable[[], object] = lambda: None) -> None:
        """Makes a call. The call may be refused, or end without an answer before or after its effect."""
        self.called = True
        unanswered, self.unanswered = self.unanswered, ""
        if not self.down.isdisjoint(needs.split()):
            raise FailedCall
        if unanswered != "before":
            effect()
        if unanswered:
            self.excuses += 1
            raise FailedCall

    def send(self, subscription: str, rows: str) -> None:
        """Sends rows to the queue of a subscription."""
        self.sent += [row + subscription for row in rows]

    def check(self, *, at_rest: bool = False) -> None:
        """Raises Violation if the invariant does not hold."""
        kept = {row + name for name, rows in self.parks for row in rows}
        held = {row + job.subscription for job in self.jobs for row in job.rows}
        if at_rest and (kept or held or not self.acknowledged):
            raise Violation("work is left for ever")
        for pair in ("dA", "dB", "lA", "lB", "wA", "wB"):
            stored = sum(pair[0] in rows for rows in self.ledgers)
            copies = self.sent.count(pair) + stored
            if self.acknowledged and not (copies or pair in kept | held | self.refused):
                raise Violation(f"{pair} is lost")
            if copies > 1 + self.excuses:
                raise Violation(f"{pair} comes {copies} times, with {self.excuses} excuses")
            if pair in self.refused and (copies or pair in kept) and not (self.excuses or self.overlap):
                raise Violation(f"{pair} is both refused and sent")
        if any(pair[0] == "k" for pair in self.sent):
            raise Violation("a superseded row is sent")
