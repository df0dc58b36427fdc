"""Calculates the cost of the same messages with other ways of delaying messages, with formulas.

A rival without subscriptions needs a copy of each message for each subscription.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidewheel.cost.stream import CHUNK_BYTES
from tidewheel.cost.workload import Workload
from tidewheel.model import prices
from tidewheel.model.prices import DAYS_A_MONTH, DOLLARS_PER_GB_SECOND, FREE_GB_SECONDS, dollars, free_dollars

ITEM_BYTES = 100
"""Bytes of an item beside the body: keys, id, state."""
FUNCTION_GB_S = 0.002
"""Function time of a message in Dynein's place: 20 ms for ten messages, at 1 GiB. An assumption."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another way of delaying messages, and its bill.

    Attributes:
        name: the rival's name.
        formula: how the dollars of a copy are calculated.
        dollars: a month.
        free: dollars that AWS's free tiers pay, in an account without other uses.
    """

    name: str
    formula: str
    dollars: float
    free: float


def rivals(workload: Workload) -> tuple[Rival, ...]:
    """Returns the rivals' bills for a workload.

    The table has an item for each message, as in Airbnb's Dynein. Messages enter and leave it through SQS in batches of
    ten.
    """
    copies = workload.per_day * workload.subscriptions * DAYS_A_MONTH
    chunks = math.ceil(workload.size_bytes / CHUNK_BYTES)
    transitions = dollars("stepfunctions.transition", 2) + dollars("sqs.request", chunks)
    item_bytes = workload.size_bytes + ITEM_BYTES
    writes = 3 * math.ceil(item_bytes / 1024)  # put, taken, delete
    reads = math.ceil(item_bytes / 4096)
    tens = 4 * max(0.1, workload.size_bytes / CHUNK_BYTES)
    item = dollars("dynamodb.write", writes) + dollars("dynamodb.read", reads) + dollars("sqs.request", tens)
    function = FUNCTION_GB_S * DOLLARS_PER_GB_SECOND
    stored = workload.waiting * workload.subscriptions * item_bytes / 1e9 * prices.TABLE_GB_MONTH
    invoked = f"1 invocation ($1.00 a million), {chunks} SQS request ($0.40 a million)"
    moved = f"2 transitions ($25 a million), {chunks} SQS request"
    kept = f"{writes} write units, {reads} read unit, {tens:.1f} SQS requests, 2 ms, {item_bytes} B stored"
    sent = free_dollars("sqs.request", copies * chunks)
    scheduled = sent + free_dollars("scheduler.invocation", copies)
    stepped = sent + free_dollars("stepfunctions.transition", 2 * copies)
    item_free = free_dollars("sqs.request", copies * tens)
    item_free += min(copies * FUNCTION_GB_S, FREE_GB_SECONDS) * DOLLARS_PER_GB_SECOND
    return (
        Rival("EventBridge Scheduler", invoked, schedules_dollars(copies, chunks), scheduled),
        Rival("Step Functions", moved, copies * transitions, stepped),
        Rival("DynamoDB, an item a message", kept, copies * (item + function) + stored, item_free),
    )


def schedules_dollars(copies: float, chunks: int = 1) -> float:
    """Returns the cost of EventBridge Scheduler with a schedule for each copy.

    Args:
        copies: Messages times subscriptions.
        chunks: SQS requests billed for each copy, one for each 64 KiB.
    """
    return copies * (dollars("scheduler.invocation", 1) + dollars("sqs.request", chunks))
