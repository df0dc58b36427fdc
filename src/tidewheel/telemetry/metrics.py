"""Defines the service's own metrics as pure data.

The functions, the dashboard, the alarms and the documents use the same data. CloudWatch bills a metric for the hours in
which it has data ($0.30 a month). So only what an alarm reads is a metric in CloudWatch, and the rest are fields of the
functions' log records. The metrics are in one namespace with one dimension, the service's name, so each is billed once,
whichever function emits it. A value of zero is not emitted, so a service without faults has no metric in CloudWatch.
Values that AWS measures for free (calls, errors and duration of functions, lengths and ages of queues, units of the
table) are not measured again.
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
        graph: the title of the dashboard's graph with the metric. All metrics of a graph have an alarm, or none has.
        gauge: whether the metric is a state, whose greatest value counts, instead of an amount to be added up.
        alarm: the heading in the runbook of the alarm that reads this metric. None: a field of the log records.
    """

    name: str
    unit: Unit = Unit.COUNT
    meaning: str
    emitters: tuple[str, ...]
    graph: str
    gauge: bool = False
    alarm: str | None = None


ACCEPTED = Metric(
    name="Accepted",
    meaning="messages taken from the ingest queues",
    emitters=("ingest",),
    graph="Messages",
)
LEDGERS = Metric(name="Ledgers", meaning="ledgers committed", emitters=("ingest",), graph="Messages")
PLANNED = Metric(
    name="Planned",
    meaning="messages planned for delivery (an estimate)",
    emitters=("dispatch",),
    graph="Messages",
)
DELIVERED = Metric(
    name="Delivered",
    meaning="messages that a subscription's queue took, one for each subscription",
    emitters=("ingest", "dispatch", "deliver"),
    graph="Messages",
)
LATENESS = Metric(
    name="Lateness",
    unit=Unit.MILLISECONDS,
    meaning="how late SQS makes a call's latest message visible; without replays and parks",
    emitters=("ingest", "dispatch", "deliver"),
    graph="Lateness of what was delivered (ms)",
    gauge=True,
)
CANCELLED = Metric(
    name="Cancelled",
    meaning="messages dropped because they were cancelled or replaced",
    emitters=("ingest", "dispatch"),
    graph="Messages",
)
EXPIRED = Metric(
    name="Expired",
    meaning="messages dropped because they expired, one for each subscription",
    emitters=("ingest", "dispatch", "deliver"),
    graph="Messages",
)
PARKED = Metric(
    name="Parked",
    meaning="messages parked, because the subscription is paused or the queue takes none",
    emitters=("ingest", "dispatch", "deliver"),
    graph="Messages",
)
OLDEST_DUE_AGE = Metric(
    name="OldestDueAge",
    unit=Unit.SECONDS,
    meaning="how late the oldest message is that is due and not delivered",
    emitters=("sweep",),
    graph="Oldest due message that is not delivered (s)",
    gauge=True,
    alarm="Oldest due message",
)
UNPLANNED_SLOTS = Metric(
    name="UnplannedSlots",
    meaning="slots that are sealed and have messages, but no plan",
    emitters=("sweep",),
    graph="Unfinished work",
    gauge=True,
)
OPEN_DELIVERIES = Metric(
    name="OpenDeliveries",
    meaning="deliveries that are still open after 150 s, or redrive_s if left to deliver",
    emitters=("sweep",),
    graph="Unfinished work",
    gauge=True,
)
BROKEN_SUBSCRIPTIONS = Metric(
    name="BrokenSubscriptions",
    meaning="subscriptions whose queue takes no messages, and was tried again",
    emitters=("sweep",),
    graph="Errors of functions",
    gauge=True,
    alarm="Broken subscriptions",
)
FAILURES = Metric(
    name="Failures",
    meaning="work that failed and is tried again, or is left to people, each with an ERROR in the log",
    emitters=("ingest", "dispatch", "deliver", "sweep", "compact"),
    graph="Errors of functions",
    alarm="Failures",
)
SCHEDULE_REFUSED = Metric(
    name="ScheduleRefused",
    meaning="schedules that EventBridge Scheduler refused or did not answer; the sweep starts these dispatches",
    emitters=("ingest", "dispatch", "sweep"),
    graph="Errors of functions",
    alarm="Scheduler errors",
)
CLOCK_DOUBTED = Metric(
    name="ClockDoubted",
    meaning="calls on a machine whose clock differs from AWS's by more than 2 s, or jumps; other machines do the work",
    emitters=("ingest", "dispatch", "deliver", "sweep", "compact"),
    graph="Unfinished work",
)
DAMAGED = Metric(
    name="Damaged",
    meaning="unreadable parts, recurring messages, subscriptions, held collections, merges' sources",
    emitters=("dispatch", "deliver", "sweep", "compact"),
    graph="Errors of functions",
    alarm="Damaged data",
)
REQUESTS = Metric(
    name="Requests",
    meaning="requests to AWS, of calls that had anything to do",
    emitters=("ingest", "dispatch", "deliver", "compact"),
    graph="Requests to AWS",
)
BACKLOG = Metric(
    name="Backlog",
    meaning="messages waiting in ledgers, once an hour; none above 1,000 topics",
    emitters=("sweep",),
    graph="Messages waiting in ledgers",
    gauge=True,
)

METRICS = tuple(each for each in [*globals().values()] if isinstance(each, Metric))
"""All metrics, in the order of the documents, of the dashboard's lines and of the alarms."""
BY_NAME = {metric.name: metric for metric in METRICS}
