"""A backlog of ingest: its triggers stand still for hours while clients go on sending."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from benchmarks.soak.account import Account, Reader
from benchmarks.soak.growth import report_empty
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.samples import Samples
from benchmarks.soak.stack import LATE_MS, SoakStack, Tamper
from tidewheel.client.sender import URGENT_MS
from tidewheel.model.triggers import BULK_WINDOW_S

MOST_EVENT_BYTES = 6 * 1024 * 1024
"""What Lambda hands to a function at most; a batch is cut there. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
_STEP = dt.timedelta(minutes=10)
_AFTER = dt.timedelta(hours=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long ingest stands still, and how much is sent meanwhile: half of it is overdue when it goes on."""

    hours: int
    messages: int


FULL = Scale(hours=6, messages=60_000)
SMALL = Scale(hours=6, messages=4_000)


@dataclass(slots=True)
class Arrivals:
    """When the copies came after ingest went on.

    What is urgent is taken at once; the rest is gathered for a window first, and whatever is due before the window's
    end comes at its end.

    Attributes:
        urgent_ids: messages that went through the urgent queue.
        overdue: "urgent", "bulk" -> copies that were overdue when ingest went on.
        most_ms: likewise, how long after that the last of them was receivable.
        most_late_ms: how much later than due, or than its queue is read, any copy was receivable.
    """

    back_ms: int = 0
    urgent_ids: set[str] = field(default_factory=set)
    overdue: Counter[str] = field(default_factory=Counter)
    most_ms: Counter[str] = field(default_factory=Counter)
    most_late_ms: int = 0

    def note(self, reader: Reader, message_id: str, due_ms: int, visible_ms: int) -> None:  # noqa: ARG002
        """Notes a copy."""
        queue = "urgent" if message_id in self.urgent_ids else "bulk"
        read_ms = self.back_ms + (0 if queue == "urgent" else BULK_WINDOW_S * 1000)
        self.most_late_ms = max(self.most_late_ms, visible_ms - max(due_ms, read_ms))
        if due_ms < self.back_ms:
            self.overdue[queue] += 1
            self.most_ms[queue] = max(self.most_ms[queue], visible_ms - self.back_ms)


def run(scale: Scale = FULL, *, tamper: Tamper | None = None) -> Outcome:
    """Stops ingest, sends, starts it again, and waits until all has come."""
    outcome = Outcome(name="backlog")
    with SoakStack(tamper=tamper) as stack:
        account, arrivals = Account(stack=stack, client=stack.client()), Arrivals()
        account.client.create_topic("orders")
        account.subscribe("orders", "billing")
        account.each_copy(arrivals.note)
        back = stack.now() + dt.timedelta(hours=scale.hours)
        stack.set_ingest(running=False)
        _send(scale, account, arrivals, back)
        outcome.exactly("copies that came while ingest stood still", account.delivered, 0)
        outcome.figures["packs_waiting"] = stack.source_depth()
        arrivals.back_ms = stack.clock.now_ms()
        overdue = account.overdue(arrivals.back_ms)
        stack.set_ingest(running=True)
        stack.advance(seconds=BULK_WINDOW_S + 1)
        account.receive()
        outcome.exactly("messages in the ingest queues a window later", stack.source_depth(), 0)
        outcome.exactly("overdue copies that came within a window", sum(arrivals.overdue.values()), overdue)
        for _ in range(2 * _AFTER // dt.timedelta(hours=1)):
            stack.advance(hours=1)
            account.receive()
        _report(stack, account, arrivals, outcome)
    return outcome


def _send(scale: Scale, account: Account, arrivals: Arrivals, back: dt.datetime) -> None:
    stack, samples = account.stack, Samples(Random(60))
    steps = scale.hours * dt.timedelta(hours=1) // _STEP
    sent = 0
    for step in range(steps):
        count = scale.messages * (step + 1) // steps - sent
        sent += count
        left = back - stack.now()
        overdue = samples.between(count // 2, dt.timedelta(), left)
        later = samples.between(count - count // 2, left + dt.timedelta(seconds=1), left + _AFTER)
        messages = [*overdue, *later]
        ids = account.send("orders", messages)
        for each, message in zip(ids, messages, strict=True):
            assert isinstance(message.delay, dt.timedelta)
            if message.delay <= dt.timedelta(milliseconds=URGENT_MS):
                arrivals.urgent_ids.add(each)
        stack.advance(seconds=_STEP.total_seconds())
        account.receive()


def _report(stack: SoakStack, account: Account, arrivals: Arrivals, outcome: Outcome) -> None:
    account.report(outcome, most_late_ms=None)
    stack.watch.report(outcome)
    outcome.figures |= {
        "overdue_copies": sum(arrivals.overdue.values()),
        "urgent_last_ms": arrivals.most_ms["urgent"],
        "bulk_last_ms": arrivals.most_ms["bulk"],
    }
    outcome.promise(min(arrivals.overdue["urgent"], arrivals.overdue["bulk"]) > 0, "overdue copies of both queues")
    outcome.at_most("latest copy, by its time or that at which its queue is read, ms", arrivals.most_late_ms, LATE_MS)
    outcome.at_most("largest batch, bytes", stack.watch.most_event_bytes, MOST_EVENT_BYTES)
    report_empty(stack, outcome)
