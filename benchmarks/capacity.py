"""What breaks first: the load of a steady stream, from the request counts that the tests pin, against AWS's quotas.

    python -m benchmarks.capacity [--write] [--measure 50000]

`--write` puts the tables into docs/capacity.md; a test compares. `--measure` sends so many messages through the service
in memory and says how many a second one core takes from `send` to the subscription's queue, beside the model. Quotas
are defaults of us-east-1, read on `READ_ON`; each names its source. Times of requests are those of
`tidewheel.cost.function_time`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidewheel.cost.assumptions import Assumptions
from tidewheel.cost.function_time import FUNCTIONS, LATENCY_MS, gb_seconds
from tidewheel.cost.requests import FLOWS
from tidewheel.cost.stream import Stream
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.flows.upkeep.daily import PORTION_MS
from tidewheel.model.settings import TopicSettings

READ_ON = "2026-11-22"
DOCUMENT = Path(__file__).parent.parent / "docs" / "capacity.md"
RATES = (100, 1_000, 10_000, 100_000, 1_000_000)
TOPICS = (1, 10, 10_000, 1_000_000)

SWEEPS_A_DAY = DAY_S / 300
VISIT_MS = 40.0
"""What daily work takes for a topic: seven requests, one after the other, of 5 to 8 ms."""
HEAL_MS = 30.0
"""What a sweep takes to start a dispatch: a topic state is read, a function invoked."""
PART_NUMBER_BYTES = 3
"""A part's number in a delivery's set `done`: a byte for two digits, and one.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html"""
DELIVERY_BYTES = 400
"""The rest of a delivery's item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Something of which there is only so much.

    Attributes:
        value: how much, in `unit`.
        raise_it: what to ask AWS for, by the name in Service Quotas; or that it cannot be raised.
        turn: which setting makes the load smaller, or the share of it that the service takes.
        source: where the value is from.
    """

    value: float
    unit: str
    raise_it: str
    turn: str
    source: str


_LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"
_SQS_SCALING = "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"
_SCHEDULER = "https://docs.aws.amazon.com/scheduler/latest/UserGuide/scheduler-quotas.html"
_DYNAMODB = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html"
_PARTITION = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"
_WARM = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html"
_S3 = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html"

LIMITS: Mapping[str, Limit] = {
    "functions at one time": Limit(
        value=1000,
        unit="calls",
        raise_it="Lambda, Concurrent executions: to tens of thousands",
        turn="larger packs (`send_many`); fewer, larger slots",
        source=_LAMBDA,
    ),
    "deliver at one time": Limit(
        value=100,
        unit="calls",
        raise_it="Lambda's most for a queue is 1,000",
        turn="`work_concurrency`; `part_rows` up to 5,000; `send_threads`",
        source=_SQS_SCALING,
    ),
    "ingest at one time": Limit(
        value=120,
        unit="calls",
        raise_it="Lambda's most for a queue is 1,000",
        turn="`urgent_concurrency`, `bulk_concurrency`; larger packs; `dedicated_topics`",
        source=_SQS_SCALING,
    ),
    "dispatches of a slot": Limit(
        value=1000,
        unit="a second, for a slot's length",
        raise_it="EventBridge Scheduler, Invocations throttle limit: to tens of thousands",
        turn="longer slots, up to 420 s with a lookahead of 420 s; fewer topics",
        source=_SCHEDULER,
    ),
    "schedules made": Limit(
        value=5000,
        unit="a second",
        raise_it="EventBridge Scheduler, CreateSchedule request rate: to tens of thousands",
        turn="longer slots; fewer topics",
        source=_SCHEDULER,
    ),
    "table writes": Limit(
        value=40_000,
        unit="units a second",
        raise_it="DynamoDB, Table-level write throughput limit",
        turn="larger packs; fewer topics; several stacks",
        source=_DYNAMODB,
    ),
    "table reads": Limit(
        value=40_000,
        unit="units a second",
        raise_it="DynamoDB, Table-level read throughput limit",
        turn="fewer clients a topic; several stacks",
        source=_DYNAMODB,
    ),
    "a new table's writes": Limit(
        value=4_000,
        unit="units a second, until it has grown",
        raise_it="nothing to ask: it doubles within 30 minutes",
        turn="`warm_write_units`",
        source=_WARM,
    ),
    "a new table's reads": Limit(
        value=12_000,
        unit="units a second, until it has grown",
        raise_it="nothing to ask: it doubles within 30 minutes",
        turn="`warm_read_units`",
        source=_WARM,
    ),
    "writes of one topic's partition": Limit(
        value=1000,
        unit="units a second",
        raise_it="cannot be raised: what one partition takes",
        turn="several topics; larger packs",
        source=_PARTITION,
    ),
    "reads of one topic's partition": Limit(
        value=3000,
        unit="units a second",
        raise_it="cannot be raised: what one partition takes",
        turn="several topics; `part_rows` 5,000",
        source=_PARTITION,
    ),
    "commits to one topic state": Limit(
        value=1000 / LATENCY_MS["dynamodb.TransactWriteItems"],
        unit="a second",
        raise_it="cannot be raised: transactions of one item take turns",
        turn="several topics, chosen by a hash of the key; `dedicated_topics`",
        source="one TransactWriteItems of 20 ms after another",
    ),
    "one delivery's item": Limit(
        value=1000,
        unit="write units a second, for a slot's length",
        raise_it="cannot be raised: what one partition takes",
        turn="`part_rows` 5,000; shorter slots; several topics",
        source=_PARTITION,
    ),
    "the index of looks": Limit(
        value=16_000,
        unit="write units a second",
        raise_it="cannot be raised: sixteen partitions of 1,000",
        turn="several stacks",
        source=_PARTITION,
    ),
    "objects written": Limit(
        value=3500,
        unit="a second",
        raise_it="nothing to ask: S3 splits a prefix by itself, within an hour; 503 until then",
        turn="fewer topics; larger packs",
        source=_S3,
    ),
    "objects read": Limit(
        value=5500,
        unit="a second",
        raise_it="nothing to ask: S3 splits a prefix by itself, within an hour; 503 until then",
        turn="`max_buckets`: fewer ledgers a slot",
        source=_S3,
    ),
    "a sweep that heals all topics": Limit(
        value=300_000,
        unit="ms",
        raise_it="cannot be raised: the next sweep goes on",
        turn="several stacks",
        source="the sweep's interval",
    ),
    "daily work": Limit(
        value=PORTION_MS * SWEEPS_A_DAY,
        unit="ms a day",
        raise_it="cannot be raised: what a day has no time for is done on the next",
        turn="several stacks",
        source="`tidewheel.flows.upkeep.daily`",
    ),
}


def loads(workload: Workload, settings: TopicSettings | None = None) -> dict[str, float]:
    """Returns the load on each of LIMITS, in its unit."""
    its = settings or TopicSettings()
    stream = Stream(workload, Assumptions(), its)
    asked: Counter[str] = Counter()
    units: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    by_function: dict[str, Counter[str]] = {name: Counter() for name in FUNCTIONS}
    counted: Counter[tuple[str, str]] = Counter()
    for run in stream.runs():
        flow = FLOWS[run.flow]
        units.update(flow.units(run.measures))
        units.update(run.more)
        requests: Counter[str] = Counter()
        for measure, times in run.measures.items():
            counted[run.flow, measure] += times  # type: ignore[assignment]
            for operation, count in flow.asked[measure].requests.items():
                requests[operation] += count * times  # type: ignore[assignment]  # a day's rates are no whole numbers
        asked.update(requests)
        if flow.function is not None:
            calls[flow.function] += run.calls  # type: ignore[assignment]
            messages[flow.function] += run.messages  # type: ignore[assignment]
            by_function[flow.function].update(requests)
    busy = {name: _at_one_time(name, calls[name], messages[name], by_function[name]) for name in FUNCTIONS}
    slots = DAY_S / its.slot_s
    woken = counted["dispatch", "call"]
    parts = counted["deliver", "call"] / max(1.0, counted["deliver", "complete"])
    return {
        "functions at one time": sum(busy.values()),
        "deliver at one time": busy["deliver"],
        "ingest at one time": busy["ingest"],
        "dispatches of a slot": woken / slots / its.slot_s,
        "schedules made": asked["scheduler.CreateSchedule"] / DAY_S,
        "table writes": units["dynamodb.write"] / DAY_S,
        "table reads": units["dynamodb.read"] / DAY_S,
        "a new table's writes": units["dynamodb.write"] / DAY_S,
        "a new table's reads": units["dynamodb.read"] / DAY_S,
        "writes of one topic's partition": units["dynamodb.write"] / DAY_S / workload.topics,
        "reads of one topic's partition": units["dynamodb.read"] / DAY_S / workload.topics,
        "commits to one topic state": (counted["ingest", "ledger"] + woken) / workload.topics / DAY_S,
        "one delivery's item": _delivery_writes(math.ceil(parts)) / its.slot_s,
        # An item that moves in the index is taken out and put in; a delivery comes and goes.
        "the index of looks": 2 * (woken * (1 + workload.subscriptions) + asked["scheduler.CreateSchedule"]) / DAY_S,
        "objects written": asked["s3.PutObject"] / DAY_S,
        "objects read": units["s3.get"] / DAY_S,
        "a sweep that heals all topics": woken / slots * HEAL_MS,
        "daily work": workload.topics * VISIT_MS,
    }


def _at_one_time(function: str, calls: float, messages: float, requests: Mapping[str, float]) -> float:
    memory_gib = FUNCTIONS[function].memory_mib / 1024
    return gb_seconds(function, calls, messages, requests) / memory_gib / DAY_S


def _delivery_writes(parts: int) -> int:
    """Returns what a slot's delivery writes: each part leases and ends, and pays for all parts that ended before."""
    return 2 * max(1, parts) * math.ceil((DELIVERY_BYTES + PART_NUMBER_BYTES * parts / 2) / 1024)


