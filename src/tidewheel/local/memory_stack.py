"""The whole service in memory: `MemoryTidewheel`."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import ManualClock
from tidewheel.errors import InvalidValue
from tidewheel.flows.ports import Ports
from tidewheel.local.client import LocalClient, take_all
from tidewheel.local.memory_functions import Failure, MemoryFunctions
from tidewheel.local.memory_pump import MemoryPump
from tidewheel.local.memory_source import MemorySource
from tidewheel.local.memory_sqs import MemorySqsClient
from tidewheel.memory import MemoryService
from tidewheel.memory.queues import WORK_QUEUE
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_queue import MemoryQueue
from tidewheel.model.settings import NewTopicSettings, ServiceSettings, TopicSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from tidewheel.model.received import ReceivedMessage

DEFAULT_START = "2026-01-01T00:00:00Z"
BULK_WINDOW_S = 300
_URGENT_VISIBILITY_S = 120
_WORK_VISIBILITY_S = 180
_BULK_FUNCTION_S = 360
_RETENTION_S = 14 * 86_400
_URGENT_RECEIVES = 120
_BULK_RECEIVES = 22
_WORK_RECEIVES = 10


class MemoryClient(LocalClient):
    """The ordinary client over ports in memory; its `create_topic` starts from the service's settings."""

    def __init__(
        self,
        settings: ServiceSettings,
        service: MemoryService,
        sqs: MemorySqsClient,
        topic_settings: NewTopicSettings,
    ) -> None:
        Tidewheel.__init__(
            self,
            settings.stack,
            settings=settings,
            clock=service.clock,
            topics=service.topics,
            objects=service.objects,
            sqs=cast("SQSClient", sqs),
        )
        self._topic_settings = topic_settings


