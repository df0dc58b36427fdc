"""A burst: very many messages due in one second, once in small and once in great numbers."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from random import Random

from benchmarks.soak.account import Account
from benchmarks.soak.growth import report_empty
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.samples import Samples
from benchmarks.soak.stack import LATE_MS, SoakStack, Tamper
from tidewheel import Message
from tidewheel.cost.function_time import ARM_FACTOR, FUNCTIONS, LATENCY_MS, PARALLEL, VCPU_MIB
from tidewheel.flows.delivery.release import BATCH_MESSAGES
from tidewheel.model.settings import TopicSettings

SUBSCRIPTIONS = ("push", "audit")
WORKERS = 100
"""Calls of deliver at one time; see the queues' table in docs/architecture.md."""
_WAVE_EVERY = dt.timedelta(minutes=6)
_MOST_RATIO = 1.1
# Some are sent when their slot is sealed already: a tenth.
_DIRECT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much.

    Attributes:
        messages: due in one second.
        compared: in the smaller burst, with which the memory is compared.
        wave: sent at a time; of each a ledger is made.
    """

    messages: int
    compared: int
    wave: int


FULL = Scale(messages=100_000, compared=10_000, wave=5_000)
SMALL = Scale(messages=12_000, compared=4_000, wave=900)


def run(scale: Scale = FULL, *, tamper: Tamper | None = None) -> Outcome:
    """Sends nine tenths one to three hours ahead, and a tenth five minutes ahead, for two subscriptions."""
    compared = _burst(scale.compared, scale.wave, tamper)
    outcome = _burst(scale.messages, scale.wave, tamper)
    outcome.broken += [f"{scale.compared:,} messages: {each}" for each in compared.broken]
    for name in ("part_most_read_bytes", "part_most_row_bytes"):
        ratio = outcome.figures[name] / max(1, compared.figures[name])
        outcome.figures[f"{name}_ratio"] = ratio
        outcome.at_most(f"{name}, by that of {scale.compared:,} messages", ratio, _MOST_RATIO)
    return outcome


def _burst(messages: int, wave: int, tamper: Tamper | None) -> Outcome:
    outcome = Outcome(name="burst")
    with SoakStack(tamper=tamper) as stack:
        account = Account(stack=stack, client=stack.client())
        account.client.create_topic("sale")
        for name in SUBSCRIPTIONS:
            account.subscribe("sale", name)
        samples = Samples(Random(100))
        due = stack.now() + dt.timedelta(hours=3, minutes=7)
        direct = messages // _DIRECT
        for sent in range(0, messages - direct, wave):
            account.send("sale", _due_in(samples, min(wave, messages - direct - sent), due - stack.now()))
            stack.advance(seconds=_WAVE_EVERY.total_seconds())
        stack.advance_to(due - dt.timedelta(minutes=5))
        account.send("sale", _due_in(samples, direct, due - stack.now()))
        stack.advance_to(due + dt.timedelta(seconds=2.2))
        account.receive()
        outcome.exactly("copies that had not come 1.2 s after the burst", account.open, 0)
        stack.advance(hours=3)
        account.receive()
        account.report(outcome, most_late_ms=LATE_MS)
        stack.watch.report(outcome)
        _report_parts(stack, outcome, messages - direct)
        report_empty(stack, outcome)
    return outcome


def _due_in(samples: Samples, count: int, delay: dt.timedelta) -> list[Message]:
    return samples.between(count, delay, delay + dt.timedelta(seconds=1))


def _report_parts(stack: SoakStack, outcome: Outcome, ledger_rows: int) -> None:
    watch, part_rows = stack.watch, TopicSettings().part_rows
    outcome.at_most("parts of the plans", watch.parts, ledger_rows // part_rows + watch.planned_segments)
    outcome.at_most("messages that one part sent", watch.most_sent["deliver"], part_rows)
    part_s = modelled_part_s(part_rows)
    rounds = -(-watch.part_jobs // WORKERS)
    lookahead_s = TopicSettings().lookahead_s
    outcome.figures |= {
        "modelled_part_s": part_s,
        "modelled_all_parts_s": rounds * part_s,
        "modelled_most_copies_in_time": int(lookahead_s / part_s) * WORKERS * part_rows,
    }
    outcome.at_most("all parts by 100 workers, modelled, s", rounds * part_s, lookahead_s)


def modelled_part_s(messages: int) -> float:
    """Returns how long a worker on AWS takes for one part, by the model of `tidewheel.cost.function_time`."""
    deliver = FUNCTIONS["deliver"]
    cpu_ms = (deliver.call_ms + messages * deliver.message_ms) * ARM_FACTOR / min(1, deliver.memory_mib / VCPU_MIB)
    metadata_ms = 2 * LATENCY_MS["dynamodb.GetItem"] + 3 * LATENCY_MS["dynamodb.UpdateItem"]
    sends_ms = -(-messages // BATCH_MESSAGES // PARALLEL) * LATENCY_MS["sqs.SendMessageBatch"]
    return (cpu_ms + metadata_ms + LATENCY_MS["s3.GetObject"] + sends_ms) / 1000
