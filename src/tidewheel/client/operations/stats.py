"""Counts a topic's waiting messages and lists its ledgers, from metadata alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidewheel.client.connection import Connection
from tidewheel.client.operations.dead_letters import attributes_of
from tidewheel.client.operations.histogram import (
    DAY_S,
    DAYS,
    HOUR_S,
    HOURS,
    DueBar,
    EstimatedHistogram,
    Load,
    due_bars,
    histogram,
    later,
    loads,
)
from tidewheel.client.operations.in_flight import LateMessages, undelivered
from tidewheel.client.operations.subscription_queues import dead_letter_queue
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue
from tidewheel.flows.delivery.load_index import complete_all
from tidewheel.ledger.bucket import Bucket, BucketId, next_slot, slot_of
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.model.untrusted import check_whole
from tidewheel.storage.objects import Objects
from tidewheel.storage.storage import Storage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


MOST_BUCKETS = 10_000
"""Ledgers that are counted one by one, those that begin first: 11 MB of the table. A merged topic has far fewer."""
DETAILED = 100
"""The nearest ledgers, of which each segment counts for itself, and whose tails are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Messages in an SQS queue, by SQS's approximate counts."""

    visible: int
    delayed: int
    in_flight: int

    @property
    def total(self) -> int:
        """All messages in the queue."""
        return self.visible + self.delayed + self.in_flight


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStats:
    """The progress and the queue depths of a subscription.

    Attributes:
        lag_slots: planned slots that are not handed out to it yet; 0 unless paused or behind.
        open_parts: parts of deliveries that are handed out and not finished.
        parked: messages parked because the subscription is paused or its queue does not accept them.
        queue: its queue's depth; None if the queue is gone or cannot be read.
        dead: messages in its queue's dead-letter queue; None if there is no such queue, or it cannot be read.
        late_since: about when the first message was due that its queue should have and has not; None if none is late.
        late: about how many such messages there are, in plans, parks and parts, before its filter.
        queue_error: why a depth cannot be read. None: it can.
        filter_policy: as of `set_filter`, as JSON. None: it gets all messages.
    """

    name: str
    state: State
    queue_url: str
    lag_slots: int
    open_parts: int
    parked: int
    queue: QueueDepth | None
    dead: int | None
    late_since: datetime | None
    late: int
    queue_error: str | None = None
    filter_policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMarks:
    """How far a topic's work has come, as due times. A mark moves when there is work behind it.

    Attributes:
        sealed_until: messages due before are in ledgers for the last time, or were sent direct.
        planned_until: messages due before are planned.
        handed_out_until: messages due before are handed out to all subscriptions. None without subscriptions.
        collected_until: ledgers of messages due before are deleted, or will be with the next collection.
    """

    sealed_until: datetime
    planned_until: datetime
    handed_out_until: datetime | None
    collected_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """The waiting messages of a topic.

    Numbers of messages in ledgers are estimates, and include cancelled and purged messages.

    Attributes:
        settings: the settings of the topic.
        waiting: messages in ledgers whose slots are open; exact while no ledger has a sealed slot. Messages in an
            ingest queue, and messages due within the lookahead, are not included.
        sealed: messages in ledgers whose slots are sealed and which some subscription's queue does not have yet.
        in_flight: messages in the subscriptions' queues: visible, delayed until they are due, and received.
        dead: messages in the queues' dead-letter queues.
        by_hour: waiting messages by due time, for each of the next 48 hours.
        by_day: likewise, for each of the next 60 days.
        by_due: waiting messages by time until due, eleven bars from a second to ten years. They add up to `waiting`.
        marks: how far the topic's work has come.
        buckets: live ledgers, up to MOST_BUCKETS.
        ledger_bytes: their bytes, including rows that are delivered already.
        oldest_slot_at: start of the first slot that any live ledger holds; earlier than next_due_at until it
            is collected.
        oldest_due_at: start of the first slot with messages that some subscription's queue does not have yet.
        next_due_at: start of the first slot with messages that are not planned yet, or with an occurrence of a
            recurring message; None when nothing waits.
        last_due_at: start of the last slot with such messages of these ledgers.
        partial: whether the topic has more ledgers than MOST_BUCKETS. Those that begin last are then counted in
            `waiting` and in `later` of both histograms only.
        subscriptions: by name.
        unreadable: items of the table, plans and ledgers' indexes that could not be read, and are not counted anywhere
            else. `tidewheel damaged list` names the items.
        damaged: deliveries and parks of which something cannot be read, and is still tried. `tidewheel damaged list`
            names them. Their messages are not counted anywhere else, unless parked.
    """

    topic: str
    settings: TopicSettings
    waiting: int
    sealed: int
    in_flight: int
    dead: int
    by_hour: EstimatedHistogram
    by_day: EstimatedHistogram
    by_due: tuple[DueBar, ...]
    marks: TopicMarks
    buckets: int
    ledger_bytes: int
    oldest_slot_at: datetime | None
    oldest_due_at: datetime | None
    next_due_at: datetime | None
    last_due_at: datetime | None
    subscriptions: tuple[SubscriptionStats, ...]
    unreadable: int
    damaged: int
    partial: bool = False


