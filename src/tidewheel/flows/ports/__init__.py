"""Ports of the flows to storage, queues and schedules.

Each port has an implementation on AWS (`tidewheel.aws`) and an implementation in memory (`tidewheel.memory`). The
suites in `tests/contract` state the promises of each call and run against both. Every read is strongly consistent
unless its docstring says otherwise. Every write is one atomic, conditional change. An implementation does I/O and
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from tidewheel.clock import Clock
from tidewheel.flows.ports.administration import AdministrationPort
from tidewheel.flows.ports.keys import KeysPort
from tidewheel.flows.ports.parks import ParksPort
from tidewheel.flows.ports.recurring import RecurringPort
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.ledger.sink import Sink
from tidewheel.model.park import ParkKey
from tidewheel.model.plan import Plan
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import TopicState

AT_ONCE_MS = 0
"""Sentinel in `next_check_ms`: tells the sweep to create the missing schedule of the next slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyClaim:
    """A claim of the caller on one daily work.

    Attributes:
        after: where the last holder of the claim stopped; None: it came to the end.
    """

    after: str | None


class Commit(Enum):
    """The outcome of a bucket's commit."""

    COMMITTED = "committed"
    EXISTS = "exists"
    """An earlier try committed the same content."""
    MOVED = "moved"
    """The topic state is not as read. Read the topic state again and route again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """A subscription's step over a plan, which moves the cursor to `to`.

    The write is refused if the cursor is not as read.

    Attributes:
        delivery: the delivery to open; None for a step over slots in which nothing is due.
    """

    subscription: SubscriptionState
    to: int
    delivery: Delivery | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWork:
    """A changed next slot, with the times of the next check and the next collection.

    Attributes:
        waiting: messages in ledgers from the next slot on; ignored where the next slot is lowered.
    """

    next_slot: int | None
    next_check_ms: int | None
    collect_at_ms: int | None
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trash:
    """Objects that a merge replaced, dead once `collected_until` reaches `sealed`."""

    sealed: int
    id: str
    objects: tuple[str, ...]


class Due(NamedTuple):
    """The topics, deliveries and parks that the sweep must check."""

    topics: list[str]
    deliveries: list[DeliveryKey]
    parks: list[ParkKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object as a listing shows it."""

    name: str
    size_bytes: int
    put_at_ms: int


