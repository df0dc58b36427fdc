"""Calculates a workload's monthly bill, split into the cost of messages and of the stack itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidewheel.cost.figures import ASSUMED, FLOWS, added, gb_seconds
from tidewheel.cost.stream import Runs, Stream, any_of
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.model import prices
from tidewheel.model.prices import ALARM_MONTH, DAYS_A_MONTH, SERVICES
from tidewheel.model.tombstone import KEPT_S
from tidewheel.model.triggers import SWEEP_INTERVAL_S
from tidewheel.telemetry.metrics import METRICS

STORAGE, LOGS, POLLS, ALARMS, KEYS, HISTORY = "storage", "logs", "pollers", "alarms", "keys", "history"
"""Parts of a bill beside the requests and the function time of each AWS service."""
MOST_TOPICS = 1000
"""Maximum topics whose backlog is counted (`tidewheel.flows.maintenance.health`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Fixed-cost resources of an environment. Tests compare these with the templates.

    Attributes:
        alarms: metrics with alarms.
        polled_queues: queues that Lambda polls; two more for each dedicated topic.
        pollers: Lambda's pollers of each queue while the queue is empty.
        deleted_object_days: days for which S3 keeps deleted objects.
    """

    alarms: int
    polled_queues: int = 3
    pollers: float = ASSUMED["least_pollers"]
    deleted_object_days: int = 0


_ALARMS = 18 + sum(metric.alarm is not None for metric in METRICS)
"""The metrics that alarms read: of AWS, and the service's own."""
ENVIRONMENTS = {
    "development": Deployed(alarms=0),
    "production": Deployed(alarms=_ALARMS, pollers=ASSUMED["pollers"], deleted_object_days=7),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A month's bill in dollars.

    Attributes:
        workload: the billed workload.
        messages: part -> dollars that grow with the messages. A part is an AWS service, or a name such as `STORAGE`.
        standing: part -> dollars of a stack without any message.
        consumers: dollars for the requests of a worker on each subscription; not in the totals.
        free: dollars of the total that AWS's free tiers pay, in an account without other uses.
    """

    workload: Workload
    messages: Mapping[str, float]
    standing: Mapping[str, float]
    consumers: float
    free: float

    @property
    def requests(self) -> float:
        """Dollars of the messages' requests and function time."""
        return sum(dollars for part, dollars in self.messages.items() if part not in (STORAGE, HISTORY, LOGS))

    @property
    def total(self) -> float:
        """Dollars of messages and stack together."""
        return sum(self.messages.values()) + sum(self.standing.values())

    def a_million(self, dollars: float) -> float | None:
        """Returns the cost of a million messages from a month's dollars, or None if no message is sent."""
        sent = self.workload.per_day * DAYS_A_MONTH
        return dollars / sent * 1e6 if sent else None


def bill(workload: Workload, deployed: Deployed) -> Bill:
    """Returns the bill of a workload in a stack of this environment."""
    messages, consumers, calls = dict[str, float](), 0.0, DAY_S / SWEEP_INTERVAL_S
    if workload.per_day:
        stream = Stream(workload)
        runs = stream.runs()
        records = [each for each in runs if each.flow == "record"]
        messages = _by_service([each for each in runs if each.flow != "record"])
        if workload.keyed:
            # Ingest writes the key, and the consumers of each subscription write the claim.
            writes = workload.keyed * workload.per_day * (1 + workload.subscriptions)
            messages[KEYS] = _dollars("dynamodb.write", writes)
        messages |= {HISTORY: _history(stream, records)} if records else {}
        messages |= {STORAGE: _storage(stream, deployed), LOGS: _logs(runs)}
        consumers = _consumers(workload)
        calls += sum(each.calls for each in runs)
    standing = _standing(workload, deployed)
    free = _free(added([(messages, 1), (standing, 1)]), calls)
    return Bill(workload=workload, messages=messages, standing=standing, consumers=consumers, free=free)


def _free(parts: Mapping[str, float], calls: float) -> float:
    """Returns the dollars of a month that free tiers pay.

    Args:
        parts: part of the bill -> its dollars.
        calls: calls of the functions a day.
    """
    called = _dollars("lambda.invocation", calls)
    used_and_free = (
        (parts.get("SQS", 0) + parts.get(POLLS, 0), prices.free_dollars("sqs.request")),
        (called, prices.free_dollars("lambda.invocation")),
        (parts.get("Lambda", 0) - called, prices.FREE_GB_SECONDS * prices.DOLLARS_PER_GB_SECOND),
        (parts.get("EventBridge Scheduler", 0), prices.free_dollars("scheduler.invocation")),
        (parts.get(LOGS, 0), prices.FREE_LOGS_GB * prices.LOGS_GB),
        (parts.get(ALARMS, 0), prices.FREE_ALARMS * ALARM_MONTH),
    )
    return sum(min(used, free) for used, free in used_and_free)


def _dollars(unit: str, a_day: float) -> float:
    return prices.dollars(unit, a_day * DAYS_A_MONTH)


def _consumers(workload: Workload) -> float:
    """Returns dollars for a worker on each subscription.

    Messages due in one second become receivable together. A receive takes ten of them, and an acknowledgement follows.
    """
    a_second = workload.per_day / workload.topics / DAY_S
    receives = workload.per_day / min(10.0, max(1.0, a_second))
    empty = workload.topics * DAY_S / ASSUMED["idle_poll_s"] * (1 - any_of(a_second * ASSUMED["idle_poll_s"]))
    units = FLOWS["receive"].units({"ten": receives})["sqs.request"] + empty
    return _dollars("sqs.request", units * workload.subscriptions)


def _by_service(runs: Sequence[Runs]) -> dict[str, float]:
    dollars = dict.fromkeys(SERVICES.values(), 0.0)
    for run in runs:
        for unit, count in run.units().items():
            dollars[SERVICES[unit.split(".")[0]]] += _dollars(unit, count)
        function = FLOWS[run.flow].function
        if function is not None:
            taken = gb_seconds(function, run.calls, run.messages, run.requests())
            dollars["Lambda"] += taken * DAYS_A_MONTH * prices.DOLLARS_PER_GB_SECOND
    return {service: each for service, each in dollars.items() if each}


def _logs(runs: Sequence[Runs]) -> float:
    """Returns dollars for logs that are kept for a month."""
    logged = sum(run.calls * ASSUMED["forward_log_bytes" if run.flow == "forward" else "log_bytes"] for run in runs)
    return logged * DAYS_A_MONTH / 1e9 * (prices.LOGS_GB + ASSUMED["logs_compressed"] * prices.LOGS_GB_MONTH)


def _storage(stream: Stream, deployed: Deployed) -> float:
    """Returns dollars for waiting messages, deleted ledgers, and keys and claims with point-in-time recovery."""
    workload = stream.workload
    written = workload.per_day * (1 + ASSUMED["rewrites"] * bool(stream.merges))
    stored_bytes = stream.stored_bytes * (workload.waiting + written * deployed.deleted_object_days)
    keys = 2 * workload.keyed * workload.per_day * KEPT_S / DAY_S * ASSUMED["claim_bytes"]  # each an item
    return (stored_bytes * prices.S3_GB_MONTH + keys * (prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH)) / 1e9


def _history(stream: Stream, records: Sequence[Runs]) -> float:
    """Returns dollars for the records of deliveries, and for them and the ledgers that are kept for history.

    A merge's sources are kept, too, for their messages that were sent by then.
    """
    days = stream.settings.retention_ms / 1000 / DAY_S
    written = stream.workload.per_day * (1 - stream.direct) * (1 + ASSUMED["rewrites"] * bool(stream.merges))
    deliveries = sum(each.measures["call"] for each in records)
    rows = deliveries * (days + 1) * ASSUMED["record_bytes"]
    stored = written * days * stream.stored_bytes * prices.S3_GB_MONTH
    kept = (stored + rows * (prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH)) / 1e9
    return kept + sum(_by_service(records).values())


def _standing(workload: Workload, deployed: Deployed) -> dict[str, float]:
    measures = {"call": DAY_S / SWEEP_INTERVAL_S, "hour": 24, "orphans": 1}
    if workload.per_day:
        measures |= {"hour_topic": 24 * min(MOST_TOPICS, workload.topics), "orphans_topic": workload.topics}
    polls = deployed.polled_queues * deployed.pollers * DAY_S / ASSUMED["idle_poll_s"]
    runs = [Runs("sweep", measures)]
    parts = {LOGS: _logs(runs), POLLS: _dollars("sqs.request", polls), ALARMS: deployed.alarms * ALARM_MONTH}
    return _by_service(runs) | {part: dollars for part, dollars in parts.items() if dollars}
