"""Adds a transport to Celery on SQS for any countdown or ETA.

Celery puts a task with an ETA into its queue at once. The worker that receives the task keeps the task in memory until
the ETA. After the queue's visibility time-out, SQS makes the message visible again, another worker receives the same
task, and the task runs more than once. For such tasks, this transport sends kombu's message without the ETA to the
queue's topic. The message reaches the queue when the task is due, and a worker runs the task at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock, utc
from tidewheel.errors import InvalidValue, NotConfigured, needs_extra
from tidewheel.integrations.queue_topics import MAX_THRESHOLD_S, QueueTopics, check_threshold
from tidewheel.model.duration import read_time
from tidewheel.model.settings import NewTopicSettings
from tidewheel.model.topic import Subscription

with needs_extra(__name__, "celery"):
    from celery.utils.dispatch import Signal
    from kombu.transport import SQS

if TYPE_CHECKING:
    from celery import Celery

OPTION = "tidewheel"
"""The transport option that `install` sets."""
TRANSPORT = "tidewheel.integrations.celery:Transport"

task_delayed = Signal(name="tidewheel_task_delayed", providing_args={"task_id", "queue", "receipt"})
"""Sent after a task went to a topic, with the task's name as sender, its id, its queue, and the receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedTasks:
    """Decides which messages of an app go through Tidewheel.

    Attributes:
        topics: the topics of the app's queues.
        threshold_s: Celery handles ETAs up to this many seconds ahead itself.
        clock: the clock to which ETAs are compared.
    """

    topics: QueueTopics
    threshold_s: int
    clock: Clock

    def due(self, message: Mapping[str, Any]) -> datetime | None:
        """Returns the due time of a kombu message that must wait in a topic.

        Returns None if the message goes to its queue now.
        """
        text = (message.get("headers") or {}).get("eta")
        # A redelivered message is in its queue already. kombu only changes its visibility.
        if not isinstance(text, str) or message.get("redelivered"):
            return None
        eta = read_time(text)
        if eta is None:
            return None  # The worker reports the error.
        if eta.tzinfo is None:
            eta = eta.replace(tzinfo=UTC)  # as the worker does
        return eta if eta - utc(self.clock.now_ms()) > timedelta(seconds=self.threshold_s) else None


def install(
    app: Celery,
    *,
    tidewheel: Tidewheel,
    topics: Mapping[str, str] | None = None,
    threshold_s: int = MAX_THRESHOLD_S,
    clock: Clock | None = None,
) -> None:
    """Makes an app send countdowns and ETAs beyond a threshold through Tidewheel.

    Tasks and calls stay unchanged. Call this function where the app is configured, in producers and workers alike
    (workers also send retries and chains), after the last change of `broker_transport_options` and before the first
    message.

    Args:
        app: an app whose broker is SQS.
        tidewheel: the client.
        topics: topics of queues by the queue's name in SQS; default: the topic has the queue's name.
        threshold_s: Celery handles ETAs up to this many seconds ahead itself; 0 to 900.
        clock: the clock to which ETAs are compared; default: the client's.

    Raises:
        InvalidValue: the broker is not SQS, the message protocol has no headers, or an argument is not usable.
    """
    transport = app.connection_for_write().get_transport_cls()
    if transport is not SQS.Transport and not issubclass(transport, Transport):
        shown = f"{transport.__module__}:{transport.__qualname__}"
        how = f"use an sqs:// broker, or derive your transport from {TRANSPORT}"
        raise InvalidValue("broker transport", shown, how)
    if app.conf.task_protocol == 1:
        raise InvalidValue("task_protocol", 1, "its ETA is out of sight in the body; use 2, Celery's default since 4.0")
    delayed = DelayedTasks(
        topics=QueueTopics(tidewheel, topics),
        threshold_s=check_threshold(threshold_s),
        clock=clock or tidewheel.core.clock,
    )
    if transport is SQS.Transport:
        app.conf.broker_transport = TRANSPORT
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, OPTION: delayed}


def prepare(
    app: Celery, queues: Iterable[str] | None = None, **settings: Unpack[NewTopicSettings]
) -> list[Subscription]:
    """Creates each queue's topic, with the queue as its subscription. Existing topics are kept.

    Call this function once, at deployment. A queue that does not exist is created as Celery creates queues.

    Args:
        app: an app with `install` done.
        queues: Celery's names of queues; default: `task_queues`, or the default queue. Queues that only
            `task_routes` or calls name must be given.
        settings: settings of new topics, such as slot_s=60.

    Raises:
        NotConfigured: `install` was not called.
        InvalidValue: a FIFO queue, an invalid setting, or a topic that feeds other queues.
    """
    topics = _delayed_tasks(app.conf.broker_transport_options).topics
    subscriptions = []
    with app.connection_for_write() as connection:
        channel = connection.channel()
        for name in sorted(app.amqp.queues) if queues is None else queues:
            topics.topic(channel.canonical_queue_name(name))  # Refuses a FIFO queue before the queue is created.
            subscriptions.append(topics.prepare(channel._new_queue(name), **settings))  # noqa: SLF001  # kombu has no other
    return subscriptions


class Channel(SQS.Channel):
    """kombu's SQS channel, which sends delayed messages to the queue's topic."""

    _later: _Later | None = None

    def __init__(self, connection: Any, **options: Any) -> None:
        self._delayed = _delayed_tasks(connection.client.transport_options)
        super().__init__(connection, **options)  # type: ignore[no-untyped-call]

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        due = self._delayed.due(message)
        if due is None:
            super()._put(queue, message, **options)  # type: ignore[no-untyped-call]
            return
        now = {**message, "headers": {**message["headers"], "eta": None}}
        # kombu builds the request. Only the target differs.
        self._later = _Later(topics=self._delayed.topics, due=due, queue=queue, headers=message["headers"])
        try:
            super()._put(queue, now, **options)  # type: ignore[no-untyped-call]
        finally:
            self._later = None

    def sqs(self, queue: str | None = None) -> Any:
        """Returns the SQS client, or during a delayed `_put` a client for the topic."""
        client = super().sqs(queue)  # type: ignore[no-untyped-call]
        return client if self._later is None else replace(self._later, client=client)


class Transport(SQS.Transport):
    """kombu's SQS transport with any delay. The transport option `tidewheel` is a `DelayedTasks`."""

    Channel = Channel


@dataclass(frozen=True, kw_only=True)
class _Later:
    """An SQS client that sends a message to its topic."""

    topics: QueueTopics
    due: datetime
    queue: str
    headers: Mapping[str, Any]
    client: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def send_message(self, **request: Any) -> None:
        """Sends the message to the topic, without parameters specific to queues. Then sends `task_delayed`."""
        attributes = {}
        for name, value in request.get("MessageAttributes", {}).items():
            if value.get("DataType") != "String":
                raise InvalidValue(f"message attribute {name}", value, "only String attributes can wait; send text")
            attributes[name] = value["StringValue"]
        body, given = request["MessageBody"], attributes or None
        receipt = self.topics.send(request["QueueUrl"], body, deliver_at=self.due, attributes=given)
        name, id_ = self.headers.get("task"), self.headers.get("id")
        task_delayed.send(sender=name, task_id=id_, queue=self.queue, receipt=receipt)


def _delayed_tasks(transport_options: Mapping[str, Any]) -> DelayedTasks:
    found = transport_options.get(OPTION)
    if not isinstance(found, DelayedTasks):
        raise NotConfigured(
            f"the transport option {OPTION!r} is missing: call tidewheel.integrations.celery.install(app, ...) after "
            "broker_transport_options is set"
        )
    return found
