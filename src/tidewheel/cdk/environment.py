"""The settings in which deployments of the service may differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from aws_cdk import RemovalPolicy, Token
from aws_cdk.aws_logs import RetentionDays

from tidewheel.errors import InvalidValue
from tidewheel.model.setting import Setting, check_settings
from tidewheel.model.settings import ROLE_ARN, FunctionSettings
from tidewheel.model.topic import check_name
from tidewheel.model.triggers import SWEEP_INTERVAL_S
from tidewheel.model.untrusted import is_whole

MAX_DEDICATED_TOPICS = 6
"""The most topics with their own queues: a function's variables, and the SSM parameter, hold at most 4 KB.

A topic's two queues take up to 350 bytes, with the longest topic name and the longest names from CloudFormation.
"""

MAX_SOURCE_CONCURRENCY = 1000
"""Lambda's limit of an event source's `MaximumConcurrency`."""

LAMBDA_SOURCE_CONCURRENCY = 1250
"""Lambda's limit of an event source without `MaximumConcurrency`. Such a source goes down to two pollers of a quiet
queue, others to five. https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""

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

_DEFAULT = "DynamoDB's default"
_UNLIMITED = "Lambda's 1,250, and fewer polls of a quiet queue"


def _memory(function: str) -> Setting:
    """Declares a function's memory, with Lambda's limits. CPU grows with the memory."""
    return Setting(f"Memory of the {function} function.", unit="MiB", least=128, most=10_240)


def _workers(job: str) -> Setting:
    """Declares the workers of a job. Glue needs a driver and a worker, and the account has a quota."""
    return Setting(f"Most G.1X workers of the {job} job, including the driver.", least=2)


