"""Measures storage, requests and dollars of a topic over ten years, beside merges without retention by message.

    python -m benchmarks retention

A round sends six messages of 7 KB, due after a minute, an hour, a day, a month, a year and ten years. A thousand rounds
are spread over ten years. The real flows run over the service in memory, in virtual time: ingest, dispatch, delivery,
collection, the sweep where its index asks for it and once a day, and the merges that it starts.

- *live*: a ledger's bytes, by the share of its rows that somebody may still need; *dead*: its other bytes; *trash*:
  objects that no bucket names. They are taken before each round, days after the collections of the last.
- *rewritten*: the bytes of the ledgers that merges wrote. *sent*: those of the ledgers that ingest wrote.
- Requests are calls of the ports, which are one request each, but for items of more than 4 KB and transactions, which
  count by their units. Sweeps that find nothing are left out: they are the service's, not the topic's.
- *as in 338c277*: the same run, where ledgers are merged by their number alone.

The picture is `benchmarks/results/retention.png`.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.stored import stored
from tests.stored_ports import STORED_PORTS
from tidewheel.clock import ManualClock
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance import retention
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.maintenance.retention import SLACK_BYTES, dead_of
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.memory import MemoryService, MemorySqs
from tidewheel.model.message import IdSource, Message
from tidewheel.model.pack import Pack, decode_pack, packs
from tidewheel.model.prices import DAYS_A_MONTH, S3_GB_MONTH, dollars
from tidewheel.model.settings import TopicSettings
from tidewheel.model.task import task_of
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import BULK_WINDOW_S, SWEEP_INTERVAL_S
from tidewheel.model.validation import check_message
from tidewheel.storage.items import encode_bucket

TOPIC = "orders"
START_MS = 1_767_225_600_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
YEAR_MS = 365 * DAY_MS
DELAYS_MS = (MINUTE_MS, HOUR_MS, DAY_MS, 30 * DAY_MS, YEAR_MS, 10 * YEAR_MS)
BODY_BYTES = 7_000
PICTURE = Path(__file__).parent / "results" / "retention.png"
_SWEEP_MS = SWEEP_INTERVAL_S * 1000
_NEVER = 1 << 62
_TRANSACTIONS = {"buckets.commit": 2, "plans.commit": 4, "deliveries.hand_out": 2, "tombstones.cancel": 2}
"""Calls that are transactions -> their items. Each item of a transaction is two units."""
_READS = ("read", "all", "ids", "ranges", "next", "trash", "due", "may_move", "objects")


class _Metered:
    """Passes a port's calls on, and counts the units of each."""

    def __init__(self, name: str, port: Any, units: Counter[str]) -> None:
        self._name, self._port, self._units = name, port, units

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            self._units.update(self._units_of(name, args, answer))
            return answer

        return call

    def _units_of(self, name: str, args: tuple[Any, ...], answer: Any) -> dict[str, int]:
        if self._name == "objects":
            kinds = {"put": "s3.put", "create": "s3.put", "list": "s3.put", "get_range": "s3.get"}
            return {kinds[name]: 1} if name in kinds else {}
        if (self._name, name) == ("buckets", "all"):
            size = sum(len(str(encode_bucket(TOPIC, each))) // 2 for each in answer)
            return {"dynamodb.read": 1 + size // 4096}
        if name in _READS:
            return {"dynamodb.read": 1}
        if name == "swap":
            return {"dynamodb.write": 2 * (len(args[1]) + len(args[2]) + 2)}
        return {"dynamodb.write": 2 * _TRANSACTIONS.get(f"{self._name}.{name}", 0) or 1}


@dataclass(slots=True)
class Sample:
    """The bytes of a topic at a time, and the units until then."""

    days: float
    live: int
    dead: int
    trash: int
    ledgers: int
    units: Counter[str]
    dollars: float


@dataclass
class Run:
    """One topic in virtual time."""

    rounds: int
    span_ms: int
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    units: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    sent_bytes: int = 0
    rewritten_bytes: int = 0
    merges: int = 0
    storage_dollars: float = 0.0

    def __post_init__(self) -> None:
        sqs = MemorySqs(self.clock, on_demand=True)
        self.service, self.work_queue = MemoryService.at(self.clock, sqs), sqs.queue("work")
        self.ports: Any = type("Ports", (), {})()
        for name in (*STORED_PORTS, "queues", "wheel", "runs"):
            port = getattr(self.service, name)
            setattr(self.ports, name, _Metered(name, port, self.units) if name in STORED_PORTS else port)
        self.ports.clock, self.ports.parallel = self.clock, self.service.parallel
        self.ports.max_skew_ms = self.service.max_skew_ms
        self.random, self.ids = random.Random(1), IdSource()
        create_topic(self.service, self.clock, TOPIC, TopicSettings())
        create_subscription(self.service, self.clock, TOPIC, "billing", "queue-billing")

    def run(self) -> Run:
        """Sends all rounds, and lets the time pass."""
        next_daily_ms = START_MS + DAY_MS
        for number in range(self.rounds):
            until_ms = START_MS + number * self.span_ms // self.rounds
            next_daily_ms = self._until(until_ms, next_daily_ms)
            self._sample()
            self._round()
        self._until(START_MS + self.span_ms, next_daily_ms)
        self._sample()
        return self

    @property
    def state(self) -> TopicState:
        """The topic's marks."""
        state = self.service.topic_states.read(TOPIC)
        assert state is not None
        return state

    def _pack(self, delays_ms: tuple[int, ...]) -> list[Pack]:
        now_ms = self.clock.now_ms()
        found = []
        for delay_ms in delays_ms:
            body = base64.b85encode(self.random.randbytes(BODY_BYTES * 4 // 5)).decode()
            checked = check_message(Message(body=body, delay=delay_ms / 1000), self.ids, now_ms)
            [(_, data)] = packs(TOPIC, self.state.generation, now_ms, [checked])
            found.append(decode_pack(data, now_ms))
        return found

    def _round(self) -> None:
        urgent, bulk = self._pack(DELAYS_MS[:1]), self._pack(DELAYS_MS[1:])
        self._ingest(urgent)
        self._until(self.clock.now_ms() + BULK_WINDOW_S * 1000, _NEVER)
        self._ingest(bulk)

    def _ingest(self, batch: list[Pack]) -> None:
        self.units["lambda.invocation"] += 1
        self.units["sqs.request"] += 3  # send, receive, delete
        done = ingest(self.ports, TOPIC, batch)
        self.units["sqs.request"] += bool(done.direct_rows)
        if done.bucket_id is not None:
            bucket = self.service.buckets.read(TOPIC, done.bucket_id)
            self.sent_bytes += 0 if bucket is None else bucket.size_bytes

    def _until(self, end_ms: int, next_daily_ms: int) -> int:
        while True:
            fires = min((at for _, _, at in self.service.wheel.schedules.values()), default=_NEVER)
            asked_ms = -(-self._next_check_ms() // _SWEEP_MS) * _SWEEP_MS
            at_ms = max(self.clock.now_ms(), min(fires, asked_ms, next_daily_ms))
            if at_ms > end_ms:
                break
            self.clock.set_ms(at_ms)
            for _, _, _ in self.service.wheel.take_due(at_ms):
                self.units["scheduler.invocation"] += 1
                self._dispatch()
            if at_ms >= min(asked_ms, next_daily_ms):
                next_daily_ms += DAY_MS if at_ms >= next_daily_ms else 0
                self._sweep()
        self.clock.set_ms(end_ms)
        return next_daily_ms

    def _next_check_ms(self) -> int:
        items = stored(self.service).of(TOPIC)
        checks = [each.next_check_ms for each in (*items.deliveries.values(), *items.parks.values())]
        checks += [self.state.next_check_ms]
        return max(self.clock.now_ms() + 1, min((each for each in checks if each is not None), default=_NEVER))

    def _sweep(self) -> None:
        swept = sweep(self.ports)
        assert not swept.failures, swept.failures
        while self.service.runs.dispatches:
            self.service.runs.dispatches.pop()
            self._dispatch()
        while self.service.runs.merges:
            self.service.runs.merges.pop()
            self._merge()
        self._work()

    def _dispatch(self) -> None:
        self.units["lambda.invocation"] += 1
        done = dispatch(self.ports, TOPIC)
        assert done is not None and not done.failures
        self.units["sqs.request"] += bool(done.sent.messages)
        self._work()
        if done.collect:
            collect(self.ports, TOPIC)

    def _work(self) -> None:
        while jobs := self.work_queue.everything:
            self.work_queue.purge()
            for job in jobs:
                self.units["lambda.invocation"] += 1
                do_task(self.ports, task_of(job.body))

    def _merge(self) -> None:
        self.units["lambda.invocation"] += 1
        done = merge(self.ports, TOPIC, in_process(self.ports.objects), lease_s=900)
        assert done is not None and not done.skipped
        self.merges += done.merges
        sizes = {each.name: each.size_bytes for each in self.service.objects.list("ledgers/")}
        self.rewritten_bytes += sum(sizes[name] for name in done.written)

    def _sample(self) -> None:
        state, buckets = self.state, self.service.buckets.all(TOPIC)
        dead = sum(dead_of(state, buckets, [], self.clock.now_ms()).size_bytes.values())
        named = sum(each.size_bytes for each in buckets)
        stored = sum(each.size_bytes for each in self.service.objects.list("ledgers/"))
        days = (self.clock.now_ms() - START_MS) / DAY_MS
        last = self.samples[-1].days if self.samples else 0.0
        self.storage_dollars += stored / 1e9 * (days - last) / DAYS_A_MONTH * S3_GB_MONTH
        spent = self.storage_dollars + sum(dollars(unit, count) for unit, count in self.units.items())
        self.samples.append(
            Sample(days, round(named - dead), round(dead), stored - named, len(buckets), Counter(self.units), spent)
        )


def as_in_338c277(rounds: int, span_ms: int) -> Run:
    """The same run with the merges of commit 338c277."""
    with patch.object(retention, "SLACK_BYTES", _NEVER):
        return Run(rounds, span_ms).run()


def benchmark(*, quick: bool) -> dict[str, float]:
    """Runs the topic with and without retention by message. Prints a table and saves the picture."""
    rounds, span_ms = (100, YEAR_MS) if quick else (1000, 10 * YEAR_MS)
    ours, before = Run(rounds, span_ms).run(), as_in_338c277(rounds, span_ms)
    print(table(ours, before))
    if not quick:
        save_plot(PICTURE, ours, before)
    last, last_before = ours.samples[-1], before.samples[-1]
    return {
        "live_bytes": last.live,
        "most_dead_bytes_above_live": max(each.dead + each.trash - each.live for each in ours.samples),
        "most_dead_bytes_above_live_338c277": max(each.dead + each.trash - each.live for each in before.samples),
        "stored_bytes": last.live + last.dead + last.trash,
        "stored_bytes_338c277": last_before.live + last_before.dead + last_before.trash,
        "rewritten_a_byte_sent": ours.rewritten_bytes / ours.sent_bytes,
        "rewritten_a_byte_sent_338c277": before.rewritten_bytes / before.sent_bytes,
        "extra_rewritten_a_byte_sent": (ours.rewritten_bytes - before.rewritten_bytes) / ours.sent_bytes,
        "puts_to_338c277": ours.units["s3.put"] / before.units["s3.put"],
        "gets_to_338c277": ours.units["s3.get"] / before.units["s3.get"],
        "dollars": last.dollars,
        "dollars_338c277": last_before.dollars,
    }


def table(ours: Run, before: Run, rows: int = 10) -> str:
    """A line for each tenth of the time, of each of both runs."""
    head = ("days", "live", "dead", "trash", "ledgers", "PUT", "GET", "table writes", "table reads", "dollars")
    lines = []
    for name, run in (("retention by message", ours), ("as in 338c277", before)):
        lines += [f"{name}: {run.merges} merges, {run.rewritten_bytes:,} of {run.sent_bytes:,} bytes rewritten"]
        lines += ["".join(f"{each:>13}" for each in head)]
        step = (len(run.samples) - 1) // rows
        for each in run.samples[step::step]:
            kinds = ("s3.put", "s3.get", "dynamodb.write", "dynamodb.read")
            numbers = (
                round(each.days),
                each.live,
                each.dead,
                each.trash,
                each.ledgers,
                *(each.units[k] for k in kinds),
            )
            lines += ["".join(f"{number:>13,}" for number in numbers) + f"{each.dollars:>13.4f}"]
    return "\n".join(lines)


def save_plot(path: Path, ours: Run, before: Run) -> None:
    """Saves stored bytes, requests and dollars over time, with a column for each run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 2, figsize=(12, 9), sharey="row", layout="constrained")
    for column, (name, run) in enumerate((("retention by message", ours), ("as in 338c277", before))):
        years = [each.days / 365 for each in run.samples]
        kinds: dict[str, Callable[[Sample], int]] = {
            "live": lambda each: each.live,
            "dead": lambda each: each.dead,
            "trash": lambda each: each.trash,
        }
        stored, requests, spent = axes[0][column], axes[1][column], axes[2][column]
        values = [[of(each) / 1e6 for each in run.samples] for of in kinds.values()]
        stored.stackplot(years, values, labels=list(kinds), colors=["tab:blue", "tab:red", "tab:gray"])
        stored.plot(
            years,
            [(2 * each.live + SLACK_BYTES) / 1e6 for each in run.samples],
            color="black",
            linewidth=0.8,
            linestyle="--",
            label="the most: twice the live bytes and 64 KiB",
        )
        stored.set(title=name, ylabel="stored (MB)")
        stored.legend(loc="upper left", fontsize="small")
        for unit, label in (("s3.put", "S3 PUT and LIST"), ("s3.get", "S3 GET"), ("dynamodb.write", "table writes")):
            requests.plot(years, [each.units[unit] for each in run.samples], label=label)
        requests.set(ylabel="requests")
        requests.legend(loc="upper left", fontsize="small")
        spent.plot(years, [each.dollars * 100 for each in run.samples], color="tab:green")
        spent.set(ylabel="cents", xlabel="years")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
