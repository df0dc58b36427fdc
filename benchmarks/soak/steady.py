"""A steady rate for virtual weeks: after the ramp-up nothing grows, and at the end nothing is left."""

from __future__ import annotations

import datetime as dt
import gc
from dataclasses import dataclass
from random import Random

from benchmarks.soak.account import Account
from benchmarks.soak.growth import MOST_BLOCKS_A_MESSAGE, Growth, live, report_empty
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.samples import Samples
from benchmarks.soak.stack import LATE_MS, SoakStack, Tamper
from tests.stored import stored
from tidewheel.model.message import MessageId
from tidewheel.model.tombstone import KEPT_S

_MOST_SAMPLES = 168
# Cancels are spread evenly, but for chance.
_TOMBSTONES_SLACK = 1.15
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much.

    Attributes:
        days: virtual; the longest delay is below a quarter of them.
        messages: in all, of both topics.
        step: how often some are sent.
        longest: delay.
        max_buckets: ledgers of a topic above which it is merged.
        cancelled_every: of so many messages one is cancelled; None: none is.
        most_growth: the last quarter by the second.
        rss: whether the process's memory is judged, too.
        most_blocks: blocks of memory that are kept a message. A short run still gathers notes that live four weeks.
    """

    days: int
    messages: int
    step: dt.timedelta = dt.timedelta(hours=1)
    longest: dt.timedelta = dt.timedelta(days=7)
    max_buckets: int = 64
    cancelled_every: int | None = 50
    most_growth: float = 1.1
    rss: bool = True
    most_blocks: float = MOST_BLOCKS_A_MESSAGE


FULL = Scale(days=42, messages=150_000)
SMALL = Scale(
    days=12,
    messages=2_000,
    step=dt.timedelta(hours=2),
    longest=dt.timedelta(days=2),
    max_buckets=16,
    most_growth=1.25,
    rss=False,
    most_blocks=1.5,
)


def run(scale: Scale = FULL, *, tamper: Tamper | None = None) -> Outcome:
    """Sends at even intervals, with real delays from a second on, and cancels a few.

    Of "reminders" two subscriptions read, and the dispatcher delivers; of "retries" one, and all but the smallest plans
    go through the work queue.
    """
    outcome = Outcome(name="steady")
    gc.freeze()  # what is there already need not be looked through at each sample
    try:
        with SoakStack(tamper=tamper) as stack:
            account = Account(stack=stack, client=stack.client())
            growth = Growth(account=account)
            _send_and_receive(scale, account, growth)
            most_tombstones = max(growth.series["tombstones"])
            _drain(scale, account)
            account.report(outcome, most_late_ms=LATE_MS)
            stack.watch.report(outcome)
            growth.report(outcome, most=scale.most_growth, rss=scale.rss, most_blocks=scale.most_blocks)
            _report(scale, stack, outcome, account.cancelled, most_tombstones)
            report_empty(stack, outcome)
    finally:
        gc.unfreeze()
    return outcome


def _report(scale: Scale, stack: SoakStack, outcome: Outcome, cancelled: int, most_tombstones: float) -> None:
    merges = stack.invocations["compact"]
    outcome.figures |= {"virtual_days": scale.days, "merges": merges, "sweeps": stack.invocations["sweep"]}
    outcome.promise(merges > 0, f"merges: {merges}")
    kept_s = KEPT_S + scale.longest.total_seconds() + _DAY_S
    share = min(1.0, kept_s / (scale.days * _DAY_S) * _TOMBSTONES_SLACK)
    outcome.at_most("tombstones, by the cancels of five weeks", int(most_tombstones), -int(-cancelled * share))
    outcome.exactly("tombstones at the end", int(live(stack)["tombstones"]), 0)


def _send_and_receive(scale: Scale, account: Account, growth: Growth) -> None:
    stack, samples = account.stack, Samples(Random(6), scale.longest)
    account.client.create_topic("reminders", max_buckets=scale.max_buckets)
    account.client.create_topic("retries", max_buckets=scale.max_buckets, inline_rows=1)
    for topic, name in (("reminders", "mail"), ("reminders", "audit"), ("retries", "worker")):
        account.subscribe(topic, name)
    steps = int(dt.timedelta(days=scale.days) / scale.step)
    every = -(-steps // _MOST_SAMPLES)
    sent = 0
    for step in range(steps):
        wanted = scale.messages * (step + 1) // steps
        chosen: dict[str, list[MessageId]] = {}
        for number, topic in enumerate(("reminders", "retries")):
            messages = samples.after_real_delays((wanted - sent + number) // 2)
            ids = account.send(topic, messages) if messages else []
            if scale.cancelled_every is not None:
                chosen[topic] = [each for i, each in enumerate(ids, start=sent) if not i % scale.cancelled_every]
        sent = wanted
        stack.advance(seconds=scale.step.total_seconds() / 2)
        for topic, ids in chosen.items():
            account.receive()
            if ids:
                account.cancel(topic, ids)
        stack.advance(seconds=scale.step.total_seconds() / 2)
        account.receive()
        if step % every == every - 1:
            growth.sample()


def _drain(scale: Scale, account: Account) -> None:
    """Goes on without sending until all is due, all is collected, and tombstones have been kept long enough."""
    kept_s = KEPT_S if account.cancelled else 0
    for _ in range(-(-kept_s // _DAY_S) + scale.longest.days + 2):
        account.stack.advance(days=1)
        account.receive()
        # What an idle topic's collections leave to the table's time to live.
        stored(account.stack.service).expire(account.stack.clock.now_ms() // 1000)
