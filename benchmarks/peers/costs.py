"""A month's bill of each peer, for a steady stream.

Messages wait 7 days on average, so the number of waiting messages is 7 days of sends. A peer's bill is its counted
units at list prices, its storage, and what always runs. A poller always asks, and asks again for each message. An idle
run counts the first part, and the difference of two runs of the same length counts the second. The line through both is
exact for what is asked once a message, and an estimate for requests that take up to ten messages.

No bill contains logs or alarms, except Tidewheel's. No bill contains consumers. Redis's poller is one.

Prices are US dollars in us-east-1, on demand, without free tiers, as AWS's price list had them on 2026-10-02. All
others are those of `tidewheel.model.prices`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.peers.account import Run
from benchmarks.peers.peer import Peer
from benchmarks.peers.stream import mean_body_bytes
from benchmarks.peers.tidewheel_stack import BATCH
from tidewheel.cost.bill import ALARMS, ENVIRONMENTS, LOGS, bill
from tidewheel.cost.rivals import FUNCTION_GB_S
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.errors import InvalidValue
from tidewheel.model.prices import (
    ASSUMED_GB_SECONDS,
    DAYS_A_MONTH,
    DOLLARS_PER_GB_SECOND,
    TABLE_GB_MONTH,
    dollars,
)

MEAN_DELAY_DAYS = 7.0
HOURS_A_MONTH = 24 * DAYS_A_MONTH
FREE_INVOCATIONS = 14_000_000
"""Of EventBridge Scheduler, a month. https://aws.amazon.com/eventbridge/pricing/"""
ENVIRONMENT = "development"
TASK_DOLLARS_AN_HOUR = 0.25 * 0.03238 + 0.5 * 0.00356
"""A poller: the smallest Fargate task on Arm, a quarter of a vCPU and 0.5 GB. https://aws.amazon.com/fargate/pricing/"""
FREE_SHARE = 0.25
"""Of a node's memory: ElastiCache reserves it.
https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/redis-memory-management.html"""

