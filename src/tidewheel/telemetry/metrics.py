"""Defines the service's own metrics as pure data.

The functions, the dashboard, the alarms and the documents use the same data. CloudWatch bills a metric for the hours in
which it has data ($0.30 a month). So only what an alarm reads is a metric in CloudWatch, and the rest are fields of the
functions' log records. The metrics are in one namespace with one dimension, the service's name, so each is billed once,
whichever function emits it. A value of zero is not emitted, so a service without faults has no metric in CloudWatch.
Values that AWS measures for free (calls, errors and duration of functions, lengths and ages of queues, units of the
table) are not measured again.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

NAMESPACE = "Tidewheel"
DIMENSION = "Stack"
"""The name of the dimension. Its value is the service's name."""


class Unit(StrEnum):
    """CloudWatch's names of units."""

    COUNT = "Count"
    MILLISECONDS = "Milliseconds"
    SECONDS = "Seconds"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of the service.

    Attributes:
        meaning: the meaning of one unit.
        emitters: the functions that emit the metric.
        graph: the title of the dashboard's graph with the metric. All metrics of a graph have an alarm, or none has.
        gauge: whether the metric is a state, whose greatest value counts, instead of an amount to be added up.
        alarm: the heading in the runbook of the alarm that reads this metric. None: a field of the log records.
    """

    name: str
    meaning: str
    emitters: tuple[str, ...]
    graph: str
    _: KW_ONLY
    unit: Unit = Unit.COUNT
    gauge: bool = False
    alarm: str | None = None


_DELIVERING = ("ingest", "dispatch", "deliver")

ACCEPTED = Metric("Accepted", "messages taken from the ingest queues", ("ingest",), "Messages")
LEDGERS = Metric("Ledgers", "ledgers committed", ("ingest",), "Messages")
PLANNED = Metric("Planned", "messages planned for delivery (an estimate)", ("dispatch",), "Messages")
DELIVERED = Metric(
    "Delivered", "messages that a subscription's queue took, one for each subscription", _DELIVERING, "Messages"
)
LATENESS = Metric(
    "Lateness",
    "how late SQS makes a call's latest message visible; without replays and parks",
    _DELIVERING,
    "Lateness of what was delivered (ms)",
    unit=Unit.MILLISECONDS,
    gauge=True,
)
CANCELLED = Metric(
    "Cancelled", "messages dropped because they were cancelled or replaced", ("ingest", "dispatch"), "Messages"
)
EXPIRED = Metric("Expired", "messages dropped because they expired, one for each subscription", _DELIVERING, "Messages")
PARKED = Metric(
    "Parked", "messages parked, because the subscription is paused or the queue takes none", _DELIVERING, "Messages"
)
OLDEST_DUE_AGE = Metric(
    "OldestDueAge",
    "how late the oldest message is that is due and not delivered",
    ("sweep",),
    "Oldest due message that is not delivered (s)",
    unit=Unit.SECONDS,
    gauge=True,
    alarm="Oldest due message",
)
UNPLANNED_SLOTS = Metric(
    "UnplannedSlots", "slots that are sealed and have messages, but no plan", ("sweep",), "Unfinished work", gauge=True
)
OPEN_DELIVERIES = Metric(
    "OpenDeliveries",
    "deliveries that are still open after 150 s, or redrive_s if left to deliver",
    ("sweep",),
    "Unfinished work",
    gauge=True,
)
BROKEN_SUBSCRIPTIONS = Metric(
    "BrokenSubscriptions",
    "subscriptions whose queue takes no messages, and was tried again",
    ("sweep",),
    "Errors of functions",
    gauge=True,
    alarm="Broken subscriptions",
)
FAILURES = Metric(
    "Failures",
    "work that failed and is tried again, or is left to people, each with an ERROR in the log",
    ("ingest", "dispatch", "deliver", "sweep", "compact"),
    "Errors of functions",
    alarm="Failures",
)
SCHEDULE_REFUSED = Metric(
    "ScheduleRefused",
    "schedules that EventBridge Scheduler refused or did not answer; the sweep starts these dispatches",
    ("ingest", "dispatch", "sweep"),
    "Errors of functions",
    alarm="Scheduler errors",
)
CLOCK_DOUBTED = Metric(
    "ClockDoubted",
    "calls on a machine whose clock differs from AWS's by more than 2 s, or jumps; other machines do the work",
    ("ingest", "dispatch", "deliver", "sweep", "compact"),
    "Unfinished work",
)
DAMAGED = Metric(
    "Damaged",
    "unreadable parts, recurring messages, subscriptions, held collections, merges' sources",
    ("dispatch", "deliver", "sweep", "compact"),
    "Errors of functions",
    alarm="Damaged data",
)
REQUESTS = Metric(
    "Requests",
    "requests to AWS, of calls that had anything to do",
    ("ingest", "dispatch", "deliver", "compact"),
    "Requests to AWS",
)
BACKLOG = Metric(
    "Backlog",
    "messages waiting in ledgers, once an hour; none above 1,000 topics",
    ("sweep",),
    "Messages waiting in ledgers",
    gauge=True,
)

METRICS = tuple(each for each in [*globals().values()] if isinstance(each, Metric))
"""All metrics, in the order of the documents, of the dashboard's lines and of the alarms."""
BY_NAME = {metric.name: metric for metric in METRICS}