def shares(workload: Workload, settings: TopicSettings | None = None) -> list[tuple[str, float]]:
    """Returns each limit and how much of it the load takes, the fullest first."""
    found = loads(workload, settings)
    return sorted(((name, found[name] / limit.value) for name, limit in LIMITS.items()), key=lambda each: -each[1])


def regime(rate: int, topics: int) -> Workload:
    """Returns the workload of a rate in messages a second: bodies of 500 bytes, a week ahead on average."""
    return Workload(per_day=rate * DAY_S, topics=topics)


def limits_table() -> str:
    """Returns the table of limits."""
    lines = ["| limit | by default | what to ask for | what to turn |", "|---|---|---|---|"]
    for name, limit in LIMITS.items():
        lines.append(f"| {name} | {limit.value:,.0f} {limit.unit} | {limit.raise_it} | {limit.turn} |")
    return "\n".join(lines)


def regimes_table() -> str:
    """Returns the table of regimes: the limits that are passed, the fullest first, or the one that is nearest."""
    lines = [
        "| messages a second | topics | functions at one time | passed, times over | next, in use |",
        "|---|---|---|---|---|",
    ]
    for rate in RATES:
        for topics in TOPICS:
            found = shares(regime(rate, topics))
            calls = math.ceil(loads(regime(rate, topics))["functions at one time"])
            passed = ", ".join(f"{name} {share:,.{0 if share >= 10 else 1}f}" for name, share in found if share > 1)
            name, share = next((each for each in found if each[1] <= 1), ("", 0.0))
            lines.append(f"| {rate:,} | {topics:,} | {calls:,} | {passed or 'nothing'} | {name} {share:.0%} |")
    return "\n".join(lines)