def topic_stats(storage: Storage, sqs: SQSClient, state: TopicState, now_ms: int) -> TopicStats:
    """Returns the stats of a topic, given its topic state.

    Requests: a query each of buckets (up to MOST_BUCKETS), subscriptions, open deliveries and parks;
    two of SQS for each subscription; a range GET for each ledger among the nearest DETAILED whose index is in its tail;
    and reads of plans that are being delivered or were not handed out, at most twice MAX_PLANS.
    """
    slot_ms = state.slot_ms
    unreadable: dict[str, Exception] = {}
    buckets, partial = _nearest(storage, state, unreadable)
    live, missing = _indexed(storage.objects, buckets, state)
    if missing:  # perhaps collected since their names were read
        buckets, partial = _nearest(storage, state, unreadable)
        live, missing = _indexed(storage.objects, buckets, state)
    unreadable |= missing
    subscriptions = storage.subscriptions.all(state.topic, unreadable)
    opened = storage.deliveries.all(state.topic, unreadable)
    left = undelivered(storage, state, buckets, subscriptions, opened, unreadable)
    unplanned = loads(live, state.planned, slot_ms, DETAILED)
    waiting = later(unplanned, state.sealed)
    by_hour = histogram(waiting, now_ms, slot_ms, bar_s=HOUR_S, bars=HOURS)
    by_day = histogram(waiting, now_ms, slot_ms, bar_s=DAY_S, bars=DAYS)
    if partial:
        by_hour, by_day = by_hour.with_total(state.waiting), by_day.with_total(state.waiting)
    next_due = next_slot(live, state.planned)
    coming = [] if next_due is None else [next_due]
    if state.recurring and state.next_slot is not None and state.next_slot >= state.planned:
        coming.append(state.next_slot)
    first_slots = [slot for slot in (left.first_slot, next_due) if slot is not None]
    errors: dict[str, str] = {}
    queues = {url: _depth(sqs, url, errors) for url in dict.fromkeys(each.queue_url for each in subscriptions)}
    dead = {url: _depth(sqs, url, errors)[0] for url in {url for _, url in queues.values()} if url is not None}
    parks = storage.parks.all(state.topic, unreadable)
    late = LateMessages(
        slot_ms=slot_ms,
        now_ms=now_ms,
        planned=state.planned,
        unplanned=(next_due, _rows(unplanned) - _rows(later(unplanned, now_ms // slot_ms + 1))),
        left=left,
        opened=opened,
        parks=parks,
    )
    shown = []
    for each in subscriptions:
        queue, dead_url = queues[each.queue_url]
        error = errors.get(each.queue_url) or errors.get(dead_url or "")
        shown.append(_subscription(each, late, queue, None if dead_url is None else dead[dead_url], error))
    return TopicStats(
        topic=state.topic,
        settings=state.settings,
        waiting=by_hour.total,
        sealed=round(left.rows + _rows(unplanned) - _rows(waiting)),
        in_flight=sum(depth.total for depth, _ in queues.values() if depth is not None),
        dead=sum(depth.total for depth in dead.values() if depth is not None),
        by_hour=by_hour,
        by_day=by_day,
        by_due=due_bars(waiting, now_ms, slot_ms, by_hour.total),
        marks=_marks(state, subscriptions),
        buckets=len(buckets),
        ledger_bytes=sum(bucket.size_bytes for bucket in buckets),
        oldest_slot_at=_slot_at(min((bucket.first_slot for bucket in buckets), default=None), slot_ms),
        oldest_due_at=_slot_at(min(first_slots, default=None), slot_ms),
        next_due_at=_slot_at(min(coming, default=None), slot_ms),
        last_due_at=_slot_at(max((bucket.last_slot for bucket in live), default=None), slot_ms),
        subscriptions=tuple(shown),
        unreadable=len(unreadable),
        damaged=sum(bool(each.unread) for each in opened) + sum(each.unreadable is not None for each in parks),
        partial=partial,
    )


def _indexed(
    objects: Objects, buckets: Sequence[Bucket], state: TopicState
) -> tuple[list[Bucket], dict[str, Exception]]:
    """Returns the buckets of ledgers with unplanned messages, the nearest complete, and the errors of these."""
    unreadable: dict[str, Exception] = {}
    unplanned = [each for each in buckets if each.last_slot >= state.planned]
    found = [*complete_all(objects, unplanned[:DETAILED], unreadable), *unplanned[DETAILED:]]
    return [each for each in found if each.last_slot >= state.planned], unreadable


def _nearest(storage: Storage, state: TopicState, unreadable: dict[str, Exception]) -> tuple[list[Bucket], bool]:
    """Reads the buckets that begin first. Also returns whether there are others."""
    coming = storage.buckets.in_order(state.topic, unreadable)
    found = list(islice(coming, MOST_BUCKETS))
    return found, next(coming, None) is not None


def _subscription(
    each: SubscriptionState, topic: LateMessages, queue: QueueDepth | None, dead: QueueDepth | None, error: str | None
) -> SubscriptionStats:
    owner = (each.topic, each.name, each.generation)
    late_since_ms, late = topic.of(each)
    return SubscriptionStats(
        name=each.name,
        state=each.state,
        queue_url=each.queue_url,
        lag_slots=max(0, topic.planned - each.cursor),
        open_parts=sum(max(0, it.parts - len(it.done)) for it in topic.opened if it.key.owner == owner),
        parked=sum(it.rows for it in topic.parks if it.key.owner == owner),
        queue=queue,
        dead=None if dead is None else dead.total,
        late_since=None if late_since_ms is None else utc(late_since_ms),
        late=late,
        queue_error=error,
        filter_policy=each.filter_policy,
    )


def _marks(state: TopicState, subscriptions: Sequence[SubscriptionState]) -> TopicMarks:
    handed_out = min((each.cursor for each in subscriptions), default=None)
    return TopicMarks(
        sealed_until=utc(state.sealed * state.slot_ms),
        planned_until=utc(state.planned * state.slot_ms),
        handed_out_until=_slot_at(handed_out, state.slot_ms),
        collected_until=utc(state.collected_until * state.slot_ms),
    )


def _rows(loads: Iterable[Load]) -> float:
    return sum(each.rows for each in loads)


def _slot_at(slot: int | None, slot_ms: int) -> datetime | None:
    return None if slot is None else utc(slot * slot_ms)


def _depth(sqs: SQSClient, queue_url: str, errors: dict[str, str]) -> tuple[QueueDepth | None, str | None]:
    """Returns a queue's depth and its dead-letter queue's URL, or notes the error of SQS."""
    try:
        return queue_depth(sqs, queue_url)
    except ClientError as error:
        errors[queue_url] = str(error)
        return None, None


def queue_depth(sqs: SQSClient, queue_url: str) -> tuple[QueueDepth, str | None]:
    """Returns a queue's depth and its dead-letter queue's URL.

    Raises:
        ClientError: the queue is gone, or SQS refuses.
    """
    number = "ApproximateNumberOfMessages"
    counts = (number, f"{number}Delayed", f"{number}NotVisible")
    found = attributes_of(sqs, queue_url, *counts, "RedrivePolicy")
    visible, delayed, in_flight = (int(found[name]) for name in counts)
    dead = dead_letter_queue(queue_url, found)
    return QueueDepth(visible=visible, delayed=delayed, in_flight=in_flight), None if dead is None else dead.url


MOST_LEDGERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInfo:
    """A ledger of a topic.

    Attributes:
        object: its name in the S3 bucket.
        first_due_at, last_due_at: about when its first and its last message are due: at least the slot is right.
        messages: the number of its messages, delivered ones included.
        size_bytes: the size of the object.
        after: lets `ledgers` go on behind this ledger.
    """

    object: str
    first_due_at: datetime
    last_due_at: datetime
    messages: int
    size_bytes: int
    after: str


def topic_ledgers(connection: Connection, topic: str, count: int, after: str | None) -> list[LedgerInfo]:
    """Lists ledgers in the order of their first slots. See `Tidewheel.ledgers`."""
    check_whole("n", count, 1, MOST_LEDGERS)
    try:
        slot_of(BucketId(after or "0"))
    except (TypeError, ValueError):
        raise InvalidValue("after", after, "give the `after` of a ledger") from None
    state = connection.storage.topic_states.existing(topic)
    behind = None if after is None else BucketId(after)
    found = connection.storage.buckets.in_order(topic, {}, after=behind, limit=count)
    return [_info(each, state.slot_ms) for each in found]


def _info(bucket: Bucket, slot_ms: int) -> LedgerInfo:
    first = [each.first_deliver_at_ms for each in bucket.segments]
    last = [each.last_deliver_at_ms for each in bucket.segments]
    return LedgerInfo(
        object=bucket.object_name,
        first_due_at=utc(min(first, default=bucket.first_slot * slot_ms)),
        last_due_at=utc(max(last, default=bucket.last_slot * slot_ms)),
        messages=bucket.rows,
        size_bytes=bucket.size_bytes,
        after=bucket.id,
    )
