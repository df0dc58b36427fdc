"""Measures requests, function time and dollars of each flow while one quantity grows.

    python -m benchmarks growth

The deployed functions run on the emulated AWS, in virtual time. In every case the same is done: a thousand messages are
ingested, one of them is cancelled, sweeps look, the thousand are dispatched to the subscriptions. What differs:

- *backlog*: messages that wait in the topic beside them, up to 100 M. They are an index without ledgers
  (`benchmarks.waiting`), in ledgers of 50,000, or in 48 if those would be more: what merges leave.
- *topics*: others beside the one that is looked at, each with a message that waits.
- *subscriptions*: of the topic.
- *merge*: ledgers of 1,000 messages that are made few. A merge costs its sources, whatever else waits.

Requests are all that AWS is asked, by function and client; units are what AWS bills; dollars are theirs at list prices,
with the functions' time. Time is CPU time of the functions' thread without the emulator's, as `bench_function_time`
takes it.

All of it is done once in a small stack that is not counted, since a process is slow at first, and then in three new
stacks a case (a thousand topics: one), time being the median.
That no sweep came in between, and that the daily one did its work, is checked.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench_function_time import OwnTime
from benchmarks.waiting import SLOT_MS, waiting_ledger
from tidewheel.aws.service import Service
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.prices import cost
from tidewheel.model.settings import ServiceSettings, parameter_name

TOPIC = "orders"
ROWS = 1000
BACKLOGS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
TOPICS = (1, 10, 100, 1_000)
SUBSCRIPTIONS = (1, 2, 5, 10, 20, 50)
MERGED = (16, 32, 64)
LEDGER_ROWS, MOST_LEDGERS = 50_000, 48
DAY_MS = 86_400_000
ROUNDS = 3
_FUNCTIONS = {
    "ingest": "ingest",
    "dispatch": "dispatch",
    "daily_sweep": "sweep",
    "sweep": "sweep",
    "merge": "compact",
}


class Case:
    """A stack in which a quantity is large, with the costs of each flow."""

    def __init__(self, stack: LocalTidewheel, own: OwnTime, subscriptions: int = 1, **settings: Any) -> None:
        self.stack, self.own = stack, own
        self.client = stack.client()
        self.client.create_topic(TOPIC, **settings)
        for number in range(subscriptions):
            self.client.create_subscription(TOPIC, f"s{number}")
        ssm = stack.session.client("ssm")
        text = ssm.get_parameter(Name=parameter_name(stack.stack_name))["Parameter"]["Value"]
        self.service = Service.of(ServiceSettings.from_json(text, "ssm"), stack.session, stack.clock)
        self.found: dict[str, dict[str, float]] = {}

    def settle(self) -> None:
        """Runs sweeps until no new work is left, and lets a quiet day pass, so that neither is counted.

        A new subscription is a change of its topic, and after 32 changes (half of `max_buckets`) the next ingest asks
        for a look at what could be merged: as if that look had been taken.
        """
        self.stack.advance(days=2)
        state = self.service.topic_states.read(TOPIC)
        assert state is not None and self.service.topic_states.merge_considered(state, state.next_check_ms)

    def backlog(self, waiting: int) -> None:
        """Lets messages wait, due from 10 to 70 days later."""
        random = np.random.default_rng(17)
        from_ms = self.stack.clock.now_ms() + 10 * DAY_MS
        ledgers = max(1, min(waiting // LEDGER_ROWS, MOST_LEDGERS))
        for number in range(ledgers):
            made = waiting_ledger(
                random, f"ledgers/{TOPIC}/{number}", waiting // ledgers, from_ms, from_ms + 60 * DAY_MS
            )
            self.service.buckets.restore(TOPIC, made.bucket)

    def count(self, name: str, action: Callable[[], object], *, with_sweeps: bool = False) -> None:
        """Runs an action and keeps the costs, with sweeps only where wanted."""
        asked, units = Counter(self.stack.requests), Counter(self.stack.requests.units)
        swept = self.stack.invocations["sweep"]
        self.own.calls.clear()
        action()
        assert not self.stack.failures, self.stack.failures[0]
        assert with_sweeps or self.stack.invocations["sweep"] == swept, f"a sweep is counted as {name}"
        asked, units = Counter(self.stack.requests) - asked, Counter(self.stack.requests.units) - units
        dollars = sum(cost(units).values())
        found = {"requests": float(sum(asked.values())), "dollars_a_million": dollars * 1e6}
        if name in _FUNCTIONS:
            found["cpu_ms"] = sum(ms for ms, _ in self.own.take(_FUNCTIONS[name]))
        self.found[name] = found

    def send(self, days: int, count: int = ROWS) -> list[str]:
        """Sends messages due in the same slot, some days later. Returns their ids."""
        at_s = (self.stack.clock.now_ms() // DAY_MS + days) * DAY_MS // 1000
        messages = [Message(body="x" * 300, deliver_at=at_s + i % 100) for i in range(count)]
        return [receipt.id for receipt in self.client.send_many(TOPIC, messages)]

    def sweep(self) -> None:
        """Invokes the sweep, counted like a scheduled invocation."""
        [handler] = [each for each in self.stack._handlers if each.spec.folder == "sweep"]
        handler.invoke({})
        self.stack.requests.invoked(by_schedule=True)

    def flows(self) -> dict[str, dict[str, float]]:
        """Runs all flows, and returns the costs of each."""
        ids: list[str] = []
        self.count("send", lambda: ids.extend(self.send(2)))
        self.count("ingest", lambda: self.stack.advance(minutes=5))
        self.count("cancel", lambda: self.client.cancel(TOPIC, ids[0]))
        # The first sweep of a day looks for orphans, the next one has nothing to do.
        self.count("daily_sweep", self.sweep)
        self.count("sweep", self.sweep)
        at_ms = (self.stack.clock.now_ms() // DAY_MS + 2) * DAY_MS
        self.stack.advance(milliseconds=at_ms - 1_000_000 - self.stack.clock.now_ms())
        self.count("dispatch", lambda: self.stack.advance(seconds=990))
        assert self.found["daily_sweep"]["requests"] > self.found["sweep"]["requests"], "the day's work was not due"
        return self.found


def measured(prepare: Callable[[Case], None], rounds: int, subscriptions: int = 1) -> dict[str, dict[str, float]]:
    """Opens a stack with a large quantity of something, and returns the costs of each flow.

    Args:
        prepare: makes it large.
        rounds: stacks in which it is done; time is the median.
        subscriptions: of the topic.
    """
    counted: list[dict[str, dict[str, float]]] = []
    for _ in range(rounds):
        with LocalTidewheel() as stack, OwnTime(stack) as own:
            case = Case(stack, own, subscriptions, inline_rows=1_000_000)
            prepare(case)
            case.settle()
            counted.append(case.flows())
    for flow, found in counted[-1].items():
        if "cpu_ms" in found:
            found["cpu_ms"] = statistics.median(each[flow]["cpu_ms"] for each in counted)
    return counted[-1]


def of_backlog(waiting: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """A topic with a backlog."""
    return {"waiting": waiting, **measured(lambda case: case.backlog(waiting), rounds)}


def of_topics(topics: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """A topic beside others, each with a message that waits for weeks."""

    def prepare(case: Case) -> None:
        for number in range(topics - 1):
            case.client.create_topic(f"other-{number}")
            case.client.create_subscription(f"other-{number}", "s")
            case.client.send(f"other-{number}", "waits", delay="30d")

    return {"topics": topics, **measured(prepare, rounds)}


def of_subscriptions(subscriptions: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """A topic with many subscriptions."""
    return {"subscriptions": subscriptions, **measured(lambda _: None, rounds, subscriptions)}


def of_merge(sources: int) -> dict[str, Any]:
    """A merge of so many ledgers, with the send and the ingest of the last ledger."""
    with LocalTidewheel() as stack, OwnTime(stack) as own:
        case = Case(stack, own, max_buckets=sources - 1)
        case.settle()

        def one_more() -> None:
            case.send(4)
            stack.advance(minutes=5)

        while not stack.invocations["compact"]:
            case.count("merge", one_more, with_sweeps=True)  # the sweep starts the merge
        return {"sources": sources, "merge": case.found["merge"]}


def _slope(series: list[dict[str, Any]], axis: str, flow: str) -> float:
    """Returns the requests that a flow gains for each unit of the growing quantity."""
    first, last = series[0], series[-1]
    requests: float = last[flow]["requests"] - first[flow]["requests"]
    more: float = last[axis] - first[axis]
    return requests / more


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Makes each thing large, and says how the largest case compares with the smallest."""
    points, rounds = (2, 1) if quick else (None, ROUNDS)
    measured(lambda _: None, 1)  # a process is slow at first
    backlogs = [of_backlog(each, rounds) for each in BACKLOGS[:points]]
    topics = [of_topics(each, rounds if each < TOPICS[-1] else 1) for each in TOPICS[:points]]  # it takes minutes
    subscriptions = [of_subscriptions(each, rounds) for each in SUBSCRIPTIONS[:points]]
    found: dict[str, Any] = {
        "messages": ROWS,
        "slot_ms": SLOT_MS,
        "by_backlog": backlogs,
        "by_topics": topics,
        "by_subscriptions": subscriptions,
        "by_merged": [of_merge(each) for each in (MERGED[:1] if quick else MERGED)],
    }
    for axis, series in (("backlog", backlogs), ("topics", topics)):
        for flow in ("ingest", "cancel", "sweep", "dispatch"):
            for what, name in (("requests", "requests"), ("cpu_ms", "ms")):
                if what in series[0][flow] and series[0][flow][what]:
                    found[f"{axis}_{flow}_{name}_ratio"] = series[-1][flow][what] / series[0][flow][what]
    found["requests_a_subscription"] = _slope(subscriptions, "subscriptions", "dispatch")
    found["daily_requests_a_topic"] = _slope(topics, "topics", "daily_sweep")
    return found
