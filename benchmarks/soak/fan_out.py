"""Fifty subscriptions of one topic: one queue refuses everything for hours, one is paused, two have filters."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from benchmarks.soak.account import Account, Reader
from benchmarks.soak.growth import live, report_empty
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.samples import Samples
from benchmarks.soak.stack import LATE_MS, SWEEP_MS, SoakStack, Tamper
from tidewheel import Message
from tidewheel.errors import QueueUnavailable
from tidewheel.model.triggers import BULK_WINDOW_S

TOPIC = "news"
BROKEN, PAUSED, FILTERED = "broken", "paused", ("filtered-0", "filtered-1")
KINDS = 4
"""Values of the attribute `kind`; each filter takes one of them."""
_STEP = dt.timedelta(minutes=15)
_FURTHEST = dt.timedelta(hours=2)
_HOUR_MS = 3_600_000
_TRIED_BY_A_SWEEP = 3
_EARLY_TRIES = 4
"""Tries of a new park by delayed jobs, before only the sweep tries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much.

    Attributes:
        subscriptions: of the topic, with the four odd ones.
        messages: in all, evenly.
        flash: due in one minute, twice: while the queue refuses, and while a subscription is paused, too.
        hours: that the queue refuses, and again as many with a second subscription paused.
        inline_rows: sends up to which the dispatcher delivers a plan itself.
    """

    subscriptions: int
    messages: int
    flash: int
    hours: int
    inline_rows: int = 2_000


FULL = Scale(subscriptions=50, messages=4_000, flash=1_500, hours=6)
SMALL = Scale(subscriptions=12, messages=300, flash=250, hours=3, inline_rows=300)


@dataclass(slots=True)
class Late:
    """How late copies were: of each odd subscription, and of all the others together.

    Attributes:
        most_ms: name, or "others" -> of the latest copy.
    """

    most_ms: Counter[str] = field(default_factory=Counter)

    def note(self, reader: Reader, message_id: str, due_ms: int, visible_ms: int) -> None:  # noqa: ARG002
        """Notes a copy."""
        name = reader[1] if reader[1] in (BROKEN, PAUSED) else "others"
        self.most_ms[name] = max(self.most_ms[name], visible_ms - due_ms)


@dataclass(slots=True, kw_only=True)
class Run:
    """One run."""

    scale: Scale
    account: Account
    samples: Samples
    outcome: Outcome
    late: Late = field(default_factory=Late)

    @property
    def stack(self) -> SoakStack:
        """The service."""
        return self.account.stack

    def subscribe(self) -> None:
        """Makes the topic and its subscriptions."""
        self.account.client.create_topic(TOPIC, inline_rows=self.scale.inline_rows)
        self.account.each_copy(self.late.note)
        for name in (BROKEN, PAUSED, *(f"reader-{i}" for i in range(self.scale.subscriptions - 4))):
            self.account.subscribe(TOPIC, name)
        for number, name in enumerate(FILTERED):
            kind = str(number)

            def takes(message: Message, kind: str = kind) -> bool:
                return message.attributes is not None and message.attributes["kind"] == kind

            self.account.subscribe(TOPIC, name, filter_policy={"kind": [kind]}, takes=takes)

    def send_for(self, hours: int, messages: int) -> None:
        """Sends so many messages over some hours, due from at once to two hours ahead, and receives."""
        steps = hours * dt.timedelta(hours=1) // _STEP
        for step in range(steps):
            count = messages * (step + 1) // steps - messages * step // steps
            self.account.send(TOPIC, [self._message() for _ in range(count)])
            self.stack.advance(seconds=_STEP.total_seconds())
            self.account.receive()

    def send_flash(self) -> None:
        """Sends messages that are due within a minute, an hour and a half ahead: too many for the dispatcher itself."""
        first = dt.timedelta(minutes=90)
        batch = self.samples.between(self.scale.flash, first, first + dt.timedelta(minutes=1))
        self.account.send(TOPIC, [replace(each, attributes={"kind": str(KINDS)}) for each in batch])

    def _message(self) -> Message:
        delay = dt.timedelta(milliseconds=self.samples.random.randrange(_FURTHEST // dt.timedelta(milliseconds=1)))
        return self.samples.message(delay, kind=str(self.samples.random.randrange(KINDS)))

    def collected_behind_ms(self) -> int:
        """Returns how far collection is behind now."""
        state = self.stack.service.topic_states.read(TOPIC)
        assert state is not None
        return self.stack.clock.now_ms() - state.collected_until * state.slot_ms

    def overdue(self, name: str) -> int:
        """Returns the copies that a subscription should have and has not."""
        latest_ms = self.stack.clock.now_ms() - LATE_MS
        return sum(due_ms <= latest_ms for due_ms in self.account.awaited[TOPIC, name].values())


def run(scale: Scale = FULL, *, tamper: Tamper | None = None) -> Outcome:
    """All is well; then a queue refuses; then another subscription is paused, too; then both come back."""
    outcome = Outcome(name="fan_out")
    with SoakStack(tamper=tamper) as stack:
        account = Account(stack=stack, client=stack.client())
        each = Run(scale=scale, account=account, samples=Samples(Random(50)), outcome=outcome)
        each.subscribe()
        urls = {s.name: s.queue_url for s in account.client.subscriptions(TOPIC)}
        each.send_for(scale.hours, scale.messages // 4)
        stack.ordered.add(QueueUnavailable)
        stack.watch.refusing.add(urls[BROKEN])
        each.send_flash()
        each.send_for(scale.hours, scale.messages // 4)
        _report_broken(each)
        account.client.pause(TOPIC, PAUSED)
        paused_ms = stack.clock.now_ms()
        each.send_flash()
        each.send_for(scale.hours, scale.messages // 4)
        _report_paused(each, paused_ms)
        stack.watch.refusing.clear()
        account.client.resume(TOPIC, PAUSED)
        _report_back(each)
        each.send_for(scale.hours, scale.messages - scale.messages // 4 * 3)
        stack.advance(hours=12)
        account.receive()
        _report(each)
    return outcome


def _report_broken(each: Run) -> None:
    """What one broken queue costs: its own copies wait, and nothing else does."""
    outcome, stack = each.outcome, each.stack
    parks, sweeps = int(live(stack)["parks"]), each.scale.hours * _HOUR_MS // SWEEP_MS
    outcome.promise(each.overdue(BROKEN) > 0, f"copies that the broken queue misses: {each.overdue(BROKEN):,}")
    outcome.figures |= {"broken_parks": parks, "broken_drain_jobs": stack.watch.drain_jobs}
    # A part and an ingest call put aside one park each.
    most = stack.watch.parts + stack.watch.calls["ingest"]
    outcome.promise(0 < parks <= most, f"parks of the broken subscription: {parks:,}, at most {most:,}")
    tries = _TRIED_BY_A_SWEEP * sweeps + _EARLY_TRIES * stack.watch.parks
    outcome.at_most("parks tried meanwhile, by sweeps and parks", stack.watch.drain_jobs, tries)
    outcome.at_most("collection behind beside a broken queue, ms", each.collected_behind_ms(), 2 * _HOUR_MS)


def _report_paused(each: Run, paused_ms: int) -> None:
    """What a paused subscription costs: ledgers and plans from its cursor on are kept."""
    outcome, now_ms = each.outcome, each.stack.clock.now_ms()
    behind_ms = each.collected_behind_ms()
    least_ms = now_ms - paused_ms - 2 * _HOUR_MS
    kept = int(live(each.stack)["plans"])
    outcome.figures["paused_plans_kept"] = kept
    outcome.promise(behind_ms >= least_ms and kept > 0, f"a paused cursor keeps {kept:,} plans, {behind_ms:,} ms back")
    outcome.promise(each.overdue(PAUSED) > 0, f"copies that the paused one misses: {each.overdue(PAUSED):,}")
    outcome.exactly("copies that others miss", sum(map(each.overdue, _others(each))), 0)


def _report_back(each: Run) -> None:
    """Both have everything soon: the paused one at once, the broken one when the next sweep has tried a park."""
    outcome, stack = each.outcome, each.stack
    before, parks = stack.watch.drain_jobs, int(live(stack)["parks"])
    stack.advance(seconds=BULK_WINDOW_S)
    each.account.receive()
    outcome.exactly("copies that the paused one misses after the next sweep", each.overdue(PAUSED), 0)
    outcome.exactly("copies that the broken one misses after the next sweep", each.overdue(BROKEN), 0)
    # The sweep tries one and may be at the others when the drain of that one enqueues them.
    outcome.at_most("drains enqueued, by parks", stack.watch.drain_jobs - before, 2 * parks)
    outcome.figures |= {"parks_at_repair": parks, "drain_jobs_after_repair": stack.watch.drain_jobs - before}


def _report(each: Run) -> None:
    outcome, stack = each.outcome, each.stack
    watch = stack.watch
    each.account.report(outcome, most_late_ms=None)
    watch.report(outcome)
    outcome.figures |= {
        "subscriptions": each.scale.subscriptions,
        "others_late_most_ms": each.late.most_ms["others"],
        "jobs_a_plan": watch.part_jobs / max(1, watch.plans),
    }
    outcome.at_most("latest copy of the others, ms", each.late.most_ms["others"], LATE_MS)
    outcome.promise(watch.expected_jobs > 0, f"parts of plans for the work queue: {watch.expected_jobs:,}")
    report_empty(stack, outcome)


def _others(each: Run) -> list[str]:
    return [name for _, name in each.account.awaited if name not in (BROKEN, PAUSED)]
