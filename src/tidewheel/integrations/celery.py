"""Celery on SQS with any countdown or ETA: a transport that sends what is due later through Tidewheel.

Celery puts a task with an ETA into its queue at once, and the worker that takes it keeps it in memory until then. SQS
makes the message visible again after the queue's visibility time-out, another worker takes it too, and the task runs
more than once. This transport puts what kombu would have put into the queue into the queue's topic instead, without
the ETA; the worker finds it when it is due and runs it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from tidewheel import clock as _clock
from tidewheel.errors import InvalidValue, NotConfigured, needs_extra
from tidewheel.integrations.queue_topics import MAX_THRESHOLD_S, QueueTopics, check_threshold

with needs_extra(__name__, "celery"):
    from celery.utils.dispatch import Signal
    from kombu.transport import SQS

if TYPE_CHECKING:
    from celery import Celery

    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.clock import Clock
    from tidewheel.model.message import Receipt
    from tidewheel.model.settings import NewTopicSettings
    from tidewheel.model.subscription import Subscription

OPTION = "tidewheel"
"""The transport option that `install` sets."""
TRANSPORT = "tidewheel.integrations.celery:Transport"

task_delayed = Signal(name="tidewheel_task_delayed", providing_args={"task_id", "queue", "receipt"})
"""Sent after a task went to a topic, with the task's name as sender, its id, its queue, and the receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedTasks:
    """Which messages of an app go through Tidewheel, and how.

    Attributes:
        topics: the topics of the app's queues.
        threshold_s: an ETA up to so far ahead is Celery's own affair.
        clock: what ETAs are compared with.
    """

    topics: QueueTopics
    threshold_s: int
    clock: Clock

    def due(self, message: Mapping[str, Any]) -> datetime | None:
        """Returns when a message of kombu's is due if it must wait in a topic; None if it goes to its queue now."""
        text = (message.get("headers") or {}).get("eta")
        # What is redelivered lies in its queue: kombu only changes its visibility.
        if not isinstance(text, str) or message.get("redelivered"):
            return None
        try:
            eta = datetime.fromisoformat(text)
        except ValueError:
            return None  # the worker says what is wrong with it
        if eta.tzinfo is None:
            eta = eta.replace(tzinfo=UTC)  # as the worker reads it
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        return eta if eta - now > timedelta(seconds=self.threshold_s) else None


def install(
    app: Celery,
    *,
    tidewheel: Tidewheel,
    topics: Mapping[str, str] | None = None,
    threshold_s: int = MAX_THRESHOLD_S,
    clock: Clock | None = None,
) -> None:
    """Makes an app send countdowns and ETAs beyond a threshold through Tidewheel; tasks and calls stay as they are.

    Call it where the app is configured, in producers and workers alike (workers send too: retries, chains), after the
    last change of `broker_transport_options` and before the first message.

    Args:
        app: an app whose broker is SQS.
        tidewheel: the client.
        topics: topics of queues by the queue's name in SQS; default: the topic has the queue's name.
        threshold_s: an ETA up to so many seconds ahead goes to the queue as ever; 0 to 900.
        clock: what ETAs are compared with; default: `tidewheel.clock.current()`.

    Raises:
        InvalidValue: the broker is not SQS, the message protocol has no headers, or an argument is not usable.
    """
    transport = app.connection_for_write().get_transport_cls()
    if transport is not SQS.Transport and not issubclass(transport, Transport):
        shown = f"{transport.__module__}:{transport.__qualname__}"
        raise InvalidValue(
            "broker transport", shown, f"use an sqs:// broker, or derive your transport from {TRANSPORT}"
        )
    if app.conf.task_protocol == 1:
        raise InvalidValue("task_protocol", 1, "its ETA is out of sight in the body; use 2, Celery's default since 4.0")
    delayed = DelayedTasks(
        topics=QueueTopics(tidewheel, topics),
        threshold_s=check_threshold(threshold_s),
        clock=clock or _clock.current(),
    )
    if transport is SQS.Transport:
        app.conf.broker_transport = TRANSPORT
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, OPTION: delayed}


def prepare(
    app: Celery, queues: Iterable[str] | None = None, **settings: Unpack[NewTopicSettings]
) -> list[Subscription]:
    """Makes each queue's topic, with the queue as its subscription, or finds them. Call it once, at deployment.

    A queue that does not exist is made as Celery makes it.

    Args:
        app: an app with `install` done.
        queues: Celery's names of queues; default: `task_queues`, or the default queue. Queues that only
            `task_routes` or calls name must be given.
        settings: of topics that are made, such as slot_s=60.

    Raises:
        NotConfigured: `install` was not called.
        InvalidValue: a FIFO queue, a setting that cannot be, or a topic that feeds other queues.
    """
    topics = _delayed_tasks(app.conf.broker_transport_options).topics
    subscriptions = []
    with app.connection_for_write() as connection:
        channel = connection.channel()
        for name in sorted(app.amqp.queues) if queues is None else queues:
            topics.topic(channel.canonical_queue_name(name))  # refuses a FIFO queue before it is made
            subscriptions.append(topics.prepare(channel._new_queue(name), **settings))
    return subscriptions


class Channel(SQS.Channel):
    """kombu's SQS channel; what is due later goes to the queue's topic."""

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
        # kombu itself makes the request; only where it is sent to differs.
        self._later = _Later(topics=self._delayed.topics, due=due, queue=queue, headers=message["headers"])
        try:
            super()._put(queue, now, **options)  # type: ignore[no-untyped-call]
        finally:
            self._later = None

    def sqs(self, queue: str | None = None) -> Any:
        """Returns the SQS client, or during a delayed `_put` one that sends to the topic."""
        client = super().sqs(queue)  # type: ignore[no-untyped-call]
        return client if self._later is None else _LaterClient(client, self._later)


class Transport(SQS.Transport):
    """kombu's SQS transport with delays of any length; its transport option `tidewheel` is a `DelayedTasks`."""

    Channel = Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Later:
    """One message on its way to a topic."""

    topics: QueueTopics
    due: datetime
    queue: str
    headers: Mapping[str, Any]

    def send(self, request: Mapping[str, Any]) -> Receipt:
        """Sends what a SendMessage request would have sent, less what SQS has for its queues only."""
        attributes = {}
        for name, value in request.get("MessageAttributes", {}).items():
            if value.get("DataType") != "String":
                raise InvalidValue(f"message attribute {name}", value, "only String attributes can wait; send text")
            attributes[name] = value["StringValue"]
        return self.topics.send(
            request["QueueUrl"], request["MessageBody"], deliver_at=self.due, attributes=attributes or None
        )


class _LaterClient:
    """An SQS client, but for what it does with a message."""

    def __init__(self, client: Any, later: _Later) -> None:
        self._client = client
        self._later = later

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send_message(self, **request: Any) -> None:
        """Sends to the topic and tells `task_delayed`."""
        later = self._later
        receipt = later.send(request)
        task_delayed.send(
            sender=later.headers.get("task"), task_id=later.headers.get("id"), queue=later.queue, receipt=receipt
        )


def _delayed_tasks(transport_options: Mapping[str, Any]) -> DelayedTasks:
    found = transport_options.get(OPTION)
    if not isinstance(found, DelayedTasks):
        raise NotConfigured(
            f"the transport option {OPTION!r} is missing: call tidewheel.integrations.celery.install(app, ...) after "
            "broker_transport_options is set"
        )
    return found
