"""Calculates a workload's monthly bill, split into the cost of messages and of the stack itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tidewheel.cost import prices
from tidewheel.cost.assumptions import Assumptions
from tidewheel.cost.deployed import POLLERS, Deployed
from tidewheel.cost.function_time import gb_seconds
from tidewheel.cost.prices import DAYS_A_MONTH, SERVICES
from tidewheel.cost.requests import FLOWS
from tidewheel.cost.stream import Runs, Stream
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.model.settings import TopicSettings

GB = 1e9
STORAGE, LOGS = "storage", "logs"
BESIDE_REQUESTS = (STORAGE, LOGS)
"""Flows that are neither requests nor function time."""
MOST_TOPICS = 1000
"""Maximum topics whose backlog is counted (`tidewheel.flows.upkeep.health`)."""
LOGS_COMPRESSED = 0.15
"""Stored bytes for each byte of logs. https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/"""


NAMES = {
    "sqs.request": "requests",
    "dynamodb.write": "write units",
    "dynamodb.read": "read units",
    "s3.put": "PUTs and LISTs",
    "s3.get": "GETs",
    "lambda.invocation": "calls",
    "scheduler.invocation": "invocations",
    "glue.run": "runs",
    "GB-second": "GB-seconds",
}
"""Readable names of units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a bill.

    Attributes:
        flow: the billed flow.
        service: the billing AWS service.
        what: how the amount is calculated.
        dollars: a month.
    """

    flow: str
    service: str
    what: str
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A month's bill.

    Attributes:
        workload: the billed workload.
        messages: lines that grow with the messages.
        standing: lines of a stack without any message.
        consumers: the cost of the consumers' own requests; not in the totals.
    """

    workload: Workload
    messages: tuple[Line, ...]
    standing: tuple[Line, ...]
    consumers: tuple[Line, ...]

    @property
    def a_month(self) -> float:
        """Messages sent in a month."""
        return self.workload.per_day * DAYS_A_MONTH

    def a_million(self, dollars: float) -> float | None:
        """Returns the cost of a million messages from a month's dollars, or None if no message is sent."""
        return dollars / self.a_month * 1e6 if self.a_month else None


def total(lines: Iterable[Line]) -> float:
    """Returns the sum of the lines' dollars."""
    return sum(line.dollars for line in lines)


def grouped(lines: Iterable[Line], by: Callable[[Line], str]) -> dict[str, float]:
    """Returns dollars grouped by a key such as service or flow, the largest first."""
    sums: dict[str, float] = {}
    for line in lines:
        sums[by(line)] = sums.get(by(line), 0.0) + line.dollars
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def bill(
    workload: Workload,
    deployed: Deployed,
    assumptions: Assumptions | None = None,
    settings: TopicSettings | None = None,
) -> Bill:
    """Returns the bill of a workload.

    Args:
        workload: the messages.
        deployed: the stack's environment.
        assumptions: the assumed figures.
        settings: of each topic.
    """
    taken = assumptions or Assumptions()
    stream = Stream(workload, taken, settings or TopicSettings())
    runs = stream.runs()
    lines = [line for run in runs for line in _lines(run)]
    if workload.per_day:
        calls = sum(run.calls for run in runs)
        lines += [_logs(LOGS, calls, taken), *_storage(stream, deployed)]
    return Bill(
        workload=workload,
        messages=tuple(lines),
        standing=tuple(_standing(workload, deployed, taken)),
        consumers=tuple(_consumers(workload)),
    )


def units_a_day(runs: Iterable[Runs]) -> dict[str, float]:
    """Returns the billed units of runs, in the units of `tidewheel.local.meter`."""
    units: dict[str, float] = {}
    for run in runs:
        for found in (FLOWS[run.flow].units(run.measures), run.more):
            for unit, count in found.items():
                units[unit] = units.get(unit, 0.0) + count
    return units


def _lines(run: Runs) -> list[Line]:
    by_service: dict[str, list[tuple[str, float]]] = {}
    for unit, count in units_a_day([run]).items():
        by_service.setdefault(SERVICES[unit.split(".")[0]], []).append((unit, count * DAYS_A_MONTH))
    function, requests = FLOWS[run.flow].function, _requests(run)
    if function is not None:
        taken = gb_seconds(function, run.calls, run.messages, requests) * DAYS_A_MONTH
        by_service.setdefault("Lambda", []).append(("GB-second", taken))
    return [
        Line(
            flow=run.label,
            service=service,
            what=", ".join(f"{count:,.0f} {NAMES[unit]}" for unit, count in units if count >= 0.5),
            dollars=sum(_dollars(unit, count) for unit, count in units),
        )
        for service, units in by_service.items()
    ]


