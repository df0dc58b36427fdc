"""What the flows need from the outside world.

Each port has an implementation on AWS (`tidewheel.aws`) and one in memory (`tidewheel.memory`); the suites in
`tests/contract` say, once for both, what each call promises. Every read is strongly consistent unless it says not;
every write is one atomic, conditional change. An implementation does I/O and decides nothing.
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
from tidewheel.model.subscription import Delivery, DeliveryKey, Subscription
from tidewheel.model.topic_state import TopicState

AT_ONCE_MS = 0
"""A topic state's `next_check_ms` by which who may not arm the wheel asks the sweep to do so: until then, the next slot
is not armed."""
LEDGERS = "ledgers/"
"""Names of ledgers start with it and the topic's name: `ledgers/<topic>/`."""
PLANS = "plans/"
"""Likewise manifests of plans."""
PARKED = "parked/"
"""Likewise ledgers of parks; the subscription's name follows the topic's."""
PAYLOADS = "payloads/"
"""Likewise bodies that are too large for SQS; the due date follows the topic's name."""
COLLECTED = "collected.json"
"""Under a topic's payloads: how far it was collected when."""
CHECKPOINTS = "checkpoints/"
"""Likewise checkpoints; their names sort by the time of writing."""
ASIDE = "aside/"
"""Likewise what was taken out of service, under its old name."""
IMPORTS = "imports/"
"""Likewise files for the import job, its cuts and its rejects."""


def topic_prefixes(topic: str) -> tuple[str, ...]:
    """Returns what the names of all objects of a topic start with, and those of no other."""
    own = (LEDGERS, PLANS, PARKED, CHECKPOINTS, PAYLOADS, IMPORTS, ASIDE + LEDGERS)
    return tuple(f"{prefix}{topic}/" for prefix in own)


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyClaim:
    """A daily work is the caller's.

    Attributes:
        after: where the last one who had it stopped; None: it came to the end.
    """

    after: str | None


