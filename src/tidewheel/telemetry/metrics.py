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
class Alarm:
    """An alarm on `seen` of `periods` periods of five minutes at or above a threshold.

    A period without data counts as below the threshold.

    Attributes:
        name: the end of the alarm's name in CloudWatch.
        title: the heading of the alarm's page in the runbook.
        says: the first sentence of the alarm's description.
        threshold: a number, or the name of the environment's setting with the number.
    """

    name: str
    title: str
    says: str
    threshold: float | str = 1
    seen: int = 1
    periods: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric of the service.

    Attributes:
        meaning: the meaning of one unit.
        emitters: the functions that emit the metric.
        graph: the title of the dashboard's graph with the metric.
        gauge: whether the metric is a state, whose greatest value counts, instead of an amount to be added up.
        alarm: the alarm that reads only this metric, if any.
    """

    name: str
    unit: Unit = Unit.COUNT
    meaning: str
    emitters: tuple[str, ...]
    graph: str
    gauge: bool = False
    alarm: Alarm | None = None


ACCEPTED = Metric(
    name="Accepted",
    meaning="messages taken from the ingest queues: into a ledger, or sent at once",
    emitters=("ingest",),
    graph="1 Accepted",
)
LEDGERS = Metric(name="Ledgers", meaning="ledgers committed", emitters=("ingest",), graph="2 Ledgers")
PLANNED = Metric(
    name="Planned",
    meaning="messages planned for delivery (an estimate made before ledgers are read)",
    emitters=("dispatch",),
    graph="3 Planned",
)
DELIVERED = Metric(
    name="Delivered",
    meaning="messages that a subscription's queue took, one for each subscription",
    emitters=("ingest", "dispatch", "deliver"),
    graph="4 Delivered",
)
LATENESS = Metric(
    name="Lateness",
    unit=Unit.MILLISECONDS,
    meaning="how long after it was due SQS makes a message visible; without replays and parks",
    emitters=("ingest", "dispatch", "deliver"),
    graph="Lateness of what was delivered (ms)",
    gauge=True,
)
CANCELLED = Metric(
    name="Cancelled",
    meaning="messages dropped because they were cancelled, or replaced by another of their key",
    emitters=("ingest", "dispatch"),
    graph="Dropped",
)
EXPIRED = Metric(
    name="Expired",
    meaning="messages dropped because their time had passed, one for each subscription",
    emitters=("ingest", "dispatch", "deliver"),
    graph="Dropped",
)
PARKED = Metric(
    name="Parked",
    meaning="messages put aside: their subscription is paused, or its queue takes none",
    emitters=("ingest", "deliver"),
    graph="Put aside",
)
OLDEST_DUE_AGE = Metric(
    name="OldestDueAge",
    unit=Unit.SECONDS,
    meaning="how long the oldest message that is due and not delivered has been due",
    emitters=("sweep",),
    graph="Oldest due message that is not delivered (s)",
    gauge=True,
    alarm=Alarm(
        name="OldestDue",
        title="Oldest due message",
        says="A message has been due for longer than it should be, and is not delivered.",
        threshold="oldest_due_alarm_s",
    ),
)
UNPLANNED_SLOTS = Metric(
    name="UnplannedSlots",
    meaning="slots that are sealed and have messages, but no plan",
    emitters=("sweep",),
    graph="Unfinished work",
    gauge=True,
    alarm=Alarm(
        name="UnplannedSlots",
        title="Unplanned slots",
        says="Slots are sealed and hold messages, and no dispatch plans them.",
        seen=2,
        periods=3,
    ),
)
OPEN_DELIVERIES = Metric(
    name="OpenDeliveries",
    meaning="deliveries that are still open when they should be done: after 150 s, or redrive_s if left to deliver",
    emitters=("sweep",),
    graph="Unfinished work",
    gauge=True,
    alarm=Alarm(
        name="OpenDeliveries",
        title="Open deliveries",
        says="Deliveries were left open twice within an hour; the sweep enqueues their parts again.",
        # The sweep's first check, after LEASE_MS or redrive_s, redrives deliveries of a function that died. So only a
        # second count raises the alarm: redrive_s later the same delivery, if redrive_s is at most an hour, or another
        # delivery.
        seen=2,
        periods=13,
    ),
)
BROKEN_SUBSCRIPTIONS = Metric(
    name="BrokenSubscriptions",
    meaning="subscriptions whose queue takes no messages, and was tried again",
    emitters=("sweep",),
    graph="Put aside",
    gauge=True,
    alarm=Alarm(
        name="BrokenSubscriptions",
        title="Broken subscriptions",
        says="A subscription's queue is gone or refuses messages; they are parked.",
        periods=3,
    ),
)
FAILURES = Metric(
    name="Failures",
    meaning="work that failed and is tried again, or is left to people; each has an ERROR in the log",
    emitters=("ingest", "dispatch", "deliver", "sweep", "compact"),
    graph="Errors of functions",
    alarm=Alarm(
        name="Failures",
        title="Failures",
        says="Functions go on logging errors of work that is left to another try.",
        seen=3,
        periods=6,
    ),
)
SCHEDULE_REFUSED = Metric(
    name="ScheduleRefused",
    meaning="schedules that EventBridge Scheduler refused or did not answer; the sweep starts these dispatches",
    emitters=("ingest", "dispatch", "sweep"),
    graph="Errors of functions",
    alarm=Alarm(
        name="ScheduleRefused",
        title="Schedules refused",
        says="EventBridge Scheduler refuses schedules; only the sweep starts dispatches.",
        seen=2,
        periods=6,
    ),
)
CLOCK_DOUBTED = Metric(
    name="ClockDoubted",
    meaning="calls on a machine whose clock differs from AWS's by more than 2 s, or jumps; other machines do the work",
    emitters=("ingest", "dispatch", "deliver", "sweep", "compact"),
    graph="Errors of functions",
    alarm=Alarm(
        name="ClockDoubted",
        title="Clock doubted",
        says="The clock of a function's machine is wrong; it sends, seals and deletes nothing.",
    ),
)
DAMAGED = Metric(
    name="Damaged",
    meaning="what cannot be read: damaged parts, recurring messages, subscriptions, held collections",
    emitters=("ingest", "dispatch", "deliver", "sweep"),
    graph="Errors of functions",
    alarm=Alarm(
        name="Damaged",
        title="Damaged data",
        says="Stored data cannot be read; its own messages do not come, all others do.",
        periods=12,
    ),
)
UNREADABLE_LEDGERS = Metric(
    name="UnreadableLedgers",
    meaning="ledgers that a merge could not read and left as they are",
    emitters=("compact",),
    graph="Errors of functions",
)
REQUESTS = Metric(
    name="Requests",
    meaning="requests to AWS, of calls that had anything to do; the log record names each operation",
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

METRICS = (
    ACCEPTED,
    LEDGERS,
    PLANNED,
    DELIVERED,
    LATENESS,
    CANCELLED,
    EXPIRED,
    PARKED,
    OLDEST_DUE_AGE,
    UNPLANNED_SLOTS,
    OPEN_DELIVERIES,
    BROKEN_SUBSCRIPTIONS,
    FAILURES,
    SCHEDULE_REFUSED,
    CLOCK_DOUBTED,
    DAMAGED,
    UNREADABLE_LEDGERS,
    REQUESTS,
    BACKLOG,
)
"""All metrics, in the order of the documents, of the dashboard's lines and of the alarms."""
BY_NAME = {metric.name: metric for metric in METRICS}
