"""All that the flows use: the stored state, and the ports to queues, schedules, runs, threads and tasks.

Each port has an implementation on AWS (`tidewheel.aws`) and an implementation in memory (`tidewheel.memory`). A suite
in `tests/contract` states the promises of each port and runs against both. An implementation does I/O and decides
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

from tidewheel.clock import Clock
from tidewheel.model.park import ParkKey
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.storage.objects import Objects
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")

RUNS_AGAIN: ContextVar[bool] = ContextVar("RUNS_AGAIN", default=False)
"""Within a task: whether the task runs again if it raises now. Set by an engine that repeats tasks."""
_MOST_FAILED = 10
_TRIES = 4


class Ports(Storage):
    """All that a function uses.

    Args:
        table: the table.
        objects: the objects.
        queues: the subscriptions' queues, the work queue and the queue of refused messages.
        wheel: the schedules.
        runs: starts of functions and jobs.
        parallel: runs calls side by side.
        clock: the time.
        max_skew_ms: maximum difference between SQS's clock and the local clock.
        read_threads: how many reads of objects run side by side, ahead of use. 0: none is ahead.
    """

    def __init__(
        self,
        table: Table,
        objects: Objects,
        *,
        queues: Queues,
        wheel: Wheel,
        runs: Runs,
        parallel: Parallel,
        clock: Clock,
        max_skew_ms: int,
        read_threads: int = 0,
    ) -> None:
        super().__init__(table, objects)
        self.queues = queues
        self.wheel = wheel
        self.runs = runs
        self.parallel = parallel
        self.clock = clock
        self.max_skew_ms = max_skew_ms
        self.read_threads = read_threads


class QueueMessage(NamedTuple):
    """A message on its way to a queue.

    Attributes:
        group: becomes SQS's MessageGroupId.
    """

    deliver_at_ms: int
    text: str
    attributes: Mapping[str, str] | None
    header: str
    size: int
    group: str | None = None


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

    def send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Sends at most ten messages, each with its delay in seconds. Returns the refusals.

        Raises:
            QueueUnavailable: the queue is gone or denies access. No message was taken.
        """
        ...

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Puts parts of a delivery into the work queue."""
        ...

    def enqueue_parks(self, keys: Sequence[ParkKey], *, delay_s: int = 0) -> None:
        """Puts parks to drain into the work queue, hidden for some seconds."""
        ...

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Puts a task for a resumed subscription into the work queue.

        Raises:
            QueueUnavailable: the caller has no access, or there is no work queue.
        """
        ...

    def forward(self, topic: str, messages: int, pack: bytes, *, urgent: bool = False) -> None:
        """Puts a pack with some messages into the topic's bulk or urgent queue. Raises if SQS does not take it."""
        ...

    def delete(self, topic: str, receipt_handles: Sequence[str], *, urgent: bool) -> None:
        """Deletes messages from the topic's urgent or bulk queue, from which they were received."""
        ...

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps a message that SQS or a function refused, with the reason, in the queue of refused messages."""
        ...


class Wheel(Protocol):
    """The coarse wheel."""

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Creates the schedule of a topic's slot. An existing schedule is fine."""
        ...

    def unschedule(self, topic: str) -> None:
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

    def merge(self, topic: str) -> None:
        """Starts a topic's merge in a function. The merge may find nothing to do."""
        ...

    def merge_large(self, topics: Sequence[str]) -> bool:
        """Starts one run of a job for the merges of topics.

        Returns:
            False if another run is under way, so that the caller tries again later.
        """
        ...


class Parallel(Protocol):
    """Runs calls side by side."""

    def __call__(self, call: Callable[[T], object], arguments: Iterable[T], /) -> None:
        """Calls `call` with each argument, in any order. Waits for all, and raises the first error by argument."""
        ...


def in_order(call: Callable[[T], object], arguments: Iterable[T], /) -> None:
    """Implements the port `Parallel` without threads, in order. The first error stops the others."""
    for argument in arguments:
        call(argument)


def each_alone(parallel: Parallel, call: Callable[[K], object], arguments: Iterable[K]) -> dict[K, Exception]:
    """Calls `call` with each argument, side by side. Returns the errors by argument.

    A single error stops no other call. Once _MOST_FAILED more calls have failed than succeeded, no further calls are
    made, so that an outage does not cost a call for each argument. The remaining arguments get the last error.
    """
    errors: dict[K, Exception] = {}
    last: list[Exception] = []
    surplus, lock = 0, Lock()

    def one(argument: K) -> None:
        nonlocal surplus
        try:
            if surplus >= _MOST_FAILED:
                raise last[-1]
            call(argument)
        except Exception as error:
            errors[argument] = error
            last.append(error)
            change = 1
        else:
            change = -1
        with lock:
            surplus = max(0, surplus + change)

    parallel(one, arguments)
    return errors


def persistently(call: Callable[[], T]) -> T:
    """Makes a write whose failure costs copies, with at most _TRIES tries. Raises the last error.

    The adapters wait between their own tries.
    """
    for _ in range(_TRIES - 1):
        with suppress(Exception):
            return call()
    return call()


class Tasks(Protocol):
    """Runs one function for many items."""

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Yields the place and the result of each item when its task ends, in any order.

        Tasks begin in the order of the items. A task may run several times, even at the same time. Only one of its
        results is yielded. When the generator is closed, no other task begins, and the running tasks
        are ended, or waited for.

        Args:
            task: a function of a module, or a frozen dataclass that is called. The task, the items and the results
                must be picklable. Items and results are small, and what all tasks share is in the task. A task returns
                expected failures as results: an exception may start it again.
            items: one for each task.

        Raises:
            Exception: a task failed, and repeating the task did not help. Other tasks may still run.
        """
        ...


@dataclass(frozen=True, slots=True)
class InThisProcess:
    """Runs tasks one after the other in this process. Pickles nothing."""

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[tuple[int, Result], None, None]:
        """Runs each task when its result is asked for."""
        for place, item in enumerate(items):
            yield place, task(item)
