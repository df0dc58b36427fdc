"""Runs the whole service in memory, as `MemoryTidewheel`."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.flows.ports import Ports
from tidewheel.local.event_source import EventSource
from tidewheel.local.memory_functions import MemoryFunctions
from tidewheel.local.memory_triggers import MemoryTriggers
from tidewheel.local.pump import FUNCTIONS, Failure, Pump
from tidewheel.local.stack import Stack, clock_from
from tidewheel.memory import MemoryService, MemorySqs, MemorySqsClient
from tidewheel.memory.sqs_queue import MemoryQueue
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import NewTopicSettings, ServiceSettings
from tidewheel.model.triggers import BULK_WINDOW_S, RETENTION_S, URGENT_QUEUE, WORK_QUEUE, SourceQueue, bulk_queue

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

URGENT, BULK, WORK, REFUSED = "urgent", "bulk", "work", "refused"


class MemoryTidewheel(Stack):
    """Runs the real flows over ports in memory, in virtual time, for fast unit tests.

    Stands in for `LocalTidewheel`: the same client, handlers, `advance` and `receive`, without CloudFormation, boto3's
    requests, an endpoint, or the real clock. A `MemoryTidewheel` is made in a tenth of a millisecond, and any number
    may exist at once.

    Args:
        start: start of virtual time: ISO 8601 (UTC if it names no zone) or a datetime.
        stack_name: prefix of the names of subscriptions' queues.
        bulk_window_s: how long messages that are not due soon are gathered before they are ingested.
        max_skew_ms: time added to the due time of each send, in case two clocks differ, as for a deployed service.
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
        clock = clock_from(start)
        super().__init__(clock, stack_name, topic_settings)
        self._queues = MemorySqs(clock)
        self.sqs = MemorySqsClient(self._queues)
        read = {URGENT: URGENT_QUEUE, BULK: bulk_queue(bulk_window_s), WORK: WORK_QUEUE}
        for name, settings in read.items():
            self._make_queue(name, settings)
        self.service = self._make_service(max_skew_ms)
        self._settings = self._service_settings()
        ports = self.service if wrap is None else wrap(self.service)
        self._functions = MemoryFunctions(ports, self._settings)
        triggers = MemoryTriggers(self.service, clock, self._functions)
        self._pump = Pump(clock, triggers, [self._source(name, each) for name, each in read.items()], FUNCTIONS)

    def open(self) -> Self:
        """Returns this object. A service in memory is open from the start."""
        return self

    def close(self) -> None:
        """Does nothing, because there is nothing to release."""

    def client(self) -> Tidewheel:
        """Returns the ordinary SDK client, on the ports in memory and the virtual clock."""
        client = Tidewheel(
            self._settings.stack,
            settings=self._settings,
            clock=self.service.clock,
            storage=self.service,
            sqs=cast("SQSClient", self.sqs),
        )
        client.core.connection.topic_defaults = self.topic_settings
        return client

    @property
    def logged(self) -> list[Failure]:
        """All failures that a function only logs, since the work queue or the sweep will retry the work."""
        return self._functions.logged

    def _make_service(self, max_skew_ms: int) -> MemoryService:
        return MemoryService.at(self.clock, self._queues, stack=self.stack_name, max_skew_ms=max_skew_ms)

    def queue(self, url: str) -> MemoryQueue:
        """Returns the queue with a URL, name or ARN, to inspect its contents.

        Raises:
            SqsError: there is no such queue.
        """
        return self._queues.queue(url)

    def _name(self, queue: str) -> str:
        # No subscription's queue can have such a name, since those names start with the stack's name and "-".
        return f"{self.stack_name}_{queue}"

    def _make_queue(self, name: str, settings: SourceQueue) -> None:
        """Makes a queue that a function reads, with its dead-letter queue."""
        kept = {"MessageRetentionPeriod": str(RETENTION_S)}
        dead = self._queues.create_queue(f"{self._name(name)}-dead", kept)
        redrive = {"deadLetterTargetArn": dead.arn, "maxReceiveCount": settings.receives}
        attributes = {**kept, "VisibilityTimeout": str(settings.visibility_s), "RedrivePolicy": json.dumps(redrive)}
        self._queues.create_queue(self._name(name), attributes)

    def _source(self, name: str, settings: SourceQueue) -> EventSource:
        """Makes the event source mapping of a queue."""
        function, queue = "deliver" if name == WORK else "ingest", self.queue(self._name(name))
        return EventSource(
            queue,
            self.clock,
            function=function,
            run=partial(self._functions.batch, function, queue.arn),
            batch_size=settings.batch_size,
            window_ms=round(settings.window_s * 1000),
        )

    def _service_settings(self) -> ServiceSettings:
        """Returns settings that name the queues. All other resources are in no account."""
        nowhere = {each.name: "memory" for each in settings_of(ServiceSettings).values() if each.required}
        queues = {f"{name}_queue_url": self.queue(self._name(name)).url for name in (URGENT, BULK, WORK, REFUSED)}
        given: dict[str, Any] = {**nowhere, **queues, "stack": self.stack_name, "merge_job": "memory"}
        return ServiceSettings(**given, max_skew_ms=self.service.max_skew_ms)