class MemoryTidewheel:
    """Runs the real flows over ports in memory, in virtual time: for unit tests that cannot wait.

    It stands in for `LocalTidewheel`: the same client, `advance` and `receive`, without the function code around the
    flows, CloudFormation, boto3's requests, an endpoint, or the real clock. One is made in a tenth of a millisecond,
    and there may be any number at once.

    Args:
        start: where virtual time begins: ISO 8601 (UTC if it names no zone) or a datetime.
        stack_name: what names of subscriptions' queues start with.
        bulk_window_s: how long messages that are not due soon are gathered before they are ingested.
        max_skew_ms: how much later than due messages are sent for, in case two clocks differ; 100 as deployed.
        wrap: puts something between the flows and the ports, to make them fail or die: what it raises ends the
            function, and is in `failures`. The client is not affected.
        topic_settings: settings that `create_topic` takes, such as slot_s or lookahead_s; `client()` uses them for
            every topic that does not say otherwise.

    Attributes:
        clock: the virtual clock.
        service: the ports, for a look at what they hold.
        sqs: an SQS client as boto3's, for queues of one's own and for plain consumers.
    """

    def __init__(
        self,
        *,
        start: str | dt.datetime | None = None,
        stack_name: str = "tidewheel",
        bulk_window_s: float = BULK_WINDOW_S,
        max_skew_ms: int = 0,
        wrap: Callable[[MemoryService], Ports] | None = None,
        **topic_settings: Unpack[NewTopicSettings],
    ) -> None:
        if topic_settings:
            TopicSettings(**topic_settings)  # type: ignore[arg-type]  # refuses what no topic could have
        self.topic_settings = topic_settings
        self.stack_name = stack_name
        self.clock = ManualClock(_start_ms(start or DEFAULT_START))
        self._queues = MemorySqs(self.clock)
        self.sqs = MemorySqsClient(self._queues)
        urgent, bulk, work = self._make_source_queues(bulk_window_s)
        self.service = MemoryService.at(self.clock, self._queues, stack=stack_name, max_skew_ms=max_skew_ms)
        self._settings = _settings(stack_name, urgent, bulk, self.service)
        self._functions = MemoryFunctions(self.service if wrap is None else wrap(self.service))
        self._pump = MemoryPump(
            self.service, self.clock, self._functions, self._sources(urgent, bulk, work, bulk_window_s)
        )
        self._consumer: Tidewheel | None = None

    def open(self) -> Self:
        """Returns this; a service in memory is open from the start."""
        return self

    def close(self) -> None:
        """Does nothing: there is nothing to give back."""

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def client(self) -> Tidewheel:
        """Returns the ordinary SDK client, on the ports in memory and the virtual clock."""
        return MemoryClient(self._settings, self.service, self.sqs, self.topic_settings)

    def receive(self, topic: str, subscription: str) -> list[ReceivedMessage]:
        """Takes and deletes all that a subscription can receive now, oldest first.

        Each message also knows `visible_at`: when SQS made it receivable.
        """
        if self._consumer is None:
            self._consumer = self.client()
        return take_all(self._consumer, self.queue, topic, subscription)

    @property
    def failures(self) -> list[Failure]:
        """Every invocation of a function that raised or reported failures, oldest first."""
        return self._pump.failures

    @property
    def logged(self) -> list[Failure]:
        """Every failure that a function only logs, since something else will do the work: the work queue, the sweep."""
        return self._functions.logged

    @property
    def invocations(self) -> dict[str, int]:
        """Invocations so far, by function: ingest, dispatch, deliver, sweep, compact."""
        return dict(self._pump.invocations)

    @property
    def drop_schedules(self) -> bool:
        """Whether one-time schedules vanish instead of firing."""
        return self._pump.drop_schedules

    @drop_schedules.setter
    def drop_schedules(self, drop: bool) -> None:
        self._pump.drop_schedules = drop

    def now(self) -> dt.datetime:
        """Returns the virtual time, UTC."""
        return _utc(self.clock.now_ms())

    def advance(self, **duration: float) -> None:
        """Moves time forward, doing on the way what falls due.

        Args:
            duration: as `datetime.timedelta` takes it: days=3, hours=1, seconds=0.5. None at all: what is due now.
        """
        until_ms = self.clock.now_ms() + round(dt.timedelta(**duration).total_seconds() * 1000)
        while self._pump.run_next(until_ms):
            pass
        self.clock.set_ms(until_ms)

    def advance_to(self, when: dt.datetime) -> None:
        """Advances to a time; one that has passed already does what is due now.

        Raises:
            InvalidValue: the time has no zone.
        """
        if not isinstance(when, dt.datetime) or when.tzinfo is None:
            raise InvalidValue("when", when, "give a datetime with a time zone, such as datetime(..., tzinfo=UTC)")
        self.advance(milliseconds=max(0, round(when.timestamp() * 1000) - self.clock.now_ms()))

    def queue(self, url: str) -> MemoryQueue:
        """Returns the queue behind a URL, name or ARN, for a look at what it holds.

        Raises:
            SqsError: there is none.
        """
        return self._queues.queue(url)

    def _make_source_queues(self, bulk_window_s: float) -> tuple[MemoryQueue, MemoryQueue, MemoryQueue]:
        """Makes the urgent, the bulk and the work queue, each with its dead-letter queue."""

        def make(name: str, visibility_s: int, receives: int) -> MemoryQueue:
            # No subscription's queue can have such a name: those start with the stack's name and "-".
            full = f"{self.stack_name}_{name}"
            kept = {"MessageRetentionPeriod": str(_RETENTION_S)}
            dead = self._queues.create_queue(f"{full}-dead", kept)
            redrive = {"deadLetterTargetArn": dead.arn, "maxReceiveCount": receives}
            attributes = {**kept, "VisibilityTimeout": str(visibility_s), "RedrivePolicy": json.dumps(redrive)}
            return self._queues.create_queue(full, attributes)

        return (
            make("urgent", _URGENT_VISIBILITY_S, _URGENT_RECEIVES),
            make("bulk", _BULK_FUNCTION_S + math.ceil(bulk_window_s), _BULK_RECEIVES),
            make(WORK_QUEUE, _WORK_VISIBILITY_S, _WORK_RECEIVES),
        )

    def _sources(
        self, urgent: MemoryQueue, bulk: MemoryQueue, work: MemoryQueue, bulk_window_s: float
    ) -> list[MemorySource]:
        """The event source mappings of the deployed stack."""
        ingest: dict[str, Any] = {"function": "ingest", "run": self._functions.ingest}
        return [
            MemorySource(urgent, self.clock, batch_size=10, **ingest),
            MemorySource(bulk, self.clock, batch_size=10_000, window_ms=round(bulk_window_s * 1000), **ingest),
            MemorySource(work, self.clock, batch_size=1, function="deliver", run=self._functions.deliver),
        ]


def _settings(stack_name: str, urgent: MemoryQueue, bulk: MemoryQueue, service: MemoryService) -> ServiceSettings:
    nowhere = "memory"
    return ServiceSettings(
        stack=stack_name,
        table=nowhere,
        s3_bucket=nowhere,
        urgent_queue_url=urgent.url,
        bulk_queue_url=bulk.url,
        work_queue_url=service.queues.work_queue.url,
        refused_queue_url=service.queues.refused_queue.url,
        schedule_group=nowhere,
        schedule_role_arn=nowhere,
        dispatch_arn=nowhere,
        schedule_dead_letter_arn=nowhere,
        compact_function=nowhere,
        merge_job=nowhere,
        max_skew_ms=service.max_skew_ms,
    )


def _utc(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)


def _start_ms(start: str | dt.datetime) -> int:
    when = dt.datetime.fromisoformat(start) if isinstance(start, str) else start
    return round((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp() * 1000)
