"""What waits in a topic, told from its metadata alone: no ledger is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidewheel.bucket import Bucket
from tidewheel.fence import Fence
from tidewheel.flows.ports import Topics
from tidewheel.index import due_segments, next_slot
from tidewheel.subscription import State, Subscription

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Messages in an SQS queue, by SQS's approximate counts."""

    visible: int
    delayed: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStats:
    """How far a subscription has come.

    Attributes:
        lag_slots: planned slots that it has not been handed yet; 0 unless paused or behind.
        open_parts: parts of deliveries that are handed out and not finished.
        queue: its queue's depth; None if the queue is gone or cannot be looked at.
    """

    name: str
    state: State
    queue_url: str
    lag_slots: int
    open_parts: int
    queue: QueueDepth | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """What waits in a topic.

    Attributes:
        waiting: messages in ledgers that are not planned yet, estimated in buckets that are partly planned.
            Those in an ingest queue, and those less than the lookahead from due, are not among them.
        buckets: live ledgers.
        ledger_bytes: their bytes, including rows that are delivered already.
        oldest_slot_at: start of the first slot that any live ledger holds; earlier than next_due_at until it
            is collected.
        next_due_at: start of the first slot with messages that wait; None when nothing waits.
        last_due_at: start of the last one.
        subscriptions: by name.
    """

    topic: str
    waiting: int
    buckets: int
    ledger_bytes: int
    oldest_slot_at: datetime | None
    next_due_at: datetime | None
    last_due_at: datetime | None
    subscriptions: tuple[SubscriptionStats, ...]


def topic_stats(topics: Topics, sqs: SQSClient, fence: Fence) -> TopicStats:
    """Returns what waits in a topic, given its fence."""
    buckets = topics.buckets(fence.topic)
    oldest = min((bucket.first_slot for bucket in buckets), default=None)
    last = max((bucket.last_slot for bucket in buckets), default=None)
    open_parts = Counter[tuple[str, str]]()
    for delivery in topics.open_deliveries(fence.topic):
        key = delivery.key
        open_parts[key.subscription, key.generation] += max(0, delivery.parts - len(delivery.done))
    return TopicStats(
        topic=fence.topic,
        waiting=_waiting(buckets, fence),
        buckets=len(buckets),
        ledger_bytes=sum(bucket.size_bytes for bucket in buckets),
        oldest_slot_at=_slot_at(oldest, fence.slot_ms),
        next_due_at=_slot_at(next_slot(buckets, fence.planned), fence.slot_ms),
        last_due_at=_slot_at(last if last is None or last >= fence.planned else None, fence.slot_ms),
        subscriptions=tuple(
            SubscriptionStats(
                name=each.name,
                state=each.state,
                queue_url=each.queue_url,
                lag_slots=max(0, fence.planned - each.cursor),
                open_parts=open_parts[each.name, each.generation],
                queue=_depth(sqs, each),
            )
            for each in topics.subscriptions(fence.topic)
        ),
    )


def _waiting(buckets: Iterable[Bucket], fence: Fence) -> int:
    waiting = 0
    for bucket in buckets:
        if bucket.first_slot >= fence.planned:
            waiting += bucket.rows
        elif bucket.last_slot >= fence.planned:
            due = due_segments([bucket], fence.planned, bucket.last_slot + 1, fence.slot_ms)
            waiting += min(bucket.rows, sum(planned.due_rows for planned in due))
    return waiting


def _slot_at(slot: int | None, slot_ms: int) -> datetime | None:
    return None if slot is None else datetime.fromtimestamp(slot * slot_ms / 1000, UTC)


def _depth(sqs: SQSClient, subscription: Subscription) -> QueueDepth | None:
    try:
        found = sqs.get_queue_attributes(
            QueueUrl=subscription.queue_url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesDelayed",
                "ApproximateNumberOfMessagesNotVisible",
            ],
        )["Attributes"]
    except ClientError:
        return None
    return QueueDepth(
        visible=int(found["ApproximateNumberOfMessages"]),
        delayed=int(found["ApproximateNumberOfMessagesDelayed"]),
        in_flight=int(found["ApproximateNumberOfMessagesNotVisible"]),
    )