class Topics(KeysPort, ParksPort, RecurringPort, AdministrationPort, Protocol):
    """The metadata of all topics."""

    # ---- topics and marks
    def create_topic(self, state: TopicState) -> bool:
        """Creates the topic state if the topic is absent. Returns False if the topic exists."""
        ...

    def state(self, topic: str) -> TopicState | None:
        """Reads a topic's state. Returns None if the topic is absent or being deleted."""
        ...

    def topics(self) -> list[TopicState]:
        """Lists all topics by name. Not for hot paths (eventually consistent)."""
        ...

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """Seals all slots below `slot`.

        `sealed = slot IF sealed < slot and generation as read`.

        Returns the topic state afterwards; None if the topic is gone or was created again.
        """
        ...

    def commit_bucket(
        self,
        state: TopicState,
        bucket: Bucket,
        next_work: NextWork | None,
        merge_at_ms: int | None = None,
        once: str | None = None,
    ) -> Commit:
        """Commits a bucket.

        `T{put BUCKET IF absent; put IMPORT IF absent; STATE: work_version + 1, the next slot lowered IF generation
        same, sealed <= first slot and next_slot compares with the first slot as in `state`}`.

        Args:
            state: as read; the write depends on its generation and on how its next_slot compares with the first slot.
            bucket: the new bucket.
            next_work: the lowered marks (collect_at_ms is not written), or None when next_slot is at or below the first
                slot already.
            merge_at_ms: when the sweep is to consider a merge; the next check is then no later than this time.
            once: `<import id>#<cut>` of a bucket that comes from an import. The table keeps `once` for 90 days, even if
                the bucket is deleted. If `once` is there already, the answer is EXISTS.
        """
        ...

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        """Reads the committed cuts of an import."""
        ...

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        """Raises the next slot. Returns False if refused.

        `the next slot = ... IF generation, work_version and swap_version as read`.
        """
        ...

    def due_for_look(self, now_ms: int) -> Due:
        """Returns topics, open deliveries and parks whose next check has come, earliest first.

        The read is eventually consistent.
        """
        ...

    # ---- buckets, tombstones, plans
    def bucket(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads one bucket."""
        ...

    def buckets(self, topic: str) -> list[Bucket]:
        """Reads all buckets of a topic, page by page.

        The result is a snapshot only together with a condition on swap_version.
        """
        ...

    def commit_plan(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
    ) -> bool:
        """Commits a plan, with hand-outs if given. Returns False if nothing was written.

        `T{put PLAN; STATE: planned = end_slot IF planned, swap_version and generation as read; each hand-out}`.

        Hand-outs are conditional as in `hand_out`. With `next_work`, the topic state's work_version must be as read
        too. The transaction writes everything or nothing.
        """
        ...

    def plan(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:
        """Reads the plan that starts at `first_slot`.

        Args:
            whole: if False, a manifest in an object of its own is not read; the plan then has no segments.
        """
        ...

    def next_plan(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:
        """Reads the first plan that starts at or after a slot. `whole` is as in `plan`."""
        ...

    # ---- subscriptions and deliveries
    def create_subscription(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Creates a subscription. Returns False if refused.

        `T{put SUB IF absent; STATE: subscriptions_version + 1, work_version + 1, the next slot lowered to the cursor IF
        collected_until <= cursor and generation as read}`.

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire,
        the sweep is to check the topic at once (`AT_ONCE_MS`).
        """
        ...

    def subscriptions(self, topic: str) -> list[SubscriptionState]:
        """Reads all subscriptions of a topic, by name."""
        ...

    def subscription(self, topic: str, name: str) -> SubscriptionState | None:
        """Reads one subscription."""
        ...

    def hand_out(self, step: HandOut) -> bool:
        """Hands out a plan to a subscription. Returns False if refused.

        `T{put DELIVERY; SUB: cursor = to IF cursor and generation as read}`.
        """
        ...

    def delivery(self, key: DeliveryKey) -> Delivery | None:
        """Reads an open delivery."""
        ...

    def open_deliveries(self, topic: str) -> list[Delivery]:
        """Reads all open deliveries of a topic."""
        ...

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        """Leases a part. Returns the delivery afterwards, or None if refused.

        `lease[part] = now IF the delivery exists, the part is not done and its lease is absent or older than
        expired_before_ms`.
        """
        ...

    def release_part(self, key: DeliveryKey, part: int) -> None:
        """Deletes a part's lease after a failure. Does nothing if the lease is gone.

        A retry may then take the part at once.
        """
        ...

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        """Marks a part done. Returns the delivery afterwards, or None if refused.

        `done + part IF the delivery exists`.
        """
        ...

    def stamp_delivery(self, key: DeliveryKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        """Sets a delivery's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        ...

    def delete_deliveries(self, keys: Iterable[DeliveryKey]) -> None:
        """Deletes deliveries that are complete or of dead generations. Missing deliveries are ignored."""
        ...

    # ---- collection
    def raise_gc(self, state: TopicState, collected_until: int) -> bool:
        """Raises `collected_until`. Returns False if refused.

        `collected_until = ... IF collected_until < the new value and subscriptions_version and generation as read`.
        """
        ...

    def plan_ranges(self, topic: str) -> list[tuple[int, int]]:
        """Reads [first_slot, end_slot) of every plan, without the manifests."""
        ...

    def plan_objects(self, topic: str) -> frozenset[str]:
        """Reads the names of all manifests that are objects of their own."""
        ...

    def delete_plan(self, topic: str, first_slot: int) -> str | None:
        """Deletes a plan, then its manifest object, if any.

        Returns:
            The name of the plan's object with recurring messages, for the caller to delete.
        """
        ...

    def delete_bucket(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket's item."""
        ...

    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        """Swaps sources for outputs. Returns False if nothing was written.

        `T{put outputs; delete each source IF the source exists; put TRASH; STATE: swap_version + 1, waiting - dropped
        IF planned <= trash.sealed and generation as read}`.
        """
        ...

    def trash(self, topic: str) -> list[Trash]:
        """Reads the trash."""
        ...

    def delete_trash(self, topic: str, trash: Trash) -> None:
        """Deletes a trash item."""
        ...

    # ---- merging
    def lease_merge(self, topic: str, now_ms: int, until_ms: int) -> bool:
        """Leases a topic's merge, so that one run works at a time. Returns False if refused.

        `MERGE: until_ms = ... IF absent or its until_ms <= now_ms`.
        """
        ...

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """Notes that a merge was considered. Returns False if refused.

        `merge_considered_version = work_version, merge_at_ms = None, next_check_ms = ... IF work_version, generation
        and next_slot as read`.
        """
        ...

    def release_merge(self, topic: str, until_ms: int) -> None:
        """Releases a merge lease if its end is `until_ms`. Another run's lease stays."""
        ...

    def set_collect_at(self, state: TopicState, collect_at_ms: int | None, next_check_ms: int | None) -> bool:
        """Sets the times of the next collection and the next check. Returns False if refused.

        `collect_at_ms, next_check_ms = ... IF work_version, generation and next_slot as read`.
        """
        ...

    # ---- the service
    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        """Claims a daily work. Returns None if the work is not due.

        `SERVICE name: next_at_ms = next_ms IF absent or its next_at_ms <= now_ms`.
        """
        ...

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        """Sets when and where a claimed daily work continues.

        `SERVICE name: next_at_ms = next_ms, after`.
        """
        ...

    # ---- rebuilding: a topic without a topic state is at rest; the caller holds the lease of `lease_merge`
    def delete_topic_state(self, topic: str) -> None:
        """Deletes the topic state. Does nothing if the topic state is gone.

        All writes that are conditional on the topic state are refused from then on.
        """
        ...

    def restore_bucket(self, topic: str, bucket: Bucket) -> None:
        """Puts a bucket and overwrites an existing bucket."""
        ...

    def restore_subscription(self, subscription: SubscriptionState) -> None:
        """Puts a subscription and overwrites an existing subscription."""
        ...


class Objects(Protocol):
    """The objects in S3."""

    def new_attempt(self) -> str:
        """Returns the end of a new object's name, hexadecimal digits that no other object has."""
        ...

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Writes a whole object."""
        ...

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range with one request. The result is shorter than `length` if the object ends.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def create(self, name: str) -> AbstractContextManager[Sink]:
        """Opens an object for writing in pieces.

        The object exists after the block ends without an exception, and does not exist otherwise.
        """
        ...

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists the objects whose names start with a prefix, in the order of their names.

        Args:
            after: only names that sort behind `after`, whether an object of that name exists or not.
        """
        ...

    def copy(self, name: str, to: str) -> None:
        """Writes a copy of an object under another name.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def move(self, name: str, to: str) -> None:
        """Renames an object. If the move stops in the middle, the object may have both names."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects. Missing objects are ignored."""
        ...


class Release(NamedTuple):
    """A message on its way to a queue."""

    deliver_at_ms: int
    text: str
    attributes: Mapping[str, str] | None
    header: str
    size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message of a batch that SQS did not take.

    Attributes:
        index: the message's place in the batch.
        permanent: whether SQS will never take the message (the message's fault, not the service's).
    """

    index: int
    permanent: bool
    code: str
    reason: str


class Queues(Protocol):
    """The SQS queues of subscriptions, the work queue and the queue of refused messages."""

    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Sends at most ten messages, each with its delay in seconds. Returns the refusals.

        Raises:
            QueueUnavailable: the queue is gone or access to it is denied.
        """
        ...

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Puts parts of a delivery into the work queue."""
        ...

    def enqueue_parks(self, keys: Sequence[ParkKey]) -> None:
        """Puts parks to drain into the work queue."""
        ...

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Puts a job for a resumed subscription into the work queue.

        Raises:
            QueueUnavailable: the caller has no access, or there is no work queue.
        """
        ...

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps an undeliverable message, with the reason, in the queue of refused messages."""
        ...


class Wheel(Protocol):
    """The coarse wheel."""

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Creates the schedule of a topic's slot. An existing schedule is fine."""
        ...

    def disarm(self, topic: str) -> None:
        """Deletes all schedules of a topic. Missing schedules are ignored."""
        ...


class MergeSize(Enum):
    """The service that a merge runs on."""

    SMALL = "small"
    """A Lambda function."""
    LARGE = "large"
    """A Glue job."""


class Runs(Protocol):
    """Starts functions and jobs that run on their own, and returns at once."""

    @property
    def largest(self) -> MergeSize:
        """The largest merge that can be started; SMALL where the service has no jobs."""
        ...

    def dispatch(self, topic: str) -> None:
        """Starts a topic's dispatch. An extra dispatch does no harm, and the sweep repairs a lost dispatch."""
        ...

    def merge(self, topic: str, size: MergeSize) -> None:
        """Starts a topic's merge. The merge may find nothing to do."""
        ...


class Parallel(Protocol):
    """Runs calls side by side."""

    def __call__(self, call: Callable[[int], None], arguments: Iterable[int], /) -> Iterable[None]:
        """Calls `call` with each argument, in any order. An exception is raised when its result is taken.

        The built-in `map` and an executor's `map` fit this port.
        """
        ...


def in_order(call: Callable[[int], None], arguments: Iterable[int], /) -> Iterator[None]:
    """Implements the port `Parallel` without threads, in order.

    Each call runs when its result is taken.
    """
    for argument in arguments:
        call(argument)
        yield


class Ports(Protocol):
    """All ports that a function uses."""

    @property
    def topics(self) -> Topics: ...
    @property
    def objects(self) -> Objects: ...
    @property
    def queues(self) -> Queues: ...
    @property
    def wheel(self) -> Wheel: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def parallel(self) -> Parallel: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def max_skew_ms(self) -> int: ...
