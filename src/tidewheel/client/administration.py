"""Administers topics and subscriptions, and purges, replays and redrives messages."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any, Unpack, cast

from tidewheel.client import subscriptions, topics
from tidewheel.client.known import Known
from tidewheel.client.redrive import RedriveResult, redrive_queue, redrive_service_queues
from tidewheel.client.subscriptions import FilterDocument
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration import subscribe
from tidewheel.flows.administration.purge import PurgeResult
from tidewheel.flows.administration.replay import ReplayResult
from tidewheel.model.settings import ChangeableSettings, NewTopicSettings, TopicSettings
from tidewheel.model.subscription import Subscription
from tidewheel.model.topic import Topic, check_name


class Administration(Known):
    """Methods of the client for administrators."""

    def create_topic(
        self, name: str, *, settings: TopicSettings | None = None, **changes: Unpack[NewTopicSettings]
    ) -> Topic:
        """Creates a topic, or returns the existing topic if its settings agree.

        Only slot_s, lookahead_s and settings that differ from the default are compared: a topic keeps the defaults of
        the release that created it.

        Args:
            name: 1 to 48 letters, digits, '-' or '_'.
            settings: all settings at once.
            **changes: single settings, named as TopicSettings' fields (slot_s=60); defaults for the rest.

        Raises:
            InvalidValue: the name or a setting is not usable.
            AlreadyExists: the topic exists with other settings.
            TopicDeleting: an earlier topic of this name is still being deleted.
        """
        check_name("topic", name)
        if settings is None:
            settings = TopicSettings(**_known_settings(changes))
        elif changes:
            raise InvalidValue("settings", changes, "give settings= or single settings, not both")
        elif not isinstance(settings, TopicSettings):
            raise InvalidValue("settings", settings, "give a TopicSettings, or single settings such as slot_s=60")
        state = subscribe.create_topic(self._connection.topics, self._clock, name, settings)
        self._remember_state(state)
        return Topic.of(state)

    def update_topic(self, name: str, **changes: Unpack[ChangeableSettings]) -> Topic:
        """Changes settings of a topic.

        The service uses the new settings from its next decision on. Other clients see them within a minute.

        Args:
            name: the topic.
            **changes: single settings, named as TopicSettings' fields; all can change but slot_s and lookahead_s.

        Raises:
            InvalidValue: the setting is unknown or fixed, or its value is not usable; nothing was changed.
            UnknownTopic: the topic does not exist.
        """
        state = topics.update(self._connection, self._clock, name, changes)
        self._remember_state(state)
        return Topic.of(state)

    def delete_topic(self, name: str, *, delete_queues: bool = False) -> None:
        """Deletes a topic with all its waiting messages.

        The topic is gone at once. The sweep then deletes its data from S3, DynamoDB and the scheduler; the name is free
        again after about ten minutes. Messages that another client sends meanwhile end in an ingest queue's dead-letter
        queue. Bodies that were too large for SQS are deleted too, so messages with such a body that are still in a
        subscription's queue can no longer be read.

        Args:
            name: the topic.
            delete_queues: whether to delete its subscriptions' queues and dead-letter queues too, with their messages.
                Queues that Tidewheel did not create always stay.

        Raises:
            InvalidValue: the name is not a topic's name.
            UnknownTopic: the topic does not exist.
        """
        topics.delete(self._connection, self._clock, name, delete_queues)
        self._forget(name)

    def purge(
        self, topic: str, *, start: datetime | float | None = None, end: datetime | float | None = None
    ) -> PurgeResult:
        """Drops all messages sent to a topic before now, or only messages due from `start` until before `end`.

        Messages that are already in the subscriptions' queues (due within the next 8 to 13 minutes, by default) stay
        there; purge these queues with SQS. Send times come from each sender's clock. If another client's clock is
        behind, messages that it sends shortly after the purge may be dropped too.

        Args:
            topic: the topic.
            start, end: aware datetimes or Unix seconds; without them, all messages.

        Raises:
            InvalidValue: a time is not usable, or the range is empty.
            UnknownTopic: the topic does not exist.
            TooManyPurges: 20 purged ranges are in force.
        """
        purged = topics.purge(self._connection, self._clock, topic, start, end)
        # The state read anew tells the time of the purge, so this client never gives a message an earlier send time.
        self._forget(topic)
        return purged

    def replay(
        self,
        topic: str,
        subscription: str,
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
    ) -> ReplayResult:
        """Delivers past messages, due from `start` until before `end`, again to one subscription.

        Messages are kept for `retention_s`; without this setting, until the next collection. Replayed messages keep
        their ids. Messages that were sent direct, without a ledger, do not come again; neither do cancelled, purged or
        expired messages. If the caller may not send to the work queue, the next sweep starts the replay.

        Args:
            topic: the topic.
            subscription: the subscription.
            start: an aware datetime or Unix seconds; default: the start of the kept messages.
            end: likewise; default: now.

        Returns:
            The replayed range; `first_ms` is later than `start` if a part of the range is not kept any more.

        Raises:
            InvalidValue: a time is not usable, the range is empty, or the subscription is paused.
            UnknownTopic, UnknownSubscription: it does not exist.
            RetentionExpired: nothing of the range is kept any more.
        """
        return topics.replay(self._connection, self._clock, topic, subscription, start, end)

    def redrive(self, topic: str, subscription: str) -> RedriveResult:
        """Moves a subscription's dead letters, unchanged, back to its queue.

        Raises:
            InvalidValue: a name is not usable, or the queue has no dead-letter queue.
            UnknownTopic, UnknownSubscription: it does not exist.
            QueueUnavailable: SQS refuses, for instance because a move is already under way.
        """
        return redrive_queue(self._connection.sqs, self._subscription(topic, subscription).queue_url)

    def redrive_service(self) -> list[RedriveResult]:
        """Moves the dead letters of the service's ingest queues and work queue back.

        Call this after the cause is removed.

        Raises:
            QueueUnavailable: SQS refuses; the moves of the queues before this queue go on.
        """
        return redrive_service_queues(self._connection.sqs, self._connection.settings)

    def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        initial_position: subscribe.InitialPosition = "latest",
        queue_url: str | None = None,
        visibility_timeout_s: int = 60,
        filter_policy: FilterDocument | None = None,
    ) -> Subscription:
        """Creates a subscription with its own queue, or returns the existing subscription.

        The queue is named `<stack>-<topic>-<name>`. A message that is received five times without being acknowledged
        goes to the queue `...-dead`. Both queues keep messages for 14 days.

        Args:
            topic: the topic.
            name: 1 to 48 letters, digits, '-' or '_'.
            initial_position: "latest": all messages sent from now on, and all waiting messages that are not dispatched
                yet (messages due within the next 8 to 13 minutes are dispatched, by default); "earliest": also all
                ledgers that are still kept.
            queue_url: an existing standard queue to use instead; its owner sets its policy.
            visibility_timeout_s: for a new queue, how long a received message stays invisible to others.
            filter_policy: which messages the subscription gets, by their attributes: a filter policy in Amazon SNS's
                syntax, as JSON or as a dict; default: all.

        Raises:
            InvalidValue: a value is not usable; this includes FIFO queues and invalid filters.
            UnknownTopic: the topic does not exist.
            AlreadyExists: the subscription has another queue or another filter.
            QueueUnavailable: no queue has this URL.
        """
        created = subscriptions.create(
            self._connection,
            self._clock,
            topic,
            name,
            initial_position,
            queue_url,
            visibility_timeout_s,
            filter_policy,
        )
        return Subscription.of(created)

    def pause(self, topic: str, subscription: str) -> Subscription:
        """Stops deliveries to a subscription until `resume`. No message is lost.

        Messages that were handed out before (due within the next 8 to 13 minutes, by default) still arrive. Ledgers
        with messages for a paused subscription are not collected. Pausing twice is harmless.

        Raises:
            InvalidValue: a name is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        return Subscription.of(subscriptions.pause(self._connection, topic, subscription))

    def resume(self, topic: str, subscription: str) -> Subscription:
        """Resumes deliveries to a subscription after a pause or the loss of the queue.

        Overdue messages come within seconds, in no particular order. If the caller may not send to the work queue, the
        next sweep resumes the deliveries within 300 s. Resuming an active subscription is harmless.

        Raises:
            InvalidValue: a name is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
            ConcurrentModification: other changes of the topic came first at every attempt.
        """
        return Subscription.of(subscriptions.resume(self._connection, self._clock, topic, subscription))

    def set_filter(self, topic: str, subscription: str, filter_policy: FilterDocument | None) -> Subscription:
        """Changes which messages a subscription gets from now on.

        The old filter still applies to messages that were handed out before (due within the next 8 to 13 minutes, by
        default).

        Args:
            topic: the topic.
            subscription: the subscription.
            filter_policy: as for `create_subscription`; None: all messages.

        Raises:
            InvalidValue: a name or the filter is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        return Subscription.of(subscriptions.set_filter(self._connection, topic, subscription, filter_policy))

    def delete_subscription(self, topic: str, subscription: str, *, delete_queue: bool = False) -> Subscription:
        """Deletes a subscription and its waiting messages. Other subscriptions are not affected.

        Args:
            topic: the topic.
            subscription: the subscription.
            delete_queue: whether to delete its queue and its dead-letter queue too, with their messages. Queues that
                Tidewheel did not create always stay.

        Returns:
            The deleted subscription.

        Raises:
            InvalidValue: a name is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        deleted = subscriptions.delete(self._connection, topic, subscription, delete_queue)
        with self._lock:
            self._subscriptions.pop((topic, subscription), None)
        return Subscription.of(deleted)

    def topics(self) -> list[Topic]:
        """Lists all topics by name. A topic created in the last second may be missing."""
        return [Topic.of(each) for each in self._connection.topics.topics()]

    def subscriptions(self, topic: str) -> list[Subscription]:
        """Lists a topic's subscriptions by name.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self._state(topic)
        return [Subscription.of(each) for each in self._connection.topics.subscriptions(topic)]


def _known_settings(given: NewTopicSettings) -> dict[str, Any]:
    changes = cast("dict[str, Any]", given)
    known = [field.name for field in fields(TopicSettings)]
    for name in changes:
        if name not in known:
            raise InvalidValue(name, changes[name], f"a topic has no such setting; it has {', '.join(known)}")
    return changes
