"""Calculates the cost of the same messages with other ways of delaying messages, with formulas.

A rival without subscriptions needs a copy of each message for each subscription.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidewheel.cost.bill import bill
from tidewheel.cost.deployed import Deployed
from tidewheel.cost.prices import DAYS_A_MONTH, DOLLARS_PER_GB_SECOND, TABLE_GB_MONTH, dollars
from tidewheel.cost.stream import CHUNK_BYTES
from tidewheel.cost.workload import Workload

ITEM_BYTES = 100
"""Bytes of an item beside the body: keys, id, state."""
FUNCTION_GB_S = 0.002
"""Function time of a message in Dynein's place: 20 ms for ten messages, at 1 GiB. An assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another way of delaying messages, and its bill.

    Attributes:
        name: the rival's name.
        formula: how the dollars of a copy are calculated.
        dollars: a month.
    """

    name: str
    formula: str
    dollars: float


def rivals(workload: Workload) -> tuple[Rival, ...]:
    """Returns the rivals' bills for a workload."""
    return (_scheduler(workload), _step_functions(workload), _table(workload))


def _copies(workload: Workload) -> float:
    return workload.per_day * workload.subscriptions * DAYS_A_MONTH


def _chunks(workload: Workload) -> int:
    return math.ceil(workload.size_bytes / CHUNK_BYTES)


def schedules_dollars(copies: float, chunks: int = 1) -> float:
    """Returns the cost of EventBridge Scheduler with a schedule for each copy.

    Args:
        copies: Messages times subscriptions.
        chunks: SQS requests billed for each copy, one for each 64 KiB.
    """
    return copies * (dollars("scheduler.invocation", 1) + dollars("sqs.request", chunks))


def schedules_cheaper_below(batch: int, deployed: Deployed) -> float:
    """Returns the messages a day below which a schedule a message costs less than Tidewheel.

    Args:
        batch: Messages that a client sends together.
        deployed: The environment.
    """
    low, high = 1.0, 1e9
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        workload = Workload(per_day=middle, batch=batch)
        cheaper = schedules_dollars(_copies(workload)) < bill(workload, deployed).total
        low, high = (middle, high) if cheaper else (low, middle)
    return low


def _scheduler(workload: Workload) -> Rival:
    return Rival(
        name="EventBridge Scheduler",
        formula=f"1 invocation ($1.00 a million), {_chunks(workload)} SQS request ($0.40 a million)",
        dollars=schedules_dollars(_copies(workload), _chunks(workload)),
    )


def _step_functions(workload: Workload) -> Rival:
    sqs = dollars("sqs.request", _chunks(workload))
    return Rival(
        name="Step Functions",
        formula=f"2 transitions ($25 a million), {_chunks(workload)} SQS request",
        dollars=_copies(workload) * (dollars("stepfunctions.transition", 2) + sqs),
    )


def _table(workload: Workload) -> Rival:
    """Returns the bill of a table with an item for each message, as in Airbnb's Dynein.

    Messages enter and leave through SQS in batches of ten.
    """
    item_bytes = workload.size_bytes + ITEM_BYTES
    writes = 3 * math.ceil(item_bytes / 1024)  # put, taken, delete
    reads = math.ceil(item_bytes / 4096)
    tens = max(0.1, workload.size_bytes / CHUNK_BYTES)
    each = (
        dollars("dynamodb.write", writes)
        + dollars("dynamodb.read", reads)
        + dollars("sqs.request", 2 * tens + 2 * tens)
        + FUNCTION_GB_S * DOLLARS_PER_GB_SECOND
    )
    stored = workload.waiting * workload.subscriptions * item_bytes / 1e9 * TABLE_GB_MONTH
    return Rival(
        name="DynamoDB, an item a message",
        formula=f"{writes} write units, {reads} read unit, {4 * tens:.1f} SQS requests, 2 ms, {item_bytes} B stored",
        dollars=_copies(workload) * each + stored,
    )
