"""Bundles everything that the flows use, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from tidewheel.clock import Clock
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parallel import in_order
from tidewheel.memory.dynamodb import Index, MemoryDynamoDBClient, Schema
from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.queues import MemoryQueues
from tidewheel.memory.runs import MemoryRuns
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.wheel import MemoryWheel
from tidewheel.model.settings import FunctionSettings
from tidewheel.storage import layout
from tidewheel.storage.table import Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_MAX_SKEW_MS = FunctionSettings().max_skew_ms
TABLE = Schema(
    table="memory",
    partition_key=layout.PARTITION_KEY,
    sort_key=layout.SORT_KEY,
    index=Index(layout.CHECK_INDEX, layout.CHECK_PARTITION_KEY, layout.CHECK_SORT_KEY),
    ttl=layout.TTL_ATTRIBUTE,
)


class MemoryService(Ports):
    """The stored state and the ports of the flows, over clients in memory. With a ManualClock, every run is the same.

    Attributes:
        dynamodb: the table's client.
    """

    dynamodb: MemoryDynamoDBClient
    objects: MemoryObjects
    queues: MemoryQueues
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
        parallel: Callable[[Callable[[int], None], Iterable[int]], Iterable[None]] = in_order,
        lags: Callable[[], bool] = lambda: False,
    ) -> MemoryService:
        """Returns an empty service whose queues and objects use the same clock.

        Args:
            clock: the service's time.
            sqs: the queues to which the service sends; None: any URL is accepted, without consumers.
            stack: prefix of the names of the work queue and the queue of refused messages.
            max_skew_ms: maximum difference between SQS's clock and the local clock.
            parallel: runs calls side by side.
            lags: as for `MemoryDynamoDBClient`.
        """
        dynamodb = MemoryDynamoDBClient(TABLE, lags=lags)
        service = cls(
            Table(cast("DynamoDBClient", dynamodb), TABLE.table, sleep=lambda _: None),
            MemoryObjects(clock.now_ms),
            queues=MemoryQueues(clock, sqs, prefix="" if stack is None else f"{stack}_"),
            wheel=MemoryWheel(),
            runs=MemoryRuns(),
            parallel=parallel,
            clock=clock,
            max_skew_ms=max_skew_ms,
        )
        service.dynamodb = dynamodb
        return service
