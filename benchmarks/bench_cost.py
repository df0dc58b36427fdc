"""Measures the cost of storage at a million messages a day, with and without merging, from counted requests.

    python -m benchmarks cost

A topic gets a ledger every 300 s, its messages due at random within the next days: a million a day at 3,472 a ledger.
The real flows and adapters run over the emulated S3 and DynamoDB of the local runtime, in virtual time; SQS is left
out, since its price is the same either way. Scaled to one machine:

- Messages are small, and every limit in bytes (segment, window, tier) is smaller by the same factor, so that segments,
  ledgers and merges are as many as with real messages.
- The first days are ingested without what would be due in them: at their end the same messages wait as in a steady
  state, and nothing had to be delivered on the way.
- Then some slots are counted: ingest, dispatch, delivery, sweep, merge, collection. Without merging each slot reads a
  segment for nearly every message.

Prices: us-east-1, on demand, no free tier (tidewheel.model.prices).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import tidewheel.flows.maintenance.merge_planning as merging
from tests.stored_ports import STORED_PORTS
from tidewheel.aws.service import Service
from tidewheel.clock import ManualClock
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.flows.ports import MergeSize, QueueMessage, Refusal
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Encoding
from tidewheel.model.pack import Pack
from tidewheel.model.prices import DOLLARS_PER_MILLION
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.wheel import fires_at_ms

TOPIC = "orders"
SLOT_MS = 300_000
DAY_MS = 86_400_000
REAL_BYTES, SMALL_BYTES = 113, 26
"""Stored bytes of a real message (bench_ledger) and of one of ours."""
ROWS, DAYS, SLOTS = 3472, 10, 36
UNMERGED_SLOTS = 4


@dataclass(slots=True)
class NoQueues:
    """Implements the port `Queues`. Accepts everything, and keeps parts."""

    parts: list[tuple[DeliveryKey, int]] = field(default_factory=list)
    sent: int = 0

    def send(self, _: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Counts."""
        self.sent += len(batch)
        return []

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Keeps parts for `Run.work`."""
        self.parts += ((key, part) for part in parts)

    def refuse(self, document: Any) -> None:
        """Never happens."""
        raise AssertionError(document)


class Run:
    """One topic on an emulated S3 and DynamoDB."""

    def __init__(self, stack: LocalTidewheel, rows: int, days: int, *, merges: bool) -> None:
        scale = SMALL_BYTES / REAL_BYTES
        self.stack, self.rows, self.days, self.merges = stack, rows, days, merges
        client = stack.client()
        client.create_topic(TOPIC, segment_bytes=int(65536 * scale), max_buckets=64 if merges else 1_000_000)
        client.create_subscription(TOPIC, "mail")
        ssm = stack.session.client("ssm")
        text = ssm.get_parameter(Name=parameter_name(stack.stack_name))["Parameter"]["Value"]
        settings = ServiceSettings.from_json(text, "ssm")
        self.queues = NoQueues()
        service = Service.of(replace(settings, send_threads=1), stack.session, stack.clock)
        self.ports = _Ports(service, self)
        self.random = np.random.default_rng(17)
        self.merged: Counter[str] = Counter()

    @property
    def largest(self) -> MergeSize:
        """Does nothing, as the Glue job works elsewhere."""
        return MergeSize.LARGE

    def dispatch(self, topic: str) -> None:
        """Runs at once."""
        dispatch(self.ports, topic)

    def merge(self, topic: str, size: MergeSize) -> None:
        """Runs at once, if this run merges at all."""
        if self.merges:
            before = time.perf_counter()
            done = merge(self.ports, topic, in_process(self.ports.objects), lease_s=900)
            assert done is not None
            self.merged.update(merges=done.merges, sources=done.sources, rows=done.rows, **{size.value: 1})
            self.merged["seconds"] += round(time.perf_counter() - before, 3)  # type: ignore[assignment]

    def pack(self, due_after_ms: int) -> Pack | None:
        """Returns a batch of messages, without earlier messages."""
        now_ms = self.ports.clock.now_ms()
        times = now_ms + 3_600_000 + self.random.integers(0, self.days * DAY_MS, self.rows)
        times = np.sort(times[times >= due_after_ms])
        if not len(times):
            return None
        ids = np.zeros((len(times), 16), np.uint8)
        ids[:, :6] = times.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 2:]
        ids[:, 6:] = self.random.integers(0, 256, (len(times), 10), np.uint8)
        state = self.ports.topic_states.read(TOPIC)
        assert state is not None
        return Pack(
            topic=TOPIC,
            generation=state.generation,
            sent_at_ms=now_ms,
            ids=ids.tobytes(),
            encodings=[Encoding.TEXT] * len(times),
            texts=[f"{n:08x}" for n in self.random.integers(0, 2**32, len(times)).tolist()],
            attributes=None,
        )

    def step(self, due_after_ms: int = 0) -> None:
        """Runs one slot, with a ledger, the due messages and the sweep."""
        clock = self.stack.clock
        assert isinstance(clock, ManualClock)
        clock.advance_ms(SLOT_MS)
        pack = self.pack(due_after_ms)
        if pack is not None:
            ingest(self.ports, TOPIC, [pack])
        state = self.ports.topic_states.read(TOPIC)
        assert state is not None
        if state.next_slot is not None and fires_at_ms(state.topic, state.next_slot, state.settings) <= clock.now_ms():
            done = dispatch(self.ports, TOPIC)
            assert done is not None and not done.failures
            if done.collect:
                collect(self.ports, TOPIC)
        while self.queues.parts:
            deliver_part(self.ports, *self.queues.parts.pop())
        # While the topic is filled, sweeps that would find nothing are left out.
        if not due_after_ms or state.merge_at_ms is not None:
            swept = sweep(self.ports)
            assert not swept.failures, swept.failures


class _Ports:
    """A service whose queues accept everything, and whose merges run here."""

    def __init__(self, service: Service, run: Run) -> None:
        for name in (*STORED_PORTS, "wheel"):
            setattr(self, name, getattr(service, name))
        self.clock, self.parallel, self.max_skew_ms = service.clock, service.parallel, service.max_skew_ms
        self.queues, self.runs = run.queues, run


def measure(rows: int, days: int, slots: int, *, merges: bool) -> dict[str, Any]:
    """Fills a topic and counts some slots. Returns figures for a million messages."""
    names = ("FULL_BYTES", "WINDOW_BYTES", "MAX_OUTPUT_BYTES", "_TIER_0_BYTES")
    smaller = {name: int(getattr(merging, name) * SMALL_BYTES / REAL_BYTES) for name in names}
    with patch.multiple(merging, **smaller), LocalTidewheel(collect_interval_s=3600) as stack:
        run = Run(stack, rows, days, merges=merges)
        start_ms = stack.clock.now_ms()
        for _ in range(days * DAY_MS // SLOT_MS):
            run.step(start_ms + days * DAY_MS + 3_600_000)
        # Dispatches begin when the first messages of the backlog are due.
        for _ in range(12):
            run.step()
        run.merged.clear()
        run.queues.sent = 0
        requests, units = Counter(stack.requests), Counter(stack.requests.units)
        before, live = time.perf_counter(), []
        for _ in range(slots):
            run.step()
            live.append(len(run.ports.buckets.all(TOPIC)) if run.merges else 0)
        seconds = time.perf_counter() - before
        return figures(run, Counter(stack.requests) - requests, stack.requests.units - units, slots, seconds) | {
            "live_buckets": sum(live) / len(live)
        }


def figures(run: Run, requests: Counter[str], units: Counter[str], slots: int, seconds: float) -> dict[str, Any]:
    """Returns requests and dollars for a million messages delivered."""
    a_million = 1e6 / max(1, run.queues.sent)
    kept = {name: count for name, count in units.items() if name.startswith(("s3.", "dynamodb."))}
    dollars = {name: count * DOLLARS_PER_MILLION[name] / 1e6 * a_million for name, count in kept.items()}
    return {
        "delivered": run.queues.sent,
        "slots": slots,
        "requests_a_million": {
            name: round(count * a_million) for name, count in requests.items() if name.startswith(("s3.", "dynamodb."))
        },
        "units_a_million": {name: round(count * a_million) for name, count in kept.items()},
        "dollars_a_million": {name: round(value, 5) for name, value in dollars.items()},
        "s3_and_dynamodb": round(sum(dollars.values()), 4),
        "merging": dict(run.merged),
        "seconds": round(seconds, 1),
    }


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Counts with merging and without."""
    if quick:
        runs = {"merged": measure(200, 2, 12, merges=True)}
    else:
        runs = {
            "merged": measure(ROWS, DAYS, SLOTS, merges=True),
            "unmerged": measure(ROWS, DAYS, UNMERGED_SLOTS, merges=False),
        }
    return {"dollars_a_million": runs["merged"]["s3_and_dynamodb"], "runs": runs}
