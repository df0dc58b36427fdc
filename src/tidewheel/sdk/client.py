"""The client: everything that a program asks of Tidewheel."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidewheel import clock as _clock
from tidewheel.errors import InvalidValue, SendFailed, UnknownSubscription, UnknownTopic
from tidewheel.fence import Fence
from tidewheel.flows import subscribe
from tidewheel.message import IdSource, Message, Receipt, ReceivedMessage
from tidewheel.sdk import consumer
from tidewheel.sdk.connection import Connection
from tidewheel.sdk.sender import Sender
from tidewheel.sdk.stats import TopicStats, topic_stats
from tidewheel.sdk.subscription_queues import check_given_queue, check_visibility_timeout, make_queue
from tidewheel.settings import ServiceSettings, TopicSettings
from tidewheel.subscription import Subscription
from tidewheel.topic import check_name

if TYPE_CHECKING:
    import boto3

    from tidewheel.clock import Clock
    from tidewheel.flows.ports import Topics

CACHE_MS = 60_000
"""How long a topic's fence and a subscription's queue are taken as known."""


class Tidewheel:
    """A deployed Tidewheel service. One client serves any number of threads.

    Example:
        >>> tw = Tidewheel()
        >>> tw.send("orders", {"id": 17}, delay="3d")
    """

    def __init__(
        self,
        stack_name: str = "tidewheel",
        *,
        session: boto3.Session | None = None,
        settings: ServiceSettings | None = None,
        clock: Clock | None = None,
        endpoint_url: str | None = None,
        topics: Topics | None = None,
    ) -> None:
        """Makes a client; AWS is not called before the first method is.

        Args:
            stack_name: the stack whose SSM parameter holds the settings.
            session: boto3's session for region and credentials; default: boto3's own.
            settings: the service's settings, instead of the SSM parameter's.
            clock: where time comes from; default: `tidewheel.clock.current()`.
            endpoint_url: where AWS is, for the local runtime.
            topics: the metadata, for tests (`tidewheel.memory`); default: the stack's DynamoDB table.
        """
        self._connection = Connection(
            check_name("stack_name", stack_name),
            session=session,
            settings=settings,
            endpoint_url=endpoint_url,
            topics=topics,
        )
        self._clock = clock or _clock.current()
        self._ids = IdSource()
        self._lock = threading.Lock()
        self._fences: dict[str, tuple[int, Fence]] = {}
        self._subscriptions: dict[tuple[str, str], tuple[int, Subscription]] = {}

    # ---- administration

    def create_topic(self, name: str, *, settings: TopicSettings | None = None, **changes: int | None) -> Fence:
        """Creates a topic, or returns the one that has these settings already.

        Args:
            name: 1 to 48 letters, digits, '-' or '_'.
            settings: all settings at once.
            **changes: single settings, named as TopicSettings' fields (slot_s=60); defaults for the rest.

        Raises:
            InvalidValue: the name or a setting is not usable.
            AlreadyExists: the topic has other settings.
        """
        check_name("topic", name)
        if settings is None:
            settings = TopicSettings(**_known_settings(changes))
        elif changes:
            raise InvalidValue("settings", changes, "give settings= or single settings, not both")
        fence = subscribe.create_topic(self._connection.topics, self._clock, name, settings)
        self._remember_fence(fence)
        return fence

    def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        initial_position: subscribe.InitialPosition = "latest",
        queue_url: str | None = None,
        visibility_timeout_s: int = 60,
    ) -> Subscription:
        """Creates a subscription with a queue of its own, or returns the one that exists.

        The queue is named `<stack>-<topic>-<name>`; what is received five times without being acknowledged
        goes to the queue `...-dead`. Both keep messages for 14 days.

        Args:
            topic: the topic.
            name: 1 to 48 letters, digits, '-' or '_'.
            initial_position: "latest": all that is sent from now on, and all that waits and is not dispatched yet (what
                is due within the next 8 to 13 minutes is, by default); "earliest": all ledgers still kept, too.
            queue_url: an existing standard queue to use instead; its policy is its owner's affair.
            visibility_timeout_s: for a new queue: how long a received message stays invisible to others.

        Raises:
            InvalidValue: a value is not usable, a FIFO queue among them.
            UnknownTopic: the topic does not exist.
            AlreadyExists: the subscription has another queue.
            QueueUnavailable: there is no queue of this URL.
        """
        subscribe.check_new_subscription(topic, name, initial_position)
        check_visibility_timeout(visibility_timeout_s)
        connection = self._connection
        if connection.topics.fence(topic) is None:
            raise UnknownTopic(topic)
        existing = connection.topics.subscription(topic, name)
        if existing is not None:
            if queue_url is not None:
                subscribe.check_same_queue(existing, queue_url)
            return existing
        if queue_url is None:
            queue_url = make_queue(connection.sqs, connection.stack, topic, name, visibility_timeout_s)
        else:
            check_given_queue(connection.sqs, queue_url)
        return subscribe.create_subscription(connection.topics, self._clock, topic, name, queue_url, initial_position)

    def topics(self) -> list[Fence]:
        """Lists all topics by name; one that was created in the last second may be missing."""
        return self._connection.topics.topics()

    def subscriptions(self, topic: str) -> list[Subscription]:
        """Lists a topic's subscriptions by name.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self._fence(topic)
        return self._connection.topics.subscriptions(topic)

    def stats(self, topic: str) -> TopicStats:
        """Returns what waits in a topic and how far its subscriptions have come, from metadata alone.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        check_name("topic", topic)
        fence = self._connection.topics.fence(topic)
        if fence is None:
            raise UnknownTopic(topic)
        return topic_stats(self._connection.topics, self._connection.sqs, fence)

    # ---- sending

    def send(
        self,
        topic: str,
        body: Any,
        *,
        delay: float | timedelta | str | None = None,
        deliver_at: datetime | float | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Sends one message; when this returns, SQS keeps it durably.

        Args:
            topic: the topic.
            body: text, bytes, or anything that json.dumps takes.
            delay: seconds, a timedelta, or text such as "3d 4h"; at most ten years.
            deliver_at: an aware datetime or Unix seconds, instead of delay; a past time means now.
            attributes: up to nine names with text values, delivered as SQS message attributes.

        Raises:
            InvalidValue: something cannot be delivered; nothing was sent.
            UnknownTopic: the topic does not exist; nothing was sent.
            QueueUnavailable: SQS did not take it.
        """
        message = Message(body=body, delay=delay, deliver_at=deliver_at, attributes=attributes or {})
        try:
            return self.send_many(topic, [message])[0]
        except SendFailed as error:
            raise error.failures[0] from None

    def send_many(self, topic: str, messages: Iterable[Message]) -> list[Receipt]:
        """Sends many messages, packed into few SQS messages; the iterable is streamed.

        Returns:
            One receipt a message, in order.

        Raises:
            UnknownTopic: the topic does not exist; nothing was sent.
            SendFailed: some messages were not accepted, each named by its index; all others were sent.
        """
        fence = self._fence(topic)
        return Sender(self._connection, fence, self._clock, self._ids).send(messages)

    # ---- receiving

    def receive(
        self, topic: str, subscription: str, *, max_messages: int = 10, wait_s: int = 0
    ) -> list[ReceivedMessage]:
        """Takes messages from a subscription's queue; acknowledge them with `delete`.

        Args:
            topic: the topic.
            subscription: the subscription.
            max_messages: at most so many; above ten, SQS is called several times.
            wait_s: how long to wait for the first one, 0 to 20 seconds.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: there is none of this name.
        """
        consumer.check_receive(max_messages, wait_s)
        queue_url = self._subscription(topic, subscription).queue_url
        return consumer.receive(self._connection.sqs, queue_url, max_messages, wait_s)

    def delete(self, topic: str, subscription: str, messages: Iterable[ReceivedMessage]) -> None:
        """Acknowledges received messages, so that they do not come again.

        Raises:
            UnknownTopic, UnknownSubscription: there is none of this name.
            DeleteFailed: some could not be acknowledged; all others are.
        """
        queue_url = self._subscription(topic, subscription).queue_url
        consumer.delete(self._connection.sqs, queue_url, messages)

    # ---- what is known

    def _fence(self, topic: str) -> Fence:
        check_name("topic", topic)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._fences.get(topic)
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        fence = self._connection.topics.fence(topic)
        if fence is None:
            raise UnknownTopic(topic)
        self._remember_fence(fence)
        return fence

    def _remember_fence(self, fence: Fence) -> None:
        with self._lock:
            self._fences[fence.topic] = (self._clock.now_ms(), fence)

    def _subscription(self, topic: str, name: str) -> Subscription:
        check_name("topic", topic)
        check_name("subscription", name)
        now_ms = self._clock.now_ms()
        with self._lock:
            known = self._subscriptions.get((topic, name))
        if known is not None and now_ms - known[0] < CACHE_MS:
            return known[1]
        found = self._connection.topics.subscription(topic, name)
        if found is None:
            self._fence(topic)
            raise UnknownSubscription(topic, name)
        with self._lock:
            self._subscriptions[topic, name] = (now_ms, found)
        return found


def _known_settings(changes: Mapping[str, int | None]) -> dict[str, Any]:
    known = [field.name for field in fields(TopicSettings)]
    for name in changes:
        if name not in known:
            raise InvalidValue(name, changes[name], f"a topic has no such setting; it has {', '.join(known)}")
    return dict(changes)