def _requests(run: Runs) -> Mapping[str, float]:
    total: dict[str, float] = {}
    for measure, times in run.measures.items():
        for operation, count in FLOWS[run.flow].asked[measure].requests.items():
            total[operation] = total.get(operation, 0.0) + count * times
    return total


def _dollars(unit: str, count: float) -> float:
    return count * prices.DOLLARS_PER_GB_SECOND if unit == "GB-second" else prices.dollars(unit, count)


def _logs(flow: str, calls_a_day: float, taken: Assumptions) -> Line:
    gigabytes = calls_a_day * taken.log_bytes * DAYS_A_MONTH / GB
    return Line(
        flow=flow,
        service="CloudWatch",
        what=f"{gigabytes:,.3f} GB of logs, kept for a month",
        dollars=gigabytes * (prices.LOGS_GB + LOGS_COMPRESSED * prices.LOGS_GB_MONTH),
    )


def _storage(stream: Stream, deployed: Deployed) -> list[Line]:
    workload, taken = stream.workload, stream.assumptions
    waiting = workload.waiting * stream.stored_bytes
    written = workload.per_day * stream.stored_bytes * (1 + taken.rewrites * stream.merges)
    deleted = written * deployed.deleted_object_days
    table = stream.live * workload.topics * taken.bucket_bytes
    days = f", and {deployed.deleted_object_days} days of deleted ledgers" if deleted else ""
    return [
        Line(
            flow=STORAGE,
            service="S3",
            what=f"{workload.waiting:,.0f} waiting messages of {stream.stored_bytes:.0f} B{days}",
            dollars=(waiting + deleted) / GB * prices.S3_GB_MONTH,
        ),
        Line(
            flow=STORAGE,
            service="DynamoDB",
            what=f"{table / 1e6:,.2f} MB of metadata, with point-in-time recovery",
            dollars=table / GB * (prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH),
        ),
    ]


def _standing(workload: Workload, deployed: Deployed, taken: Assumptions) -> list[Line]:
    sweeps = DAY_S / deployed.sweep_interval_s
    measures = {"call": sweeps, "hour": 24, "orphans": 1}
    if workload.per_day:
        measures |= {"hour_topic": 24 * min(MOST_TOPICS, workload.topics), "orphans_topic": workload.topics}
    sweep = Runs(flow="sweep", label="sweep", calls=sweeps, measures=measures)
    lines = [*_lines(sweep), _logs("sweep", sweeps, taken)]
    polls = POLLERS * DAY_S / taken.idle_poll_s * DAYS_A_MONTH
    lines.append(
        Line(
            flow="pollers",
            service="SQS",
            what=f"{deployed.polled_queues} queues, each {POLLERS} pollers that ask every {taken.idle_poll_s:.0f} s",
            dollars=prices.dollars("sqs.request", polls * deployed.polled_queues),
        )
    )
    if deployed.alarms:
        text = f"{deployed.alarms} metrics of alarms, ${prices.ALARM_MONTH:.2f} each"
        dollars = deployed.alarms * prices.ALARM_MONTH
        lines.append(Line(flow="alarms", service="CloudWatch", what=text, dollars=dollars))
    if deployed.keys:
        text = f"{deployed.keys} keys, ${prices.KEY_MONTH:.2f} each, without their requests"
        lines.append(Line(flow="key", service="KMS", what=text, dollars=deployed.keys * prices.KEY_MONTH))
    return lines


def _consumers(workload: Workload) -> list[Line]:
    tens = workload.per_day * workload.subscriptions / 10 * DAYS_A_MONTH
    if not tens:
        return []
    requests = FLOWS["receive"].units({"ten": tens})["sqs.request"]
    return [
        Line(
            flow="consumers",
            service="SQS",
            what=f"{requests:,.0f} requests: ReceiveMessage and DeleteMessageBatch, ten messages each",
            dollars=prices.dollars("sqs.request", requests),
        )
    ]
