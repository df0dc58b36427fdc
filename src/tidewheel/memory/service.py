"""Bundles all ports in memory for the flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.clock import Clock
from tidewheel.flows.ports.parallel import in_order
from tidewheel.memory.buckets import MemoryBuckets
from tidewheel.memory.checks import MemoryChecks
from tidewheel.memory.deletions import MemoryDeletions
from tidewheel.memory.deliveries import MemoryDeliveries
from tidewheel.memory.keys import MemoryKeys
from tidewheel.memory.merges import MemoryMerges
from tidewheel.memory.notes import MemoryNotes
from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.parks import MemoryParks
from tidewheel.memory.plans import MemoryPlans
from tidewheel.memory.recurring import MemoryRecurring
from tidewheel.memory.runs import MemoryRuns
from tidewheel.memory.set_aside import MemorySetAsideItems
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_client import MemorySqsClient
from tidewheel.memory.store import MemoryStore
from tidewheel.memory.subscriptions import MemorySubscriptions
from tidewheel.memory.tombstones import MemoryTombstones
from tidewheel.memory.topic_states import MemoryTopicStates
from tidewheel.memory.unreadable import MemoryUnreadableItems
from tidewheel.memory.wheel import MemoryWheel
from tidewheel.model.settings import FunctionSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_MAX_SKEW_MS = FunctionSettings().max_skew_ms
_LONGEST_KEPT = {"MessageRetentionPeriod": str(14 * 86_400)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryService:
    """Implements the port `Ports` in memory. With a ManualClock, every run is the same.

    Attributes:
        store: the items that the ports of stored state share.
    """

    clock: Clock
    store: MemoryStore
    topic_states: MemoryTopicStates
    buckets: MemoryBuckets
    merges: MemoryMerges
    plans: MemoryPlans
    subscriptions: MemorySubscriptions
    deliveries: MemoryDeliveries
    parks: MemoryParks
    set_aside: MemorySetAsideItems
    unreadable: MemoryUnreadableItems
    tombstones: MemoryTombstones
    keys: MemoryKeys
    notes: MemoryNotes
    recurring: MemoryRecurring
    checks: MemoryChecks
    deletions: MemoryDeletions
    objects: MemoryObjects
    queues: SqsQueues
    wheel: MemoryWheel = field(default_factory=MemoryWheel)
    runs: MemoryRuns = field(default_factory=MemoryRuns)
    parallel: Callable[[Callable[[int], None], Iterable[int]], Iterable[None]] = in_order
    max_skew_ms: int = _MAX_SKEW_MS

    @classmethod
    def at(
        cls, clock: Clock, sqs: MemorySqs | None = None, *, stack: str | None = None, max_skew_ms: int = _MAX_SKEW_MS
    ) -> MemoryService:
        """Returns an empty service whose queues and objects use the same clock.

        Args:
            clock: the service's time.
            sqs: the queues to which the service sends; None: a queue is created for any URL.
            stack: prefix of the names of the work queue and the queue of refused messages.
            max_skew_ms: maximum difference between SQS's clock and the local clock.
        """
        store = MemoryStore()
        return cls(
            clock=clock,
            store=store,
            topic_states=MemoryTopicStates(store),
            buckets=MemoryBuckets(store),
            merges=MemoryMerges(store),
            plans=MemoryPlans(store),
            subscriptions=MemorySubscriptions(store),
            deliveries=MemoryDeliveries(store),
            parks=MemoryParks(store),
            set_aside=MemorySetAsideItems(store),
            unreadable=MemoryUnreadableItems(),
            tombstones=MemoryTombstones(store),
            keys=MemoryKeys(store),
            notes=MemoryNotes(store),
            recurring=MemoryRecurring(store),
            checks=MemoryChecks(store),
            deletions=MemoryDeletions(store),
            objects=MemoryObjects(clock.now_ms),
            queues=memory_queues(
                MemorySqs(clock, on_demand=True) if sqs is None else sqs, "" if stack is None else f"{stack}_"
            ),
            max_skew_ms=max_skew_ms,
        )


def memory_queues(sqs: MemorySqs, prefix: str = "") -> SqsQueues:
    """Returns the deployed port over queues in memory. Creates the work queue and the queue of refused messages.

    Args:
        sqs: the account's queues.
        prefix: prefix of the names `work` and `refused`.
    """
    work, refused = (sqs.create_queue(f"{prefix}{name}", _LONGEST_KEPT).url for name in ("work", "refused"))
    client = cast("SQSClient", MemorySqsClient(sqs))
    return SqsQueues(client, work_queue_url=work, refused_queue_url=refused, sleep=lambda _: None)
