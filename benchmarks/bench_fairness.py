"""How long a topic's parts wait behind another topic's million messages, with SQS's fair queues and without.

    python -m benchmarks fairness

A model of the work queue and of deliver's 100 calls at one time. A part takes its measured CPU time, scaled to
Lambda's, and the assumed times of its requests (`tidewheel.cost.figures`). The busy topic's parts come first. The
quiet topic has one part of 100 messages, which comes a second later.

Each job carries its topic as MessageGroupId. SQS prefers the other groups' messages to those of a noisy group: a group
with more than a tenth of the messages in flight, and at least 30 of them.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.bench_capacity import LIMITS
from tidewheel.cost.figures import FUNCTIONS, gb_seconds

CALLS = int(LIMITS["deliver at one time"])
BUSY_ROWS, QUIET_ROWS, PART_ROWS = 1_000_000, 100, 1_000
QUIET_COMES_S = 1.0
NOISY_SHARE, NOISY_LEAST = 0.1, 30
SUBSCRIPTIONS = (1, 10, 100)


class Job(NamedTuple):
    """A part in the work queue.

    Attributes:
        comes_s: when it was enqueued.
        takes_s: the time of its call.
    """

    topic: str
    comes_s: float
    takes_s: float


Order = Callable[[dict[str, deque[Job]], Counter[str]], str]
"""Chooses the topic whose oldest job is received next: of the waiting jobs and the jobs in flight, by topic."""


def oldest_first(waiting: dict[str, deque[Job]], _: Counter[str]) -> str:
    """Chooses as a queue without groups does."""
    return min(waiting, key=lambda topic: waiting[topic][0].comes_s)


def fair(waiting: dict[str, deque[Job]], in_flight: Counter[str]) -> str:
    """Chooses as a fair queue does, quiet groups first."""
    total = in_flight.total()
    noisy = {topic for topic, n in in_flight.items() if n >= NOISY_LEAST and n > NOISY_SHARE * total}
    return oldest_first({topic: jobs for topic, jobs in waiting.items() if topic not in noisy} or waiting, in_flight)


def waits_s(jobs: Sequence[Job], order: Order, calls: int = CALLS) -> dict[str, float]:
    """Returns each topic's longest time between the enqueue of a job and its call."""
    coming = deque(sorted(jobs, key=lambda job: job.comes_s))
    waiting: dict[str, deque[Job]] = {}
    in_flight: Counter[str] = Counter()
    ends: list[tuple[float, str]] = []
    longest: dict[str, float] = {}
    now_s = 0.0
    while coming or waiting:
        while coming and coming[0].comes_s <= now_s:
            job = coming.popleft()
            waiting.setdefault(job.topic, deque()).append(job)
        if waiting and len(ends) < calls:
            topic = order(waiting, in_flight)
            job = waiting[topic].popleft()
            if not waiting[topic]:
                del waiting[topic]
            in_flight[topic] += 1
            heapq.heappush(ends, (now_s + job.takes_s, topic))
            longest[topic] = max(longest.get(topic, 0.0), now_s - job.comes_s)
            continue
        # The next event: a call ends, or a job comes that a free call can take.
        events = [ends[0][0]] if ends else []
        if coming:
            events.append(coming[0].comes_s)
        now_s = min(events)
        while ends and ends[0][0] <= now_s:
            in_flight[heapq.heappop(ends)[1]] -= 1
    return longest


def part_s(rows: int) -> float:
    """Returns the time of a warm call that delivers a part."""
    requests = {
        "dynamodb.UpdateItem": 2,
        "dynamodb.GetItem": 2,
        "s3.GetObject": 1,
        "sqs.SendMessageBatch": -(-rows // 10),
    }
    calls = 1_000_000  # so many a day that nearly none starts an environment
    total = gb_seconds("deliver", calls, calls * rows, {name: calls * n for name, n in requests.items()})
    return total / calls / (FUNCTIONS["deliver"]["memory_mib"] / 1024)


def jobs(subscriptions: int) -> list[Job]:
    """Returns the parts of both topics, of which the busy one has so many subscriptions."""
    busy = [Job("busy", 0.0, part_s(PART_ROWS))] * (BUSY_ROWS // PART_ROWS * subscriptions)
    return [*busy, Job("quiet", QUIET_COMES_S, part_s(QUIET_ROWS))]


def benchmark(*, quick: bool = False) -> dict[str, object]:
    """Returns how long both topics' parts wait."""
    cases = {}
    for subscriptions in SUBSCRIPTIONS[:2] if quick else SUBSCRIPTIONS:
        work = jobs(subscriptions)
        without, groups = waits_s(work, oldest_first), waits_s(work, fair)
        cases[f"{subscriptions} subscriptions of the busy topic"] = {
            "quiet_waits_s": groups["quiet"],
            "quiet_waits_without_groups_s": without["quiet"],
            "busy_waits_s": groups["busy"],
        }
    return {"part_s": part_s(PART_ROWS), "most_quiet_waits_s": max(c["quiet_waits_s"] for c in cases.values())} | {
        "waits": cases
    }
