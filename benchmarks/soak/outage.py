"""A long outage: neither schedules nor sweeps for hours at a steady rate; then the sweep alone must catch up."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from random import Random

from benchmarks.soak.account import Account, Reader
from benchmarks.soak.growth import report_empty
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.samples import Samples
from benchmarks.soak.stack import LATE_MS, SWEEP_MS, SoakStack, Tamper

TOPICS = ("reminders", "retries")
_STEP = dt.timedelta(minutes=10)
_FURTHEST = dt.timedelta(hours=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long the outage is, and how many messages are sent in all: six hours before, during, and six after."""

    hours: int
    messages: int


FULL = Scale(hours=3, messages=40_000)
SMALL = Scale(hours=3, messages=3_000)


@dataclass(slots=True, kw_only=True)
class Windows:
    """How late copies were, by when they were due.

    Attributes:
        from_ms, until_ms: the outage.
        most_in_time_ms: of the copies due before it, or after what the sweep caught up.
        late: copies that came more than LATE_MS late.
        most_after_ms: how long after the outage the last of these was receivable.
    """

    from_ms: int
    until_ms: int
    most_in_time_ms: int = 0
    late: int = 0
    most_after_ms: int = 0

    def note(self, reader: Reader, message_id: str, due_ms: int, visible_ms: int) -> None:  # noqa: ARG002
        """Notes a copy."""
        if self.from_ms <= due_ms < self.until_ms + SWEEP_MS:
            if visible_ms - due_ms > LATE_MS:
                self.late += 1
                self.most_after_ms = max(self.most_after_ms, visible_ms - self.until_ms)
            return
        self.most_in_time_ms = max(self.most_in_time_ms, visible_ms - due_ms)


def run(scale: Scale = FULL, *, tamper: Tamper | None = None) -> Outcome:
    """Schedules vanish from the outage on, and come back no more for six hours: the sweep does all."""
    outcome = Outcome(name="outage")
    with SoakStack(tamper=tamper) as stack:
        account = Account(stack=stack, client=stack.client())
        for topic in TOPICS:
            account.client.create_topic(topic)
            account.subscribe(topic, "worker")
        hours = scale.hours + 12
        rate = scale.messages / hours
        samples, now_ms = Samples(Random(3)), stack.clock.now_ms()
        windows = Windows(from_ms=now_ms + 6 * 3_600_000, until_ms=now_ms + (6 + scale.hours) * 3_600_000)
        account.each_copy(windows.note)
        _send(account, samples, hours=6, messages=round(6 * rate))
        stack.drop_schedules, stack.no_sweep = True, True
        _send(account, samples, hours=scale.hours, messages=round(scale.hours * rate))
        _report_catch_up(account, outcome)
        _send(account, samples, hours=6, messages=round(6 * rate))
        alone = stack.invocations["dispatch"]
        stack.drop_schedules = False
        stack.advance(hours=_FURTHEST / dt.timedelta(hours=1) + 6)
        account.receive()
        outcome.figures |= {"dispatches_of_the_sweep": alone, "late_copies": windows.late}
        _report(stack, account, windows, outcome)
    return outcome


def _send(account: Account, samples: Samples, *, hours: int, messages: int) -> None:
    steps = hours * dt.timedelta(hours=1) // _STEP
    for step in range(steps):
        count = messages * (step + 1) // steps - messages * step // steps
        for number, topic in enumerate(TOPICS):
            batch = samples.between((count + number) // 2, dt.timedelta(), _FURTHEST)
            if batch:
                account.send(topic, batch)
        account.stack.advance(seconds=_STEP.total_seconds())
        account.receive()


def _report_catch_up(account: Account, outcome: Outcome) -> None:
    """The first sweep after the outage starts one dispatch a topic, and that plans all that is overdue."""
    stack, watch = account.stack, account.stack.watch
    overdue = account.overdue(stack.clock.now_ms() - LATE_MS)
    outcome.promise(overdue > 0, f"copies overdue at the end of the outage: {overdue:,}")
    dispatches, plans = stack.invocations["dispatch"], watch.plans
    stack.no_sweep = False
    stack.advance(milliseconds=SWEEP_MS)
    account.receive()
    outcome.figures |= {"overdue_at_the_end": overdue, "catch_up_plans": watch.plans - plans}
    outcome.exactly("overdue copies after one sweep", account.overdue(stack.clock.now_ms() - LATE_MS), 0)
    outcome.at_most("dispatches to catch up", stack.invocations["dispatch"] - dispatches, 2 * len(TOPICS))
    outcome.at_most("plans to catch up", watch.plans - plans, 2 * len(TOPICS))


def _report(stack: SoakStack, account: Account, windows: Windows, outcome: Outcome) -> None:
    account.report(outcome, most_late_ms=None)
    stack.watch.report(outcome)
    outcome.at_most("last late copy, ms after the outage", windows.most_after_ms, SWEEP_MS + LATE_MS)
    outcome.at_most("latest copy of other times, the sweep alone, ms", windows.most_in_time_ms, LATE_MS)
    report_empty(stack, outcome)