TABLES = {"limits": limits_table, "regimes": regimes_table}


def with_tables(text: str) -> str:
    """Returns a document whose tables between `<!-- capacity: name -->` and `<!-- end -->` are as they should be."""
    for name, table in TABLES.items():
        head, mark, rest = text.partition(f"<!-- capacity: {name} -->\n")
        if not mark:
            raise ValueError(f"the document has no place for the table {name!r}")
        text = head + mark + table() + "\n" + rest[rest.index("<!-- end -->") :]
    return text


def measure(messages: int) -> dict[str, float]:
    """Runs messages of ten topics, due within an hour a day ahead, through the service in memory.

    Returns:
        CPU time of a message in ms: measured, and by the model, whose functions take the same way.
    """
    from tidewheel import Message
    from tidewheel.local import MemoryTidewheel

    with MemoryTidewheel() as stack:
        client = stack.client()
        topics = [f"topic-{i}" for i in range(10)]
        for topic in topics:
            client.create_topic(topic)
            client.create_subscription(topic, "billing")
        began_s = time.process_time()
        for topic in topics:
            each = messages // len(topics)
            client.send_many(topic, (Message(body="x" * 500, delay=DAY_S + i % 3600) for i in range(each)))
        stack.advance(days=1, hours=2)
        took_s = time.process_time() - began_s
        arrived = sum(len(stack.receive(topic, "billing")) for topic in topics)
    if arrived != messages:
        raise RuntimeError(f"{arrived} of {messages} messages arrived")
    model = FUNCTIONS["ingest"].message_ms + FUNCTIONS["deliver"].message_ms
    return {"measured": took_s * 1000 / messages, "model": model}


def main() -> None:
    """Prints the tables, writes them into the document, or measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=int, metavar="MESSAGES", help="send so many in memory")
    parser.add_argument("--write", action="store_true", help=f"put them into {DOCUMENT.name}")
    given = parser.parse_args()
    if given.measure:
        found = measure(given.measure)
        print(f"CPU of a message: {found['measured']:.3f} ms measured, {found['model']:.3f} ms by the model")
        print(f"one core takes {1000 / found['measured']:,.0f} messages a second from send to queue")
    elif given.write:
        DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
    else:
        print("\n\n".join(table() for table in TABLES.values()))


if __name__ == "__main__":
    main()