NODES = {
    "cache.t4g.micro": (536_870_912, 0.0128),
    "cache.t4g.small": (1_471_026_299, 0.0256),
    "cache.t4g.medium": (3_317_862_236, 0.052),
    "cache.r7g.large": (14_037_181_030, 0.1752),
    "cache.r7g.xlarge": (28_261_849_702, 0.3496),
    "cache.r7g.2xlarge": (56_711_183_565, 0.6984),
    "cache.r7g.4xlarge": (113_609_865_216, 1.396),
}
"""Node of ElastiCache, from small to large -> its `maxmemory`, and dollars an hour with Valkey.

https://aws.amazon.com/elasticache/pricing/
https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Holds counts a message and an hour.

    Attributes:
        a_message: name -> count for each message.
        an_hour: name -> count in each hour.
    """

    a_message: Mapping[str, float]
    an_hour: Mapping[str, float]

    def at(self, messages: float, hours: float) -> dict[str, float]:
        """Returns the counts of so many messages in so many hours."""
        names = {**self.a_message, **self.an_hour}
        return {name: self.a_message.get(name, 0.0) * messages + self.an_hour.get(name, 0.0) * hours for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The requests and billed units of a peer, and the stored bytes of a waiting message."""

    requests: Line
    units: Line
    stored_a_message_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A month's dollars, for messages and at a fixed rate."""

    messages: float
    standing: float

    @property
    def a_month(self) -> float:
        """Returns both together."""
        return self.messages + self.standing


def counted(idle: Run, few: Run, more: Run) -> Counted:
    """Divides the requests of three runs into requests a message and requests an hour.

    Args:
        idle: without messages.
        few, more: over the same time, the second with more messages.

    Raises:
        InvalidValue: the second run has no more messages, or a run lost a message, which makes it cheaper.
    """
    sent = more.outcome.sent - few.outcome.sent
    if sent <= 0:
        raise InvalidValue("more", more.outcome.sent, f"Give a run with more than {few.outcome.sent} messages.")
    for run in (few, more):
        if not run.outcome.sound:
            raise InvalidValue("run", run.outcome, "Each message must arrive once and not early.")

    def line(idle_of: Mapping[str, float], few_of: Mapping[str, float], more_of: Mapping[str, float]) -> Line:
        each = {name: (more_of.get(name, 0) - few_of.get(name, 0)) / sent for name in sorted({**few_of, **more_of})}
        return Line(
            a_message={name: count for name, count in each.items() if abs(count) > 1e-9},
            an_hour={name: count / idle.hours for name, count in sorted(idle_of.items()) if count},
        )

    return Counted(
        requests=line(idle.requests, few.requests, more.requests),
        units=line(idle.units, few.units, more.units),
        stored_a_message_bytes=None if more.stored_bytes is None else more.stored_bytes / more.outcome.sent,
    )


def per_day(waiting: float) -> float:
    """Returns the messages that are sent a day if so many wait."""
    return waiting / MEAN_DELAY_DAYS


def workload(rate: float, batch: int = BATCH) -> Workload:
    """Returns the stream for `tidewheel cost`, with bodies of the real messages' mean size."""
    return Workload(
        per_day=rate, delay_mean_s=MEAN_DELAY_DAYS * DAY_S, size_bytes=round(mean_body_bytes()), batch=batch
    )


def tidewheel_cost(rate: float, *, batch: int = BATCH, telemetry: bool = True) -> Cost:
    """Returns Tidewheel's bill.

    Args:
        rate: messages a day.
        batch: messages a send.
        telemetry: with logs, which the other bills leave out.
    """
    found = bill(workload(rate, batch), ENVIRONMENTS[ENVIRONMENT])

    def kept(parts: Mapping[str, float]) -> float:
        return sum(dollars for part, dollars in parts.items() if telemetry or part not in (LOGS, ALARMS))

    return Cost(messages=kept(found.messages), standing=kept(found.standing))


def counted_cost(peer: Peer, found: Counted, rate: float) -> Cost:
    """Returns the bill of a peer on AWS. Dynein runs a task, and a look ahead runs a function.

    Args:
        peer: one whose requests were counted.
        found: its counts.
        rate: messages a day.
    """
    sent = rate * DAYS_A_MONTH
    idle = found.units.at(0, HOURS_A_MONTH)
    messages = _dollars(found.units.at(sent, 0))
    messages += (found.stored_a_message_bytes or 0.0) * rate * MEAN_DELAY_DAYS / 1e9 * TABLE_GB_MONTH
    standing = _dollars(idle)
    if peer is Peer.DYNEIN:
        standing += TASK_DOLLARS_AN_HOUR * HOURS_A_MONTH
    elif peer is Peer.AHEAD:
        messages += sent * FUNCTION_GB_S * DOLLARS_PER_GB_SECOND
        standing += idle.get("lambda.invocation", 0.0) * ASSUMED_GB_SECONDS * DOLLARS_PER_GB_SECOND
    return Cost(messages=messages, standing=standing)


def redis_cost(used_bytes: Callable[[float], float], rate: float, *, nodes: int = 1) -> Cost:
    """Returns the bill of Redis on ElastiCache with a polling task, which depends on memory, not on messages.

    Args:
        used_bytes: the memory of so many waiting messages.
        rate: messages a day.
        nodes: two with a replica.

    Raises:
        InvalidValue: no node holds the waiting messages.
    """
    _, hourly = node_for(used_bytes(rate * MEAN_DELAY_DAYS))
    return Cost(messages=0.0, standing=(nodes * hourly + TASK_DOLLARS_AN_HOUR) * HOURS_A_MONTH)


def node_for(used_bytes: float) -> tuple[str, float]:
    """Returns the smallest node for so many bytes of data, and the node's dollars an hour.

    Raises:
        InvalidValue: no node does.
    """
    for name, (memory_bytes, hourly) in NODES.items():
        if used_bytes <= memory_bytes * (1 - FREE_SHARE):
            return name, hourly
    raise InvalidValue("used_bytes", used_bytes, "Divide the data among several nodes.")


def schedules_with_free_tier(rate: float) -> float:
    """Returns a month's dollars for a schedule a message, less the free invocations."""
    sent = rate * DAYS_A_MONTH
    return dollars("scheduler.invocation", max(0.0, sent - FREE_INVOCATIONS)) + dollars("sqs.request", sent)


def between(measured: Mapping[int, float]) -> Callable[[float], float]:
    """Returns memory by waiting messages, on straight lines between and beyond the measured points.

    Args:
        measured: waiting messages -> bytes, two at least.
    """
    points = sorted(measured.items())

    def used_bytes(waiting: float) -> float:
        upper = next((at for at in range(1, len(points)) if waiting <= points[at][0]), len(points) - 1)
        (from_n, from_bytes), (to_n, to_bytes) = points[upper - 1], points[upper]
        slope = (to_bytes - from_bytes) / (to_n - from_n)
        return max(0.0, from_bytes + slope * (waiting - from_n))

    return used_bytes


def cheaper_below(a_month: Callable[[float], float], low: float = 10.0, high: float = 1e7) -> float | None:
    """Returns the rate a day below which a bill is lower than Tidewheel's with telemetry, within a thousandth.

    Args:
        a_month: the bill of a rate.
        low, high: the search's bounds. `low` means never cheaper, None always.
    """

    def dearer(rate: float) -> bool:
        return a_month(rate) > tidewheel_cost(rate).a_month

    if dearer(low):
        return low
    if not dearer(high):
        return None
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if dearer(middle) else (middle, high)
    return high


def _dollars(units: Mapping[str, float]) -> float:
    return sum(dollars(unit, count) for unit, count in units.items())
