"""The settings in which deployments of the service may differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aws_cdk import RemovalPolicy, Token
from aws_cdk.aws_logs import RetentionDays

from tidewheel.errors import InvalidValue
from tidewheel.model.topic import check_name
from tidewheel.model.triggers import SWEEP_INTERVAL_S

MAX_DEDICATED_TOPICS = 6
"""The most topics with their own queues: a function's variables, and the SSM parameter, hold at most 4 KB.

A topic's two queues take up to 350 bytes, with the longest topic name and the longest names from CloudFormation.
"""

MAX_SOURCE_CONCURRENCY = 1000
"""Lambda's limit of an event source's `MaximumConcurrency`."""

MAX_SWEEP_INTERVAL_S = 300
"""Alarms read sweeps' metrics in periods of five minutes, and sweeps emit the backlog in an hour's first five."""

MIN_QUEUE_AGE_ALARM_S = 960
"""The highest normal age of a bulk pack.

A bulk pack waits for 300 s by design. If its call then fails once, the pack is visible again after 660 s from its
receipt and waits for 300 s more.
"""

MIN_WARM_READ_UNITS, MIN_WARM_WRITE_UNITS = 12_000, 4_000
"""The units that every new on-demand table takes at once. DynamoDB refuses lower values."""

GLUE_VERSIONS = re.compile(r"6\.\d+\Z")
"""Versions with Spark 4.1 and Python 3.13, as the jobs and wheels need. Glue keeps both within a major version.
https://docs.aws.amazon.com/glue/latest/dg/release-notes.html"""

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

MAX_SKEW_MS = 60_000
"""The limit on `max_skew_ms`, which delays every message. If clocks differ by more, repair the clocks."""

MAX_SEND_THREADS = 64
"""A function with the most memory has six CPUs. More threads would only wait for a CPU."""

_RANGES: Mapping[str, tuple[int, int | None]] = {
    # Lambda's limits.
    **dict.fromkeys(
        (f"{name}_memory_mib" for name in ("ingest", "dispatch", "deliver", "sweep", "compact")), (128, 10_240)
    ),
    # Glue's minimum: a driver and a worker. The maximum is a quota of the account.
    **dict.fromkeys(("merge_workers", "rebuild_workers", "import_workers"), (2, None)),
    "max_skew_ms": (0, MAX_SKEW_MS),
    "send_threads": (1, MAX_SEND_THREADS),
    **dict.fromkeys(("urgent_concurrency", "bulk_concurrency", "work_concurrency"), (2, MAX_SOURCE_CONCURRENCY)),
    "deleted_object_days": (1, None),
    "warm_read_units": (MIN_WARM_READ_UNITS, None),
    "warm_write_units": (MIN_WARM_WRITE_UNITS, None),
    "oldest_due_alarm_s": (60, None),
    "queue_age_alarm_s": (MIN_QUEUE_AGE_ALARM_S, None),
}
"""Field -> its minimum and maximum, as whole numbers."""
_OPTIONAL = ("deleted_object_days", "warm_read_units", "warm_write_units")
"""Fields of _RANGES that can also be None."""
_SWITCHES = ("spark", "own_key", "alarms", "dashboard", "metrics", "tracing")
_CHOICES: Mapping[str, type] = {"removal_policy": RemovalPolicy, "log_retention": RetentionDays}
_LISTS = ("subscriber_queue_arns", "dedicated_topics")
RUNBOOK = "tidewheel docs runbook"
"""The command that prints the runbook, which comes with the package."""