class Commit(Enum):
    """What became of a bucket's commit."""

    COMMITTED = "committed"
    EXISTS = "exists"
    """An earlier try committed the same content."""
    MOVED = "moved"
    """The topic state is not as it was read: read it again and route again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """A subscription's step over a plan: its cursor moves from where it was read to `to`.

    Attributes:
        delivery: what it gets to deliver; None for a step over slots in which nothing is due.
    """

    subscription: Subscription
    to: int
    delivery: Delivery | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWork:
    """A changed next slot, with when the sweep looks and when the topic is collected next.

    Attributes:
        waiting: messages in ledgers from the mark on; of no account where the mark is lowered.
    """

    next_slot: int | None
    next_check_ms: int | None
    collect_at_ms: int | None
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trash:
    """Objects that a merge replaced, dead once collected_until reaches `sealed`."""

    sealed: int
    id: str
    objects: tuple[str, ...]


class Due(NamedTuple):
    """What the sweep must look at."""

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
        """Puts the topic state if the topic is absent; returns whether it did."""
        ...

    def state(self, topic: str) -> TopicState | None:
        """Reads a topic's state; None too while the topic is being deleted."""
        ...

    def topics(self) -> list[TopicState]:
        """Lists all topics by name; not for hot paths (eventually consistent)."""
        ...

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """`sealed = slot IF sealed < slot and generation as read`.

        Returns the topic state as it is afterwards; None if the topic is gone or was created again.
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
        """`T{put BUCKET IF absent; put IMPORT IF absent; STATE: work_version + 1, the next slot lowered IF generation
        same, sealed <= first slot and next_slot compares with the first slot as it did in `state`}`.

        Args:
            state: as read; its generation counts, and how its next_slot compares with the first slot.
            bucket: the new bucket.
            next_work: the lowered marks (collect_at_ms is not written), or None when next_slot is at or below the
                first slot already.
            merge_at_ms: when the sweep is to consider a merge; it then looks no later than that.
            once: `<import id>#<cut>` of a bucket that comes from an import. It is kept for 90 days, whatever becomes
                of the bucket; if it is there already the answer is EXISTS.
        """
        ...

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        """Reads the cuts of an import that are committed."""
        ...

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        """`the next slot = ... IF generation, work_version and swap_version as read`; returns whether it did."""
        ...

    def due_for_look(self, now_ms: int) -> Due:
        """Returns the topics, open deliveries and parks whose next_check_ms has come, the earliest first (eventually
        consistent)."""
        ...

    # ---- buckets, tombstones, plans
    def bucket(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads one bucket."""
        ...

    def buckets(self, topic: str) -> list[Bucket]:
        """Reads all buckets of a topic, page by page: a snapshot only together with a condition on swap_version."""
        ...

    def commit_plan(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
    ) -> bool:
        """`T{put PLAN; STATE: planned = b IF planned, swap_version and generation as read; each hand-out}`.

        Hand-outs are conditional as in `hand_out`. With `next_work`, the topic state's work_version must be as read
        too. Returns whether all of it was done; else nothing was.
        """
        ...

    def plan(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:
        """Reads the plan that starts at slot a.

        Args:
            whole: if not, a manifest that is an object of its own is not read: the plan then has no segments.
        """
        ...

    def next_plan(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:
        """Reads the first plan that starts at or after a slot; `whole` as in `plan`."""
        ...

    # ---- subscriptions and deliveries
    def create_subscription(self, state: TopicState, subscription: Subscription) -> bool:
        """`T{put SUB IF absent; STATE: subscriptions_version + 1, work_version + 1, the next slot lowered to the cursor
        IF collected_until <= cursor and generation as read}`; returns whether it did.

        A next slot that is lowered has no schedule. Where it is an open slot, whose schedule would still fire, the
        sweep is to look at once (`AT_ONCE_MS`)."""
        ...

    def subscriptions(self, topic: str) -> list[Subscription]:
        """Reads all subscriptions of a topic, by name."""
        ...

    def subscription(self, topic: str, name: str) -> Subscription | None:
        """Reads one subscription."""
        ...

    def hand_out(self, step: HandOut) -> bool:
        """`T{put DELIVERY; SUB: cursor = to IF cursor and generation as read}`; returns whether it did."""
        ...

    def delivery(self, key: DeliveryKey) -> Delivery | None:
        """Reads an open delivery."""
        ...

    def open_deliveries(self, topic: str) -> list[Delivery]:
        """Reads all open deliveries of a topic."""
        ...

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        """`lease[part] = now IF the delivery exists, the part is not done and its lease is absent or older than
        expired_before_ms`; returns the delivery afterwards, or None."""
        ...

    def release_part(self, key: DeliveryKey, part: int) -> None:
        """Forgets a lease after a failure, so that a retry may take the part at once; harmless if it is gone."""
        ...

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        """`done + part IF the delivery exists`; returns the delivery afterwards, or None."""
        ...

    def stamp_delivery(self, key: DeliveryKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        """`next_check_ms = ... IF it is as seen`; returns whether it did."""
        ...

    def delete_deliveries(self, keys: Iterable[DeliveryKey]) -> None:
        """Deletes deliveries that are complete or of dead generations; those that are gone already do not matter."""
        ...

    # ---- collection
    def raise_gc(self, state: TopicState, collected_until: int) -> bool:
        """`collected_until = ... IF collected_until < it and subscriptions_version and generation as read`; returns
        whether it did."""
        ...

    def plan_ranges(self, topic: str) -> list[tuple[int, int]]:
        """Reads [first_slot, end_slot) of every plan, without the manifests."""
        ...

    def plan_objects(self, topic: str) -> frozenset[str]:
        """Reads the names of all manifests that are objects of their own."""
        ...

    def delete_plan(self, topic: str, first_slot: int) -> str | None:
        """Deletes a plan and, after it, its manifest if that is an object of its own.

        Returns:
            The object with what recurring messages added, for the caller to delete.
        """
        ...

    def delete_bucket(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket's item."""
        ...

    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        """`T{put outputs; delete each source IF it exists; put TRASH; STATE: swap_version + 1, waiting - dropped IF
        planned <= trash.sealed and generation as read}`; returns whether all of it was done; else nothing was."""
        ...

    def trash(self, topic: str) -> list[Trash]:
        """Reads the trash."""
        ...

    def delete_trash(self, topic: str, trash: Trash) -> None:
        """Deletes a trash item."""
        ...

    # ---- merging
    def lease_merge(self, topic: str, now_ms: int, until_ms: int) -> bool:
        """`MERGE: until_ms = ... IF absent or its until_ms <= now_ms`; returns whether it did: one run at a time."""
        ...

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """`merge_considered_version = work_version, merge_at_ms = None, next_check_ms = ... IF work_version, generation
        and next_slot as read`; returns whether it did."""
        ...

    def release_merge(self, topic: str, until_ms: int) -> None:
        """Gives a lease back, if it is still the one that ends then; another run's is left alone."""
        ...

    def set_collect_at(self, state: TopicState, collect_at_ms: int | None, next_check_ms: int | None) -> bool:
        """`collect_at_ms, next_check_ms = ... IF work_version, generation and next_slot as read`; returns whether it
        did."""
        ...

    # ---- the service
    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        """`SERVICE name: next_at_ms = next_ms IF absent or its next_at_ms <= now_ms`; None if it was not its time."""
        ...

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        """`SERVICE name: next_at_ms = next_ms, after`: whoever has claimed it says when and where it goes on."""
        ...

    # ---- rebuilding: a topic without a topic state is at rest; whoever puts these holds the lease of `lease_merge`
    def delete_topic_state(self, topic: str) -> None:
        """Deletes the topic state: whatever is conditional on it is refused from then on; harmless if it is gone."""
        ...

    def restore_bucket(self, topic: str, bucket: Bucket) -> None:
        """Puts a bucket, whatever is there."""
        ...

    def restore_subscription(self, subscription: Subscription) -> None:
        """Puts a subscription, whatever is there."""
        ...


class Objects(Protocol):
    """The objects in S3."""

    def new_ledger_name(self, topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId) -> str:
        """Returns a ledger's name that no other attempt has: a retry never writes over what may be listed."""
        ...

    def new_park_name(self, key: ParkKey) -> str:
        """Returns a name for a park's ledger that no other attempt has."""
        ...

    def new_occurrences_name(self, topic: str, first_slot: int) -> str:
        """Returns the name of what recurring messages add to the plan of slot a; no other attempt has it."""
        ...

    def new_checkpoint_name(self, topic: str, written_at_ms: int) -> str:
        """Returns a checkpoint's name that no other attempt has."""
        ...

    def new_payload_name(self, topic: str, due_ms: int, message_id: str) -> str:
        """Returns the name of a large body that no other attempt has."""
        ...

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Writes an object whole."""
        ...

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range with one request; shorter than `length` if the object ends.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def create(self, name: str) -> AbstractContextManager[Sink]:
        """Opens an object to be written piece by piece; it is there once the block ends without an exception, and
        not at all otherwise."""
        ...

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists the objects whose names start with a prefix, in the order of their names.

        Args:
            after: only those whose names sort behind it, whether there is one of this name or not.
        """
        ...

    def copy(self, name: str, to: str) -> None:
        """Writes a copy of an object under another name.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def move(self, name: str, to: str) -> None:
        """Gives an object another name; it may have both if this stops in the middle."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects; those that are gone do not matter."""
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
        index: its place in the batch.
        permanent: whether it never will (the message's fault, not the service's).
    """

    index: int
    permanent: bool
    code: str
    reason: str


class Queues(Protocol):
    """The SQS queues of subscriptions, the work queue and the queue of refused messages."""

    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Sends at most ten messages, each with its delay in seconds; returns those that were not taken.

        Raises:
            QueueUnavailable: the queue is gone or access to it is denied.
        """
        ...

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Puts parts of a delivery into the work queue."""
        ...

    def enqueue_parks(self, keys: Sequence[ParkKey]) -> None:
        """Puts parks that are to be drained into the work queue."""
        ...

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Puts into the work queue that a subscription was resumed.

        Raises:
            QueueUnavailable: the caller may not, or there is no work queue.
        """
        ...

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps a message that can never be delivered, with the reason, in the queue of refused messages."""
        ...


class Wheel(Protocol):
    """The coarse wheel."""

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Makes the schedule of a topic's slot; that it exists already is fine."""
        ...

    def disarm(self, topic: str) -> None:
        """Deletes all schedules of a topic; those that are gone already do not matter."""
        ...


class MergeSize(Enum):
    """What a merge runs on."""

    SMALL = "small"
    """A Lambda function."""
    LARGE = "large"
    """A Glue job."""


class Runs(Protocol):
    """Starts functions and jobs that run on their own, and returns at once."""

    @property
    def largest(self) -> MergeSize:
        """The largest merge that can be started: a small one where the service has no jobs."""
        ...

    def dispatch(self, topic: str) -> None:
        """Has a topic dispatched; one time too many does no harm, and one that is lost is seen by the next sweep."""
        ...

    def merge(self, topic: str, size: MergeSize) -> None:
        """Has a topic merged; that the merge does nothing in the end is fine."""
        ...


class Parallel(Protocol):
    """Runs calls side by side."""

    def __call__(self, call: Callable[[int], None], arguments: Iterable[int], /) -> Iterable[None]:
        """Calls `call` with each argument, in any order; an exception comes out when its result is taken.

        The built-in `map` and an executor's are such.
        """
        ...


def in_order(call: Callable[[int], None], arguments: Iterable[int], /) -> Iterator[None]:
    """Runs calls one after the other, each when its result is taken: the port `Parallel` without threads."""
    for argument in arguments:
        call(argument)
        yield


class Ports(Protocol):
    """All that a function has in its hands."""

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
