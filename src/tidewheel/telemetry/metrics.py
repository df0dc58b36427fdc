"""Defines the service's own metrics as pure data.

The functions, the dashboard, the alarms and the documents use the same data. All metrics are in one namespace with one
dimension, the service's name. So each metric is billed once ($0.30 a month, for the hours in which it has data),
whichever function emits it. A metric with the value zero is not emitted, so an idle service has none. Values that AWS
measures for free (calls, errors and duration of functions, lengths and ages of queues, units of the table) are not
measured again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NAMESPACE = "Tidewheel"
DIMENSION = "Stack"
"""The name of the dimension. Its value is the service's name."""


class Unit(StrEnum):
    """CloudWatch's names of units."""

    COUNT = "Count"
    MILLISECONDS = "Milliseconds"
    SECONDS = "Seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric of the service.

    Attributes:
        meaning: the meaning of one unit.
        emitters: the functions that emit the metric.
        gauge: whether the metric is a state, whose greatest value counts, instead of an amount to be added up.
    """

    name: str
    unit: Unit = Unit.COUNT
    meaning: str
    emitters: tuple[str, ...]
    gauge: bool = False


ACCEPTED = Metric(
    name="Accepted",
    meaning="messages taken from the ingest queues: into a ledger, or sent at once",
    emitters=("ingest",),
)
LEDGERS = Metric(name="Ledgers", meaning="ledgers committed", emitters=("ingest",))
PLANNED = Metric(
    name="Planned",
    meaning="messages planned for delivery (an estimate made before ledgers are read)",
    emitters=("dispatch",),
)
DELIVERED = Metric(
    name="Delivered",
    meaning="messages that a subscription's queue took, one for each subscription",
    emitters=("ingest", "dispatch", "deliver"),
)
LATENESS = Metric(
    name="Lateness",
    unit=Unit.MILLISECONDS,
    meaning="how long after it was due SQS makes a message visible; without replays and parks",
    emitters=("ingest", "dispatch", "deliver"),
    gauge=True,
)
CANCELLED = Metric(
    name="Cancelled",
    meaning="messages dropped because they were cancelled, or replaced by another of their key",
    emitters=("ingest", "dispatch"),
)
EXPIRED = Metric(
    name="Expired",
    meaning="messages dropped because their time had passed, one for each subscription",
    emitters=("ingest", "dispatch", "deliver"),
)
PARKED = Metric(
    name="Parked",
    meaning="messages put aside: their subscription is paused, or its queue takes none",
    emitters=("ingest", "deliver"),
)
FAILURES = Metric(
    name="Failures",
    meaning="work that failed and is tried again, or is left to people; each has an ERROR in the log",
    emitters=("ingest", "dispatch", "deliver", "sweep", "compact"),
)
UNREADABLE_LEDGERS = Metric(
    name="UnreadableLedgers",
    meaning="ledgers that a merge could not read and left as they are",
    emitters=("compact",),
)
REQUESTS = Metric(
    name="Requests",
    meaning="requests to AWS, of calls that had anything to do; the log record names each operation",
    emitters=("ingest", "dispatch", "deliver", "compact"),
)
OLDEST_DUE_AGE = Metric(
    name="OldestDueAge",
    unit=Unit.SECONDS,
    meaning="how long the oldest message that is due and not delivered has been due",
    emitters=("sweep",),
    gauge=True,
)
UNPLANNED_SLOTS = Metric(
    name="UnplannedSlots",
    meaning="slots that are sealed and have messages, but no plan",
    emitters=("sweep",),
    gauge=True,
)
OPEN_DELIVERIES = Metric(
    name="OpenDeliveries",
    meaning="deliveries that are still open when they should be done: after 150 s, or redrive_s if left to deliver",
    emitters=("sweep",),
    gauge=True,
)
BROKEN_SUBSCRIPTIONS = Metric(
    name="BrokenSubscriptions",
    meaning="subscriptions whose queue takes no messages, and was tried again",
    emitters=("sweep",),
    gauge=True,
)
BACKLOG = Metric(
    name="Backlog",
    meaning="messages waiting in ledgers, once an hour; none above 1,000 topics",
    emitters=("sweep",),
    gauge=True,
)

METRICS = (
    ACCEPTED,
    LEDGERS,
    PLANNED,
    DELIVERED,
    LATENESS,
    CANCELLED,
    EXPIRED,
    PARKED,
    FAILURES,
    UNREADABLE_LEDGERS,
    REQUESTS,
    OLDEST_DUE_AGE,
    UNPLANNED_SLOTS,
    OPEN_DELIVERIES,
    BROKEN_SUBSCRIPTIONS,
    BACKLOG,
)

BY_NAME = {metric.name: metric for metric in METRICS}
