"""Compares the load of a steady stream with AWS's quotas, from the request counts that the tests pin.

    python -m benchmarks capacity

Quotas are the defaults of us-east-1 on `READ_ON`. Times of requests are those of `tidewheel.cost.figures`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tidewheel import Message
from tidewheel.cost.figures import FLOWS, FUNCTIONS, LATENCY_MS, gb_seconds
from tidewheel.cost.stream import Stream
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.flows.maintenance.daily import PORTION_MS
from tidewheel.flows.maintenance.sweep import SHARES_S
from tidewheel.local import MemoryTidewheel
from tidewheel.model import marks
from tidewheel.model.settings import TopicSettings

READ_ON = "2026-11-22"
RATES = (100, 1_000, 10_000, 100_000, 1_000_000)
TOPICS = (1, 10, 10_000, 1_000_000)

SWEEPS_A_DAY = DAY_S / 300
VISIT_MS = 40.0
"""What daily work takes for a topic: seven requests, one after the other, of 5 to 8 ms."""
HEAL_MS = 9.0
"""What a sweep takes to start a dispatch. Half of its share reads topic states. Then eight threads invoke, each in
36 ms at the CPU of 512 MiB."""


LIMITS: Mapping[str, float] = {
    "functions at one time": 1_000,  # of an account that has grown
    "deliver at one time": 100,
    "ingest at one time": 120,
    "dispatches of a slot": 1_000,  # invocations a second of EventBridge Scheduler, for a slot's length
    "schedules made": 5_000,  # a second
    "table writes": 40_000,  # units a second
    "table reads": 40_000,
    "a new table's writes": 4_000,
    "a new table's reads": 12_000,
    "writes of one topic's partition": 1_000,
    "reads of one topic's partition": 3_000,
    "commits to one topic state": 1_000 / LATENCY_MS["dynamodb.TransactWriteItems"],  # one after another
    "the index of checks": 16_000,  # sixteen partitions
    "objects written": 3_500,  # a second
    "objects read": 5_500,
    "a sweep that heals all topics": SHARES_S["dispatches"] * 1000,  # ms of one sweep
    "daily work": PORTION_MS * SWEEPS_A_DAY,  # ms a day
}
"""Limit -> its default value in us-east-1. `docs/capacity.md` names units, sources, and remedies."""


def loads(workload: Workload, settings: TopicSettings | None = None) -> dict[str, float]:
    """Returns the load on each of LIMITS, in its unit."""
    its = settings or TopicSettings()
    stream = Stream(workload, its)
    asked: Counter[str] = Counter()
    units: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    by_function: dict[str, Counter[str]] = {name: Counter() for name in FUNCTIONS}
    counted: Counter[tuple[str, str]] = Counter()
    for run in stream.runs():
        function, requests = FLOWS[run.flow].function, run.requests()
        units.update(run.units())  # type: ignore[arg-type]  # a day's rates are no whole numbers
        asked.update(requests)  # type: ignore[arg-type]
        for measure, times in run.measures.items():
            counted[run.flow, measure] += times  # type: ignore[assignment]
        if function is not None:
            calls[function] += run.calls  # type: ignore[assignment]
            messages[function] += run.messages  # type: ignore[assignment]
            by_function[function].update(requests)  # type: ignore[arg-type]
    busy = {name: _at_one_time(name, calls[name], messages[name], by_function[name]) for name in FUNCTIONS}
    slots = DAY_S / its.slot_s
    woken = counted["dispatch", "call"]
    parts = counted["deliver", "call"]
    beside = max(0.0, parts - marks.TOGETHER * counted["deliver", "complete"])  # their marks have other partitions
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
        "writes of one topic's partition": (units["dynamodb.write"] - 2 * beside) / DAY_S / workload.topics,
        "reads of one topic's partition": units["dynamodb.read"] / DAY_S / workload.topics,
        "commits to one topic state": (counted["ingest", "ledger"] + woken) / workload.topics / DAY_S,
        # An item that moves in the index is taken out and put in; a delivery comes and goes.
        "the index of checks": 2 * (woken * (1 + workload.subscriptions) + asked["scheduler.CreateSchedule"]) / DAY_S,
        "objects written": asked["s3.PutObject"] / DAY_S,
        "objects read": units["s3.get"] / DAY_S,
        "a sweep that heals all topics": woken / slots * HEAL_MS,
        "daily work": workload.topics * VISIT_MS,
    }


def _at_one_time(function: str, calls: float, messages: float, requests: Mapping[str, float]) -> float:
    memory_gib = FUNCTIONS[function]["memory_mib"] / 1024
    return gb_seconds(function, calls, messages, requests) / memory_gib / DAY_S


def shares(workload: Workload, settings: TopicSettings | None = None) -> list[tuple[str, float]]:
    """Returns each limit with the share that the load takes, the fullest first."""
    found = loads(workload, settings)
    return sorted(((name, found[name] / limit) for name, limit in LIMITS.items()), key=lambda each: -each[1])


def regime(rate: int, topics: int) -> Workload:
    """Returns the workload of a rate in messages a second, with bodies of 500 bytes, due a week ahead on average."""
    return Workload(per_day=rate * DAY_S, topics=topics)


def measured_ms(messages: int) -> float:
    """Returns the CPU time of a message from `send` to the subscription's queue, with the service in memory.

    The messages of ten topics are due within an hour, a day ahead.
    """
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
    return took_s * 1000 / messages


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Compares loads with limits, and the model's CPU time of a message with the time of the service in memory."""
    loaded = {}
    for rate in RATES:
        for topics in TOPICS:
            found = shares(regime(rate, topics))
            above = [f"{name} {share:,.{0 if share >= 10 else 1}f}" for name, share in found if share > 1]
            name, share = next((each for each in found if each[1] <= 1), ("", 0.0))
            loaded[f"{rate:,} a second, topics: {topics:,}"] = {
                "functions at one time": math.ceil(loads(regime(rate, topics))["functions at one time"]),
                "passed, times over": ", ".join(above) or "nothing",
                "next, in use": f"{name} {share:.0%}",
            }
    took_ms = measured_ms(2_000 if quick else 50_000)
    return {
        "message_cpu_ms": took_ms,
        "message_cpu_by_the_model_ms": FUNCTIONS["ingest"]["message_ms"] + FUNCTIONS["deliver"]["message_ms"],
        "messages_a_second_and_core": 1000 / took_ms,
        "loads": loaded,
    }
