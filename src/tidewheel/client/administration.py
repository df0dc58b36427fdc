"""Topics and subscriptions: made, changed, listed and deleted; purge, replay and redrive."""

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
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import TopicState


class Administration(Known):
    """What administrators do."""

    def create_topic(
        self, name: str, *, settings: TopicSettings | None = None, **changes: Unpack[NewTopicSettings]
    ) -> TopicState:
        """Creates a topic, or returns the one that there is, if it has what is asked for.

        Asked for are slot_s, lookahead_s and what is not the default: a topic keeps the defaults of the release that
        made it.

        Args:
            name: 1 to 48 letters, digits, '-' or '_'.
            settings: all settings at once.
            **changes: single settings, named as TopicSettings' fields (slot_s=60); defaults for the rest.

        Raises:
            InvalidValue: the name or a setting is not usable.
            AlreadyExists: the topic has other settings than those asked for.
            TopicDeleting: the last topic of this name is not gone yet.
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
        return state

    def update_topic(self, name: str, **changes: Unpack[ChangeableSettings]) -> TopicState:
        """Changes settings of a topic, from its next decision on; other clients see them within a minute.

        Args:
            name: the topic.
            **changes: single settings, named as TopicSettings' fields: all but slot_s and lookahead_s.

        Raises:
            InvalidValue: there is no such setting, it is fixed, or its value is not usable; nothing was changed.
            UnknownTopic: the topic does not exist.
        """
        state = topics.update(self._connection, self._clock, name, changes)
        self._remember_state(state)
        return state

    def delete_topic(self, name: str, *, delete_queues: bool = False) -> None:
        """Deletes a topic with all that waits in it; nothing of it remains in S3, DynamoDB or the scheduler.

        The topic is gone at once, the rest is taken away by the sweep; the name is free again after about ten minutes.
        What another client sends to it meanwhile ends in an ingest queue's dead-letter queue. Bodies that were too
        large for SQS go too, so what waits in a subscription's queue with such a body cannot be read any more.

        Args:
            name: the topic.
            delete_queues: whether to delete its subscriptions' queues and dead-letter queues too, with what is in
                them. Queues that Tidewheel did not make stay in any case.

        Raises:
            InvalidValue: it is not a topic's name.
            UnknownTopic: the topic does not exist.
        """
        topics.delete(self._connection, self._clock, name, delete_queues)
        self._forget(name)

    def purge(
        self, topic: str, *, start: datetime | float | None = None, end: datetime | float | None = None
    ) -> PurgeResult:
        """Drops what was sent to a topic until now: all of it, or what is due from `start` on and before `end`.

        What is in the subscriptions' queues already (due within the next 8 to 13 minutes, by default) is not called
        back; purge those queues with SQS. Another client's clock tells when it sent: what it sends within the
        difference of the clocks may be taken for sent before.

        Args:
            topic: the topic.
            start, end: aware datetimes or Unix seconds; without them, everything.

        Raises:
            InvalidValue: a time is not usable, or the range is empty.
            UnknownTopic: the topic does not exist.
            TooManyPurges: 20 purged ranges are in force.
        """
        purged = topics.purge(self._connection, self._clock, topic, start, end)
        # What this client sends from now on is then not taken for sent before, whatever the clocks.
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
        """Delivers again, to one subscription, what was due from `start` on and before `end`, while it is kept.

        How long that is, the setting `retention_s` says; without it, until the next collection. The messages have the
        ids that they had. Those that were due so soon that they went without a ledger do not come again, nor what was
        cancelled, purged or has expired. A caller who may not send to the work queue has it done by the next sweep.

        Args:
            topic: the topic.
            subscription: the subscription.
            start: an aware datetime or Unix seconds; default: all that is kept.
            end: likewise; default: now.

        Returns:
            What comes again; `first_ms` is later than `start` if a part of the range is not kept any more.

        Raises:
            InvalidValue: a time is not usable, the range is empty, or the subscription is paused.
            UnknownTopic, UnknownSubscription: there is none of this name.
            RetentionExpired: nothing of the range is kept any more.
        """
        return topics.replay(self._connection, self._clock, topic, subscription, start, end)

    def redrive(self, topic: str, subscription: str) -> RedriveResult:
        """Moves what is in a subscription's dead-letter queue back to its queue; they stay as they are.

        Raises:
            InvalidValue: a name is not one, or the queue has no dead-letter queue.
            UnknownTopic, UnknownSubscription: there is none of this name.
            QueueUnavailable: SQS refuses, for instance since a move is under way already.
        """
        return redrive_queue(self._connection.sqs, self._subscription(topic, subscription).queue_url)

    def redrive_service(self) -> list[RedriveResult]:
        """Does the same for the service's own ingest queues and its work queue, once the cause is removed.

        Raises:
            QueueUnavailable: SQS refuses; the queues before are being emptied.
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
            filter_policy: which messages it gets, by their attributes: a filter policy in Amazon SNS's syntax, as JSON
                or as a dict; default: all.

        Raises:
            InvalidValue: a value is not usable, a FIFO queue or a filter that is none among them.
            UnknownTopic: the topic does not exist.
            AlreadyExists: the subscription has another queue or another filter.
            QueueUnavailable: there is no queue of this URL.
        """
        return subscriptions.create(
            self._connection,
            self._clock,
            topic,
            name,
            initial_position,
            queue_url,
            visibility_timeout_s,
            filter_policy,
        )

    def pause(self, topic: str, subscription: str) -> Subscription:
        """Lets nothing new enter a subscription's queue until it is resumed; nothing is lost meanwhile.

        What was handed out before (what is due within the next 8 to 13 minutes, by default) still arrives. A paused
        subscription keeps the ledgers that it has not had from being collected. To pause one twice is harmless.

        Raises:
            InvalidValue: a name is not one.
            UnknownTopic, UnknownSubscription: there is none of this name.
        """
        return subscriptions.pause(self._connection, topic, subscription)

    def resume(self, topic: str, subscription: str) -> Subscription:
        """Sends on what waits for a paused subscription, or for one whose queue was gone; within seconds.

        A caller who may not send to the work queue has it done by the next sweep, within 300 s. What is overdue comes
        at once, in no particular order. To resume one that is active is harmless.

        Raises:
            InvalidValue: a name is not one.
            UnknownTopic, UnknownSubscription: there is none of this name.
            Contended: other changes of the topic came first each time.
        """
        return subscriptions.resume(self._connection, self._clock, topic, subscription)

    def set_filter(self, topic: str, subscription: str, filter_policy: FilterDocument | None) -> Subscription:
        """Changes which messages a subscription gets, from now on.

        What was handed out before (what is due within the next 8 to 13 minutes, by default) goes by the old filter.

        Args:
            topic: the topic.
            subscription: the subscription.
            filter_policy: as for `create_subscription`; None: all messages.

        Raises:
            InvalidValue: a name, or the filter, is not one.
            UnknownTopic, UnknownSubscription: there is none of this name.
        """
        return subscriptions.set_filter(self._connection, topic, subscription, filter_policy)

    def delete_subscription(self, topic: str, subscription: str, *, delete_queue: bool = False) -> Subscription:
        """Deletes a subscription and all that waits for it; other subscriptions are not affected.

        Args:
            topic: the topic.
            subscription: the subscription.
            delete_queue: whether to delete its queue and its dead-letter queue too, with what is in them. Queues that
                Tidewheel did not make stay in any case.

        Returns:
            The subscription as it was.

        Raises:
            InvalidValue: a name is not one.
            UnknownTopic, UnknownSubscription: there is none of this name.
        """
        deleted = subscriptions.delete(self._connection, topic, subscription, delete_queue)
        with self._lock:
            self._subscriptions.pop((topic, subscription), None)
        return deleted

    def topics(self) -> list[TopicState]:
        """Lists all topics by name; one that was created in the last second may be missing."""
        return self._connection.topics.topics()

    def subscriptions(self, topic: str) -> list[Subscription]:
        """Lists a topic's subscriptions by name.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self._state(topic)
        return self._connection.topics.subscriptions(topic)


def _known_settings(given: NewTopicSettings) -> dict[str, Any]:
    changes = cast("dict[str, Any]", given)
    known = [field.name for field in fields(TopicSettings)]
    for name in changes:
        if name not in known:
            raise InvalidValue(name, changes[name], f"a topic has no such setting; it has {', '.join(known)}")
    return changes