_TEXTS = ("name", "runbook_url", "glue_version")
_TEXTS_OR_NONE = ("encryption_key_arn", "access_log_bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The settings of a deployment of the service.

    Attributes:
        name: The environment's name, for the context key `environment`.
        removal_policy: Whether the table and the S3 bucket are kept when the stack is deleted.
        log_retention: How long the logs of the functions are kept.
        ingest_memory_mib: Memory of the ingest function. CPU grows with it.
        dispatch_memory_mib: Memory of the dispatch function.
        deliver_memory_mib: Memory of the deliver function.
        sweep_memory_mib: Memory of the sweep function.
        compact_memory_mib: Memory of the compact function, which holds the current part of a merge in memory.
        spark: Whether the stack has the Glue jobs for large merges, rebuilding and importing. Without the jobs, the
            compact function does all merges, in smaller steps, and people rebuild and import on their own machine.
        glue_version: The version of Glue that the jobs run on: 6.0, or a later 6.x.
        merge_workers: Workers (G.1X: 4 vCPUs, 16 GB) of a run of the merge job, including the driver.
        rebuild_workers: The same for the rebuild job.
        import_workers: The same for the import job.
        max_skew_ms: The most by which two clocks may differ; added to every delay, so that no message is early.
        send_threads: Parallel SQS requests of a function call.
        sweep_interval_s: Time between two sweeps, whole minutes up to 300 s: how long a lost schedule can go
            unnoticed. A sweep that takes longer than the interval overlaps the next sweep, which does no harm.
        subscriber_queue_arns: Subscriptions' queues with names other than `<stack>-...`, to which the functions may
            send too. Queues of this account need this only if their own policy does not allow the functions.
        dedicated_topics: Topics with their own urgent and bulk queue, so that permission to send to these queues is
            permission for this topic alone. At most MAX_DEDICATED_TOPICS.
        encryption_key_arn: A KMS key of this Region that encrypts all data that the service stores; default: AWS's own
            keys, at no cost. `tidewheel.cdk.encryption` says what the key's policy must allow.
        own_key: Whether the service creates its own KMS key: $1 a month, and the cost of requests.
        deleted_object_days: Days for which S3 keeps deleted objects, at S3's price; None: objects are not kept.
        warm_read_units: Read units a second that the table takes at once, without growing first; at least
            MIN_WARM_READ_UNITS. None: DynamoDB's default. Each raise is paid once; DynamoDB refuses to lower the value.
        warm_write_units: The same for write units, of the table and of its index; at least MIN_WARM_WRITE_UNITS.
        access_log_bucket: An S3 bucket of this account that gets the access logs of the service's S3 bucket.
        urgent_concurrency: Ingest calls at one time for an urgent queue, so that a burst leaves the account's
            concurrency to others.
        bulk_concurrency: The same for a bulk queue.
        work_concurrency: Deliver calls at one time.
        reserved_concurrency: Function, such as "dispatch" -> calls that the account reserves for this function, which
            is also its limit. Default: none. Lambda must leave 100 calls to the account's other functions, and a new
            account may have only 10 calls in total.
        alarms: Whether the stack has alarms, $2.50 a month. Failed job runs are reported even without alarms.
        dashboard: Whether the stack has a dashboard: $3 a month, except for the first three of an account.
        metrics: Whether the functions emit the service's own metrics: $0.30 a month for each metric with data. Without
            these metrics, five of the alarms are left out, and much of the dashboard is empty.
        tracing: Whether each function's calls are traced, with Lambda's sampling; otherwise only calls from a traced
            caller. $5 for a million traces, the first 100,000 of a month free.
        log_level: The lowest level that the functions log: DEBUG, INFO, WARNING or ERROR.
        oldest_due_alarm_s: Age from which a due message that is not delivered raises an alarm.
        queue_age_alarm_s: The same for a message in a queue that a function reads. A bulk pack waits for 300 s by
            design, and is up to 960 s old if one call failed; its messages may be due 1,800 s after sending.
        runbook_url: The runbook's URL in alarms and dashboard; `#` and the title of a page are added. By default they
            name the command that prints the page: `tidewheel docs runbook#...`.
    """

    name: str
    removal_policy: RemovalPolicy
    log_retention: RetentionDays = RetentionDays.ONE_MONTH
    ingest_memory_mib: int = 1024
    dispatch_memory_mib: int = 1024
    deliver_memory_mib: int = 1024
    sweep_memory_mib: int = 512
    compact_memory_mib: int = 3008
    spark: bool = True
    glue_version: str = "6.0"
    merge_workers: int = 2
    rebuild_workers: int = 10
    import_workers: int = 10
    max_skew_ms: int = 100
    send_threads: int = 8
    sweep_interval_s: int = SWEEP_INTERVAL_S
    subscriber_queue_arns: tuple[str, ...] = ()
    dedicated_topics: tuple[str, ...] = ()
    encryption_key_arn: str | None = None
    own_key: bool = False
    deleted_object_days: int | None = None
    warm_read_units: int | None = None
    warm_write_units: int | None = None
    access_log_bucket: str | None = None
    urgent_concurrency: int = 100
    bulk_concurrency: int = 20
    work_concurrency: int = 100
    reserved_concurrency: Mapping[str, int] = field(default_factory=dict, hash=False)
    alarms: bool = False
    dashboard: bool = False
    metrics: bool = True
    tracing: bool = True
    log_level: str = "INFO"
    oldest_due_alarm_s: int = 300
    queue_age_alarm_s: int = 1020
    runbook_url: str = RUNBOOK

    def __post_init__(self) -> None:
        self._check_types()
        self._check_ranges()
        for topic in self.dedicated_topics:
            check_name("dedicated_topics", topic)
        topics = len(set(self.dedicated_topics))
        if topics != len(self.dedicated_topics) or topics > MAX_DEDICATED_TOPICS:
            advice = f"name at most {MAX_DEDICATED_TOPICS} topics, each once; a second stack has room for more"
            raise InvalidValue("dedicated_topics", self.dedicated_topics, advice)
        if self.own_key and self.encryption_key_arn is not None:
            advice = "own_key makes a key: leave one of the two out"
            raise InvalidValue("encryption_key_arn", self.encryption_key_arn, advice)
        for arn in self.subscriber_queue_arns:
            if not Token.is_unresolved(arn) and not arn.startswith("arn:"):
                raise InvalidValue("subscriber_queue_arns", arn, "give ARNs of queues: arn:aws:sqs:...")
        interval_s = self.sweep_interval_s
        if not _is_whole(interval_s) or interval_s % 60 or not 60 <= interval_s <= MAX_SWEEP_INTERVAL_S:
            advice = f"give whole minutes, 60 to {MAX_SWEEP_INTERVAL_S}: alarms look at periods of five minutes"
            raise InvalidValue("sweep_interval_s", interval_s, advice)
        if not GLUE_VERSIONS.match(self.glue_version):
            advice = (
                "give 6.0 or a later 6.x: the jobs need its Spark 4.1 and its Python 3.13; or have none, spark=False"
            )
            raise InvalidValue("glue_version", self.glue_version, advice)
        self._check_concurrency()
        self._check_telemetry()

    def _check_types(self) -> None:
        for name in (*_TEXTS, *_TEXTS_OR_NONE):
            value = getattr(self, name)
            if not (isinstance(value, str) and value) and not (value is None and name in _TEXTS_OR_NONE):
                raise InvalidValue(name, value, f"give a text{', or None' if name in _TEXTS_OR_NONE else ''}")
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise InvalidValue(name, getattr(self, name), "give True or False")
        for name, choice in _CHOICES.items():
            if not isinstance(getattr(self, name), choice):
                raise InvalidValue(name, getattr(self, name), f"give one of {choice.__name__}")
        for name in _LISTS:
            value = getattr(self, name)
            # A str is a sequence of str too.
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                raise InvalidValue(name, value, "give a tuple of texts; of one: ('...',)")
        if not isinstance(self.reserved_concurrency, Mapping):
            raise InvalidValue("reserved_concurrency", self.reserved_concurrency, 'give a mapping: {"dispatch": 50}')

    def _check_ranges(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if not _is_whole(value) or value < least or (most is not None and value > most):
                up_to = f"from {least} to {most}" if most is not None else f"of at least {least}"
                raise InvalidValue(name, value, f"give a whole number {up_to}")

    def _check_telemetry(self) -> None:
        if self.log_level not in LOG_LEVELS:
            raise InvalidValue("log_level", self.log_level, f"choose one of {', '.join(LOG_LEVELS)}")

    def _check_concurrency(self) -> None:
        pairs = 1 + len(self.dedicated_topics)
        least = {
            "ingest": pairs * (self.urgent_concurrency + self.bulk_concurrency),
            "deliver": self.work_concurrency,
            "dispatch": 1,
            "sweep": 1,
            "compact": 1,
        }
        for function, reserved in self.reserved_concurrency.items():
            if function not in least:
                raise InvalidValue("reserved_concurrency", function, f"name some of {', '.join(least)}")
            if not _is_whole(reserved) or reserved < least[function]:
                advice = f"{function} needs at least {least[function]}: as many as its queues may call at one time"
                raise InvalidValue("reserved_concurrency", reserved, advice)

    @property
    def protected(self) -> bool:
        """Whether the table and the S3 bucket outlive the stack and refuse deletion."""
        return self.removal_policy is not RemovalPolicy.DESTROY

    @property
    def log_removal_policy(self) -> RemovalPolicy:
        """The removal policy of log groups.

        Log groups have explicit names, so a log group left by a failed deployment would make the next deployment fail.
        """
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.protected else self.removal_policy

    @classmethod
    def development(cls, **changes: Any) -> Environment:
        """Returns the development environment, with these fields changed.

        Its data is deleted with the stack, and an idle stack costs almost nothing.
        """
        return replace(cls(name="development", removal_policy=RemovalPolicy.DESTROY), **changes)

    @classmethod
    def production(cls, **changes: Any) -> Environment:
        """Returns the production environment, with these fields changed.

        Its data is kept when the stack is deleted.
        """
        kept = cls(name="production", removal_policy=RemovalPolicy.RETAIN, deleted_object_days=7)
        return replace(replace(kept, alarms=True, dashboard=True), **changes)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
