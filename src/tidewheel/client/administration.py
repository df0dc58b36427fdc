"""Creates, changes and deletes topics and subscriptions for administrators."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.client.connection import Connection
from tidewheel.client.subscription_queues import (
    CLAIMED_RECEIVE_COUNT,
    MAX_RECEIVE_COUNT,
    check_given_queue,
    delete_queues,
    make_queue,
)
from tidewheel.clock import Clock
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration import delete_topic as deletion
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration import purge as purges
from tidewheel.flows.administration import replay as replays
from tidewheel.flows.administration import subscribe
from tidewheel.model.duration import at_ms
from tidewheel.model.setting import check_names
from tidewheel.model.settings import NewTopicSettings, SubscriptionSettings, TopicSettings
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import unless_denied
from tidewheel.storage.topic_list import GAP_MS

Time = datetime | float
"""A time from callers: an aware datetime, or Unix seconds."""


def create_topic(
    connection: Connection,
    clock: Clock,
    name: str,
    settings: TopicSettings | None,
    changes: NewTopicSettings,
) -> TopicState:
    """Creates a topic. See `Tidewheel.create_topic`."""
    check_name("topic", name)
    if settings is None:
        given = cast("dict[str, Any]", changes)
        check_names(TopicSettings, given, "a topic")
        storage = connection.storage  # reads the defaults
        settings = TopicSettings(**{**connection.topic_defaults, **given})
        return subscribe.create_topic(storage, clock, name, settings, given=given)
    if changes:
        raise InvalidValue("settings", changes, "give settings= or single settings, not both")
    if not isinstance(settings, TopicSettings):
        raise InvalidValue("settings", settings, "give a TopicSettings, or single settings such as slot_s=60")
    return subscribe.create_topic(connection.storage, clock, name, settings)


def topics(storage: Storage, now_ms: int) -> list[TopicState]:
    """Lists all topics by name. See `Tidewheel.topics`.

    The list of their names counts if nothing is missing. Otherwise the whole table is read, and the list is completed
    where sweeps of this release keep it so.
    """
    names, complete = list[str](), False
    with unless_denied():
        names, complete = storage.topic_list.read()
        if complete:
            return storage.topic_states.of(names)
    states = storage.topic_states.all()
    with unless_denied():
        swept_ms = storage.checks.swept_at_ms()
        if not complete and swept_ms is not None and swept_ms > now_ms - GAP_MS:
            storage.topic_list.add(each.topic for each in states if each.topic not in names)
            storage.topic_list.mark()
    return states


def purge(connection: Connection, clock: Clock, topic: str, start: Time | None, end: Time | None) -> purges.PurgeResult:
    """Drops messages sent before now. See `Tidewheel.purge`."""
    check_name("topic", topic)
    first_ms, end_ms = _bounds(start, end)
    return purges.purge(connection.storage, clock, topic, first_ms=first_ms, end_ms=end_ms)


def delete_topic(connection: Connection, clock: Clock, name: str, delete_its_queues: bool) -> None:
    """Deletes a topic. See `Tidewheel.delete_topic`.

    The queues are deleted before the topic is marked as deleted, while the subscriptions still name them. If the
    process stops in between, a repetition continues. Until then, messages for the deleted queues are parked.
    """
    check_name("topic", name)
    if delete_its_queues and connection.storage.topic_states.read(name) is not None:
        for each in connection.storage.subscriptions.all(name):
            delete_queues(connection.sqs, connection.stack, name, each.name, each.queue_url)
    deletion.delete_topic(connection.storage, clock, name)


def replay(
    connection: Connection, clock: Clock, topic: str, subscription: str, start: Time | None, end: Time | None
) -> replays.ReplayResult:
    """Delivers past messages again. See `Tidewheel.replay`."""
    check_both(topic, subscription)
    first_ms, end_ms = _bounds(start, end)
    enqueue = SqsQueues.of(connection.sqs, connection.settings).enqueue_parts
    return replays.replay(
        connection.storage, clock, topic, subscription, first_ms=first_ms, end_ms=end_ms, enqueue=enqueue
    )


def create_subscription(
    connection: Connection, clock: Clock, topic: str, name: str, settings: SubscriptionSettings
) -> SubscriptionState:
    """Creates a subscription. See `Tidewheel.create_subscription`.

    If the process stops after the queues are created, the next call finds them by their tags.
    """
    check_both(topic, name)
    queue_url = settings.queue_url
    state = connection.storage.topic_states.existing(topic)
    existing = connection.storage.subscriptions.read(topic, name)
    if existing is not None:
        if queue_url is not None:
            subscribe.check_same_queue(existing, queue_url)
        subscribe.check_same_settings(existing, settings)
        return existing
    if queue_url is None:
        receives = CLAIMED_RECEIVE_COUNT if state.settings.claimed else MAX_RECEIVE_COUNT
        queue_url = make_queue(connection.sqs, connection.stack, topic, name, settings, receives)
    else:
        check_given_queue(connection.sqs, queue_url)
    return subscribe.create_subscription(
        connection.storage, clock, topic, name, queue_url, settings.initial_position, settings=settings
    )


def resume(connection: Connection, clock: Clock, topic: str, name: str) -> SubscriptionState:
    """Resumes a subscription. See `Tidewheel.resume`."""
    check_both(topic, name)
    return states.resume(connection.storage, SqsQueues.of(connection.sqs, connection.settings), clock, topic, name)


def delete_subscription(connection: Connection, topic: str, name: str, delete_queue: bool) -> SubscriptionState:
    """Deletes a subscription. See `Tidewheel.delete_subscription`.

    If the process stops after the subscription is deleted, its queues stay. A new subscription of this name finds them.
    """
    check_both(topic, name)
    deleted = states.delete_subscription(connection.storage, topic, name)
    if delete_queue:
        delete_queues(connection.sqs, connection.stack, topic, name, deleted.queue_url)
    return deleted


def check_both(topic: str, subscription: str) -> None:
    """Raises InvalidValue unless these can be names of a topic and of a subscription."""
    check_name("topic", topic)
    check_name("subscription", subscription)


def _bounds(start: Time | None, end: Time | None) -> tuple[int | None, int | None]:
    return None if start is None else at_ms("start", start), None if end is None else at_ms("end", end)
