"""Calculates a workload's monthly bill, split into the cost of messages and of the stack itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidewheel.cost.assumptions import Assumptions
from tidewheel.cost.deployed import POLLERS, Deployed
from tidewheel.cost.function_time import gb_seconds
from tidewheel.cost.plain_stream import stream_of
from tidewheel.cost.requests import FLOWS
from tidewheel.cost.stream import Runs, Stream
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.model import prices
from tidewheel.model.prices import DAYS_A_MONTH, SERVICES
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import KEPT_S

GB = 1e9
STORAGE, LOGS, POLLS, ALARMS, CLAIMS = "storage", "logs", "pollers", "alarms", "claims"
"""Parts of a bill beside the requests and the function time of each AWS service."""
MOST_TOPICS = 1000
"""Maximum topics whose backlog is counted (`tidewheel.flows.upkeep.health`)."""
LOGS_COMPRESSED = 0.15
"""Stored bytes for each byte of logs. https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A month's bill in dollars.

    Attributes:
        workload: the billed workload.
        messages: part -> dollars that grow with the messages. A part is an AWS service, or a name such as `STORAGE`.
        standing: part -> dollars of a stack without any message.
        consumers: dollars for the consumers' own requests; not in the totals.
    """

    workload: Workload
    messages: Mapping[str, float]
    standing: Mapping[str, float]
    consumers: float

    @property
    def requests(self) -> float:
        """Dollars of the messages' requests and function time."""
        return sum(dollars for part, dollars in self.messages.items() if part not in (STORAGE, LOGS))

    @property
    def total(self) -> float:
        """Dollars of messages and stack together."""
        return sum(self.messages.values()) + sum(self.standing.values())

    def a_million(self, dollars: float) -> float | None:
        """Returns the cost of a million messages from a month's dollars, or None if no message is sent."""
        sent = self.workload.per_day * DAYS_A_MONTH
        return dollars / sent * 1e6 if sent else None


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
    stream = stream_of(workload, taken, settings or TopicSettings())
    runs = stream.runs()
    messages = _by_service(runs)
    copies = workload.per_day * workload.subscriptions * DAYS_A_MONTH
    if runs:
        messages |= {CLAIMS: prices.dollars("dynamodb.write", copies)} if workload.claimed else {}
        messages |= {STORAGE: _storage(stream, deployed), LOGS: _logs(runs, taken)}
    return Bill(
        workload=workload,
        messages=messages,
        standing=_standing(workload, deployed, taken),
        consumers=prices.dollars("sqs.request", FLOWS["receive"].units({"ten": copies / 10}).get("sqs.request", 0.0)),
    )


def _by_service(runs: Iterable[Runs]) -> dict[str, float]:
    dollars = dict.fromkeys(SERVICES.values(), 0.0)
    for run in runs:
        for unit, count in run.units().items():
            dollars[SERVICES[unit.split(".")[0]]] += prices.dollars(unit, count * DAYS_A_MONTH)
        function = FLOWS[run.flow].function
        if function is not None:
            taken = gb_seconds(function, run.calls, run.messages, run.requests())
            dollars["Lambda"] += taken * DAYS_A_MONTH * prices.DOLLARS_PER_GB_SECOND
    return {service: each for service, each in dollars.items() if each}


def _logs(runs: Iterable[Runs], taken: Assumptions) -> float:
    """Returns dollars for logs that are kept for a month."""
    bytes_a_day = sum(
        run.calls * (taken.forward_log_bytes if run.flow == "forward" else taken.log_bytes) for run in runs
    )
    gigabytes = bytes_a_day * DAYS_A_MONTH / GB
    return gigabytes * (prices.LOGS_GB + LOGS_COMPRESSED * prices.LOGS_GB_MONTH)


def _storage(stream: Stream, deployed: Deployed) -> float:
    """Returns dollars for waiting messages, deleted ledgers, and metadata and claims with point-in-time recovery."""
    workload, taken = stream.workload, stream.assumptions
    written = workload.per_day * stream.stored_bytes * (1 + taken.rewrites * stream.merges)
    objects = workload.waiting * stream.stored_bytes + written * deployed.deleted_object_days
    claims = workload.claimed * workload.per_day * KEPT_S / DAY_S * taken.claim_bytes
    table = stream.live * workload.topics * taken.bucket_bytes + claims
    return (objects * prices.S3_GB_MONTH + table * (prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH)) / GB


def _standing(workload: Workload, deployed: Deployed, taken: Assumptions) -> dict[str, float]:
    sweeps = DAY_S / deployed.sweep_interval_s
    measures = {"call": sweeps, "hour": 24, "orphans": 1}
    if workload.per_day:
        measures |= {"hour_topic": 24 * min(MOST_TOPICS, workload.topics), "orphans_topic": workload.topics}
    polls = deployed.polled_queues * POLLERS * DAY_S / taken.idle_poll_s * DAYS_A_MONTH
    runs = [Runs(flow="sweep", calls=sweeps, measures=measures)]
    standing = _by_service(runs)
    standing |= {LOGS: _logs(runs, taken), POLLS: prices.dollars("sqs.request", polls)}
    return standing | ({ALARMS: deployed.alarms * prices.ALARM_MONTH} if deployed.alarms else {})