def _concurrency(calls: str) -> Setting:
    return Setting(f"Most concurrent {calls}.", least=2, most=MAX_SOURCE_CONCURRENCY, none=_UNLIMITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(FunctionSettings):
    """The settings of a deployment of the service."""

    name: Annotated[str, Setting("The environment's name, for the context key `environment`.")]
    removal_policy: Annotated[
        RemovalPolicy, Setting("Whether the table and the S3 bucket are kept when the stack is deleted.")
    ]
    log_retention: Annotated[RetentionDays, Setting("How long the logs of the functions are kept.")] = (
        RetentionDays.ONE_MONTH
    )
    ingest_memory_mib: Annotated[int, _memory("ingest")] = 1024
    dispatch_memory_mib: Annotated[int, _memory("dispatch")] = 1024
    deliver_memory_mib: Annotated[int, _memory("deliver")] = 1024
    sweep_memory_mib: Annotated[int, _memory("sweep")] = 512
    compact_memory_mib: Annotated[int, _memory("compact")] = 3008
    spark: Annotated[
        bool,
        Setting(
            "Whether the stack has the Glue jobs. Without the jobs, the compact function does all merges, in smaller "
            "steps, and people rebuild and import on their own machine."
        ),
    ] = True
    glue_version: Annotated[str, Setting("The version of Glue that the jobs run on, 6.0 or a later 6.x.")] = "6.0"
    merge_workers: Annotated[int, _workers("merge")] = 10
    rebuild_workers: Annotated[int, _workers("rebuild")] = 10
    import_workers: Annotated[int, _workers("import")] = 10
    import_role_arns: Annotated[
        tuple[str, ...], Setting("Roles that the import job may assume to read its input from other S3 buckets.")
    ] = ()
    sweep_interval_s: Annotated[
        int, Setting("Time between two sweeps, in whole minutes.", unit="s", least=60, most=MAX_SWEEP_INTERVAL_S)
    ] = SWEEP_INTERVAL_S
    subscriber_queue_arns: Annotated[
        tuple[str, ...],
        Setting(
            "Subscriptions' queues of other accounts, or whose own policy does not allow the functions, and that have "
            "other names than `<stack>-...`."
        ),
    ] = ()
    dedicated_topics: Annotated[
        tuple[str, ...],
        Setting(
            f"At most {MAX_DEDICATED_TOPICS} topics with their own urgent and bulk queue, so that permission to send "
            "is permission for one topic alone."
        ),
    ] = ()
    encryption_key_arn: Annotated[
        str | None,
        Setting(
            "A KMS key of this Region that encrypts all stored data. `tidewheel.cdk.encryption` has the key's policy.",
            none="AWS's own keys, at no cost",
        ),
    ] = None
    own_key: Annotated[
        bool, Setting("Whether the service creates its own KMS key. The key costs $1 a month, and each request.")
    ] = False
    deleted_object_days: Annotated[
        int | None, Setting("Time for which S3 keeps deleted objects, at S3's price.", unit="days", none="not at all")
    ] = None
    warm_read_units: Annotated[
        int | None,
        Setting(
            "Read units a second that the table takes at once, without growing first. Each raise is paid once. "
            "DynamoDB refuses to lower the value.",
            least=MIN_WARM_READ_UNITS,
            none=_DEFAULT,
        ),
    ] = None
    warm_write_units: Annotated[
        int | None,
        Setting("The same for write units, of the table and of its index.", least=MIN_WARM_WRITE_UNITS, none=_DEFAULT),
    ] = None
    access_log_bucket: Annotated[
        str | None,
        Setting(
            "An S3 bucket of this account that gets the access logs of the service's S3 bucket.", none="no access logs"
        ),
    ] = None
    urgent_concurrency: Annotated[int | None, _concurrency("ingest calls for an urgent queue")] = None
    bulk_concurrency: Annotated[int | None, _concurrency("ingest calls for a bulk queue")] = None
    work_concurrency: Annotated[int | None, _concurrency("deliver calls")] = None
    reserved_concurrency: Annotated[
        Mapping[str, int],
        Setting(
            'Calls that the account reserves for a function, such as `{"dispatch": 50}`, which is also its limit. '
            "Lambda must leave 100 calls to other functions."
        ),
    ] = field(default_factory=dict, hash=False)
    alarms: Annotated[bool, Setting("Whether the stack has alarms. Failed job runs are reported even without.")] = False
    dashboard: Annotated[bool, Setting("Whether the stack has a dashboard, at $3 a month.")] = False
    metrics: Annotated[
        bool,
        Setting(
            "Whether the functions log records of their work, with metrics. Without these, three alarms are left out, "
            "two see less, and much of the dashboard is empty."
        ),
    ] = True
    tracing: Annotated[bool, Setting("Whether X-Ray samples each function's calls, at a cost.")] = False
    log_level: Annotated[
        str, Setting("The lowest level that the functions log.", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    ] = "INFO"
    oldest_due_alarm_s: Annotated[
        int, Setting("Age from which a due message that is not delivered raises an alarm.", unit="s", least=60)
    ] = 300
    queue_age_alarm_s: Annotated[
        int,
        Setting(
            "Age from which a message in a queue that a function reads raises an alarm.",
            unit="s",
            least=MIN_QUEUE_AGE_ALARM_S,
        ),
    ] = 1020

    def __post_init__(self) -> None:
        check_settings(self)
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
        for arn in self.import_role_arns:
            if not Token.is_unresolved(arn) and not ROLE_ARN.match(arn):
                raise InvalidValue("import_role_arns", arn, "give ARNs of roles: arn:aws:iam::123456789012:role/reader")
        if self.sweep_interval_s % 60:
            raise InvalidValue("sweep_interval_s", self.sweep_interval_s, "give whole minutes, such as 60 or 120")
        if not GLUE_VERSIONS.match(self.glue_version):
            advice = "give 6.0 or a later 6.x: the jobs need its Spark 4.1 and Python 3.13; or have none, spark=False"
            raise InvalidValue("glue_version", self.glue_version, advice)
        self._check_concurrency()

    def _check_concurrency(self) -> None:
        pairs = 1 + len(self.dedicated_topics)
        urgent, bulk, work = (
            each or LAMBDA_SOURCE_CONCURRENCY
            for each in (self.urgent_concurrency, self.bulk_concurrency, self.work_concurrency)
        )
        least = {"ingest": pairs * (urgent + bulk), "deliver": work, "dispatch": 1, "sweep": 1, "compact": 1}
        for function, reserved in self.reserved_concurrency.items():
            if function not in least:
                raise InvalidValue("reserved_concurrency", function, f"name some of {', '.join(least)}")
            if not is_whole(reserved) or reserved < least[function]:
                advice = f"{function} needs at least {least[function]}: as many as its queues may call at one time"
                raise InvalidValue("reserved_concurrency", reserved, advice)

    @property
    def protected(self) -> bool:
        """Whether the table and the S3 bucket outlive the stack and refuse deletion."""
        return self.removal_policy is not RemovalPolicy.DESTROY

    @property
    def removal_policy_once_created(self) -> RemovalPolicy:
        """The removal policy of resources that a failed first deployment does not leave behind.

        A left resource would cost money, and a log group would make the next deployment fail, by its explicit name.
        CloudFormation could not delete the protected table. A declared topic may be older than the stack.
        """
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.protected else self.removal_policy

    @classmethod
    def development(cls, **changes: Any) -> Environment:
        """Returns the development environment, with these fields changed.

        Its data is deleted with the stack, and an idle stack costs almost nothing. Its queues have no limit of
        concurrent calls, because Lambda polls a queue with a limit more often.
        """
        return replace(cls(name="development", removal_policy=RemovalPolicy.DESTROY), **changes)

    @classmethod
    def production(cls, **changes: Any) -> Environment:
        """Returns the production environment, with these fields changed.

        Its data is kept when the stack is deleted. A first deployment that fails leaves only the protected table. Its
        queues have limits of concurrent calls. Reserved concurrency would not do: Lambda receives more messages than
        the function may take, and each such receive counts.
        """
        kept = cls(name="production", removal_policy=RemovalPolicy.RETAIN, deleted_object_days=7, alarms=True)
        limited = replace(kept, urgent_concurrency=100, bulk_concurrency=20, work_concurrency=100)
        return replace(limited, **changes)
