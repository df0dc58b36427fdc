"""Runs the whole service in memory, as `MemoryTidewheel`."""

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
    """The ordinary client over ports in memory. Its `create_topic` starts from the service's settings."""

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
    """Runs the real flows over ports in memory, in virtual time, for fast unit tests.

    Stands in for `LocalTidewheel`: the same client, `advance` and `receive`, without the function code around the
    flows,
    CloudFormation, boto3's requests, an endpoint, or the real clock. A `MemoryTidewheel` is made in a tenth of a
    millisecond, and any number may exist at once.

    Args:
        start: start of virtual time: ISO 8601 (UTC if it names no zone) or a datetime.
        stack_name: prefix of the names of subscriptions' queues.
        bulk_window_s: how long messages that are not due soon are gathered before they are ingested.
        max_skew_ms: time added to the due time of each send, in case two clocks differ; 100 as deployed.
        wrap: wraps the ports that the flows use, to make ports fail or die: its exceptions end the function and are in
            `failures`. The client is not affected.
        topic_settings: settings that `create_topic` takes, such as slot_s or lookahead_s; `client()` uses them as
            defaults for every topic.

    Attributes:
        clock: the virtual clock.
        service: the ports, to inspect their contents.
        sqs: an SQS client as boto3's, for other queues and for plain consumers.
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
            TopicSettings(**topic_settings)  # type: ignore[arg-type]  # refuses settings that no topic could have
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
        """Returns this object. A service in memory is open from the start."""
        return self

    def close(self) -> None:
        """Does nothing, because there is nothing to release."""

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
        """Receives and deletes all receivable messages of a subscription, oldest first.

        Each message also has `visible_at`, the time at which SQS made it receivable.
        """
        if self._consumer is None:
            self._consumer = self.client()
        return take_all(self._consumer, self.queue, topic, subscription)

    @property
    def failures(self) -> list[Failure]:
        """All invocations of functions with errors or reported failures, oldest first."""
        return self._pump.failures

    @property
    def logged(self) -> list[Failure]:
        """All failures that a function only logs, since the work queue or the sweep will retry the work."""
        return self._functions.logged

    @property
    def invocations(self) -> dict[str, int]:
        """Invocations so far, by function (ingest, dispatch, deliver, sweep, compact)."""
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
        """Moves time forward, and handles all events due on the way.

        Args:
            duration: as `datetime.timedelta` takes it: days=3, hours=1, seconds=0.5. Without arguments, handles events
                due
                now.
        """
        until_ms = self.clock.now_ms() + round(dt.timedelta(**duration).total_seconds() * 1000)
        while self._pump.run_next(until_ms):
            pass
        self.clock.set_ms(until_ms)

    def advance_to(self, when: dt.datetime) -> None:
        """Advances to a time. For a time in the past, handles events due now.

        Raises:
            InvalidValue: the time has no zone.
        """
        if not isinstance(when, dt.datetime) or when.tzinfo is None:
            raise InvalidValue("when", when, "give a datetime with a time zone, such as datetime(..., tzinfo=UTC)")
        self.advance(milliseconds=max(0, round(when.timestamp() * 1000) - self.clock.now_ms()))

    def queue(self, url: str) -> MemoryQueue:
        """Returns the queue with a URL, name or ARN, to inspect its contents.

        Raises:
            SqsError: there is no such queue.
        """
        return self._queues.queue(url)

    def _make_source_queues(self, bulk_window_s: float) -> tuple[MemoryQueue, MemoryQueue, MemoryQueue]:
        """Makes the urgent, the bulk and the work queue, each with its dead-letter queue."""

        def make(name: str, visibility_s: int, receives: int) -> MemoryQueue:
            # No subscription's queue can have such a name, since those names start with the stack's name and "-".
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
        """Makes the event source mappings of the deployed stack."""
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
