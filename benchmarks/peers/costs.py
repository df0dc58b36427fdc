"""What a peer costs a month, for a steady stream.

Messages wait 7 days on average, so that so many waiting means so many a day. A peer's bill is its counted units at list
prices, what is stored, and what always runs. Nobody's logs, metrics or alarms are in it, but for Tidewheel's. Nor are
consumers; Redis's poller is one, so its bill is given with a task for it and without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.peers.counted import Counted
from benchmarks.peers.peer import Peer
from benchmarks.peers.prices import DURABLE_NODES, HOURS_A_MONTH, NODES, TASK_DOLLARS_AN_HOUR, node_for
from benchmarks.peers.stream import mean_body_bytes
from benchmarks.peers.tidewheel_stack import BATCH
from tidewheel.cost.bill import METRICS, TELEMETRY, bill, total
from tidewheel.cost.deployed import ENVIRONMENTS
from tidewheel.cost.prices import (
    ASSUMED_GB_SECONDS,
    DAYS_A_MONTH,
    DOLLARS_PER_GB_SECOND,
    TABLE_GB_MONTH,
    dollars,
)
from tidewheel.cost.rivals import FUNCTION_GB_S
from tidewheel.cost.workload import DAY_S, Workload

MEAN_DELAY_DAYS = 7.0
FREE_INVOCATIONS = 14_000_000
"""Of EventBridge Scheduler, a month. https://aws.amazon.com/eventbridge/pricing/"""
ENVIRONMENT = "development"
_TELEMETRY_SERVICES = ("CloudWatch", "X-Ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A month's bill.

    Attributes:
        messages: dollars for what is asked and stored because of messages.
        standing: dollars for what costs as much without any.
        runs: what always runs and must be looked after; None if nothing does.
    """

    messages: float
    standing: float
    runs: str | None = None

    @property
    def a_month(self) -> float:
        """Returns all of it."""
        return self.messages + self.standing

    def a_million(self, per_day: float) -> float:
        """Returns what it is for a million messages, if so many are sent a day."""
        return self.a_month / (per_day * DAYS_A_MONTH) * 1e6


def per_day(waiting: float) -> float:
    """Returns how many messages are sent a day if so many wait."""
    return waiting / MEAN_DELAY_DAYS


def workload(per_day: float, batch: int = BATCH) -> Workload:
    """Returns the stream, as `tidewheel cost` takes it, with bodies of the real messages' mean size."""
    return Workload(
        per_day=per_day,
        delay_mean_s=MEAN_DELAY_DAYS * DAY_S,
        size_bytes=round(mean_body_bytes()),
        batch=batch,
    )


def tidewheel_cost(per_day: float, *, batch: int = BATCH, telemetry: bool = True) -> Cost:
    """Returns Tidewheel's bill.

    Args:
        per_day: messages.
        batch: messages a send.
        telemetry: with its metrics, logs and traces; without, it is what the others' bills are.
    """
    found = bill(workload(per_day, batch), ENVIRONMENTS[ENVIRONMENT])

    def kept(service: str, flow: str) -> bool:
        return telemetry or (service not in _TELEMETRY_SERVICES and flow not in (METRICS, TELEMETRY))

    return Cost(
        messages=total(line for line in found.messages if kept(line.service, line.flow)),
        standing=total(line for line in found.standing if kept(line.service, line.flow)),
    )


class Runs(StrEnum):
    """What of a peer's is yours."""

    NOTHING = "nothing"
    FUNCTION = "a function"
    POLLER = "the poller"


RUNS = {Peer.DYNEIN: Runs.POLLER, Peer.AHEAD: Runs.FUNCTION, Peer.SCHEDULES: Runs.NOTHING}


def counted_cost(counted: Counted, per_day: float, runs: Runs) -> Cost:
    """Returns the bill of a peer on AWS that was counted.

    Args:
        counted: its units, and what it stores in DynamoDB.
        per_day: messages.
        runs: a poller costs its task; a function its time, as much for a call and a message as the product assumes.
    """
    sent = per_day * DAYS_A_MONTH
    stored_bytes = (counted.stored_a_message_bytes or 0.0) * per_day * MEAN_DELAY_DAYS
    asked, idle = counted.units.at(sent, 0), counted.units.at(0, HOURS_A_MONTH)
    messages = _dollars(asked) + stored_bytes / 1e9 * TABLE_GB_MONTH
    standing = _dollars(idle)
    if runs is Runs.POLLER:
        standing += TASK_DOLLARS_AN_HOUR * HOURS_A_MONTH
    elif runs is Runs.FUNCTION:
        messages += sent * FUNCTION_GB_S * DOLLARS_PER_GB_SECOND
        standing += idle.get("lambda.invocation", 0.0) * ASSUMED_GB_SECONDS * DOLLARS_PER_GB_SECOND
    return Cost(messages=messages, standing=standing, runs=None if runs is Runs.NOTHING else runs.value)


class Keeping(StrEnum):
    """How Redis is kept on ElastiCache."""

    ONE = "one node"
    """What waits is lost with it."""
    REPLICA = "with a replica"
    """What the replica does not have yet is lost."""
    DURABLE = "durable"
    """With a log in several availability zones, and a replica."""


def redis_cost(
    used_bytes: Callable[[float], float], per_day: float, keeping: Keeping = Keeping.ONE, *, task: bool = True
) -> Cost:
    """Returns the bill of Redis on ElastiCache: no part of it is by message but for the node's size.

    Args:
        used_bytes: what so many waiting messages take up in memory.
        per_day: messages.
        keeping: on which nodes.
        task: with a task that polls it; else what consumes the messages polls, and is paid for anyhow.

    Raises:
        InvalidValue: no single node holds what waits.
    """
    node = node_for(used_bytes(per_day * MEAN_DELAY_DAYS), DURABLE_NODES if keeping is Keeping.DURABLE else NODES)
    nodes = 1 if keeping is Keeping.ONE else 2
    hourly = nodes * node.dollars_an_hour + (TASK_DOLLARS_AN_HOUR if task else 0.0)
    number = "" if nodes == 1 else f"{nodes} "
    runs = f"the poller, {number}{node.name}" if task else f"{number}{node.name}"
    return Cost(messages=0.0, standing=hourly * HOURS_A_MONTH, runs=runs)


def schedules_with_free_tier(per_day: float) -> float:
    """Returns a month's dollars for a schedule a message, its free invocations taken off; SQS is paid for."""
    sent = per_day * DAYS_A_MONTH
    return dollars("scheduler.invocation", max(0.0, sent - FREE_INVOCATIONS)) + dollars("sqs.request", sent)


def between(measured: Mapping[int, int]) -> Callable[[float], float]:
    """Returns memory by messages waiting: on straight lines between what was measured, and beyond along the last.

    Args:
        measured: messages waiting -> bytes; two at least.
    """
    points = sorted(measured.items())

    def used_bytes(waiting: float) -> float:
        upper = next((at for at in range(1, len(points)) if waiting <= points[at][0]), len(points) - 1)
        (from_n, from_bytes), (to_n, to_bytes) = points[upper - 1], points[upper]
        slope = (to_bytes - from_bytes) / (to_n - from_n)
        return max(0.0, from_bytes + slope * (waiting - from_n))

    return used_bytes


def cost_of(
    peer: Peer, per_day: float, counted: Mapping[Peer, Counted], redis_bytes: Callable[[float], float] | None
) -> Cost | None:
    """Returns a peer's bill; None where Redis was not measured.

    Args:
        peer: whose.
        per_day: messages.
        counted: of the peers on AWS.
        redis_bytes: what waiting messages take up in Redis; None if there is none here.

    Raises:
        InvalidValue: no single node of Redis holds what waits.
    """
    if peer is Peer.TIDEWHEEL:
        return tidewheel_cost(per_day)
    if peer is Peer.REDIS:
        return None if redis_bytes is None else redis_cost(redis_bytes, per_day)
    return counted_cost(counted[peer], per_day, RUNS[peer])


def _dollars(units: Mapping[str, float]) -> float:
    return sum(dollars(unit, count) for unit, count in units.items())
