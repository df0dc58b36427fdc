"""Bundles everything used by the flows, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.clock import Clock
from tidewheel.flows.ports import Parallel, Ports, in_order
from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_client import MemorySqsClient
from tidewheel.memory.wheel import MemoryRuns, MemoryWheel
from tidewheel.model.settings import FunctionSettings
from tidewheel.storage.table import Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

_MAX_SKEW_MS = FunctionSettings().max_skew_ms
_LONGEST_KEPT = {"MessageRetentionPeriod": str(14 * 86_400)}
TABLE = "memory"
"""The table's name."""


class MemoryService(Ports):
    """The stored state and the ports of the flows, over clients in memory. With a ManualClock, every run is the same.

    Attributes:
        dynamodb: the table's client.
    """

    dynamodb: MemoryDynamoDBClient
    objects: MemoryObjects
    queues: SqsQueues
    wheel: MemoryWheel
    runs: MemoryRuns

    @classmethod
    def at(
        cls,
        clock: Clock,
        sqs: MemorySqs | None = None,
        *,
        stack: str | None = None,
        max_skew_ms: int = _MAX_SKEW_MS,
        parallel: Parallel = in_order,
        dynamodb: MemoryDynamoDBClient | None = None,
    ) -> MemoryService:
        """Returns an empty service whose queues and objects use the same clock.

        Args:
            clock: the service's time.
            sqs: the queues to which the service sends; None: a queue is created for any URL.
            stack: prefix of the names of the work queue and the queue of refused messages.
            max_skew_ms: maximum difference between SQS's clock and the local clock.
            parallel: runs calls side by side.
            dynamodb: the table's client; None: a new one.
        """
        dynamodb = dynamodb or MemoryDynamoDBClient(TABLE)
        service = cls(
            Table(cast("DynamoDBClient", dynamodb), TABLE, sleep=lambda _: None),
            MemoryObjects(clock.now_ms),
            queues=memory_queues(
                MemorySqs(clock, on_demand=True) if sqs is None else sqs, "" if stack is None else f"{stack}_"
            ),
            wheel=MemoryWheel(),
            runs=MemoryRuns(),
            parallel=parallel,
            clock=clock,
            max_skew_ms=max_skew_ms,
        )
        service.dynamodb = dynamodb
        return service


def memory_queues(sqs: MemorySqs, prefix: str = "") -> SqsQueues:
    """Returns the deployed port over queues in memory. Creates the work queue and the queue of refused messages.

    Args:
        sqs: the account's queues.
        prefix: prefix of the names `work` and `refused`.
    """
    work, refused = (sqs.create_queue(f"{prefix}{name}", _LONGEST_KEPT).url for name in ("work", "refused"))
    client = cast("SQSClient", MemorySqsClient(sqs))
    return SqsQueues(
        client,
        work_queue_url=work,
        refused_queue_url=refused,
        ingest_queues=lambda _: (f"{prefix}urgent", f"{prefix}bulk"),
        sleep=lambda _: None,
    )
