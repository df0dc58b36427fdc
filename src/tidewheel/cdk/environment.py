"""In what one deployment of the service may differ from another, as data."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import RemovalPolicy
from aws_cdk.aws_logs import RetentionDays

from tidewheel.errors import InvalidValue
from tidewheel.topic import check_name

MAX_DEDICATED_TOPICS = 7
"""Each function's variables, and the SSM parameter with the same settings, hold 4 KB.

Two queues with the longest names that CloudFormation makes, of a topic with the longest name, take 350 bytes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Everything in which one deployment of the service may differ from another.

    Attributes:
        name: The name by which the context key `environment` chooses it.
        removal_policy: What happens to the table and the S3 bucket when the stack is deleted.
        log_retention: How long the logs of the functions are kept.
        ingest_memory_mib: Memory of the ingest function. CPU grows with it.
        dispatch_memory_mib: Memory of the dispatch function.
        deliver_memory_mib: Memory of the deliver function.
        sweep_memory_mib: Memory of the sweep function.
        compact_memory_mib: Memory of the compact function, which holds a whole small merge.
        merge_workers: Workers (G.1X: 4 vCPUs, 16 GB) of one run of the merge job, its driver among them.
        rebuild_workers: The same of the rebuild job.
        import_workers: The same of the import job.
        max_skew_ms: By how much two clocks may differ; added to every delay, so that nothing is early.
        send_threads: Parallel SQS requests of one function call.
        sweep_interval_s: Time between two sweeps: how long a lost schedule can go unnoticed.
        subscriber_queue_arns: Queues of subscriptions that are not named `<stack>-...`, to which the
            functions may send as well. Queues of this account need it only if their own policy does not allow it.
        dedicated_topics: Topics with an urgent and a bulk queue of their own, so that permission to send to these
            is permission for this topic alone. At most MAX_DEDICATED_TOPICS.
    """

    name: str
    removal_policy: RemovalPolicy
    log_retention: RetentionDays = RetentionDays.ONE_MONTH
    ingest_memory_mib: int = 1024
    dispatch_memory_mib: int = 1024
    deliver_memory_mib: int = 1024
    sweep_memory_mib: int = 512
    compact_memory_mib: int = 3008
    merge_workers: int = 2
    rebuild_workers: int = 10
    import_workers: int = 10
    max_skew_ms: int = 100
    send_threads: int = 8
    sweep_interval_s: int = 300
    subscriber_queue_arns: tuple[str, ...] = ()
    dedicated_topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for topic in self.dedicated_topics:
            check_name("dedicated_topics", topic)
        topics = len(set(self.dedicated_topics))
        if topics != len(self.dedicated_topics) or topics > MAX_DEDICATED_TOPICS:
            advice = f"name at most {MAX_DEDICATED_TOPICS} topics, each once; a second stack has room for more"
            raise InvalidValue("dedicated_topics", self.dedicated_topics, advice)
