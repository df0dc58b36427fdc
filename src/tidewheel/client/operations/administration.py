"""Creates, changes and deletes topics and subscriptions for administrators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tidewheel.client.connection import Connection
from tidewheel.client.core import Core
from tidewheel.client.operations.subscription_queues import (
    check_given_queue,
    delete_queues,
    make_queue,
    reader_of,
    receives_of,
)
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration import delete_topic as deletion
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration import subscribe
from tidewheel.model.setting import check_names
from tidewheel.model.settings import NewTopicSettings, SubscriptionSettings, TopicSettings
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import TopicState


def create_topic(core: Core, name: str, settings: TopicSettings | None, changes: NewTopicSettings) -> TopicState:
    """Creates a topic. See `Tidewheel.create_topic`."""
    check_name("topic", name)
    if settings is None:
        given = cast("dict[str, Any]", changes)
        check_names(TopicSettings, given, "a topic")
        storage = core.connection.storage  # reads the defaults
        settings = TopicSettings(**{**core.connection.topic_defaults, **given})
        return subscribe.create_topic(storage, core.clock, name, settings, given=given)
    if changes:
        raise InvalidValue("settings", changes, "give settings= or single settings, not both")
    if not isinstance(settings, TopicSettings):
        raise InvalidValue("settings", settings, "give a TopicSettings, or single settings such as slot_s=60")
    return subscribe.create_topic(core.connection.storage, core.clock, name, settings)


def delete_topic(core: Core, name: str, delete_its_queues: bool) -> None:
    """Deletes a topic. See `Tidewheel.delete_topic`.

    The queues are deleted before the topic is marked as deleted, while the subscriptions still name them. If the
    process stops in between, a repetition continues. Until then, messages for the deleted queues are parked.
    """
    check_name("topic", name)
    connection = core.connection
    if delete_its_queues and connection.storage.topic_states.read(name) is not None:
        for each in connection.storage.subscriptions.all(name):
            delete_queues(connection.sqs, connection.stack, name, each.name, each.queue_url)
    deletion.delete_topic(connection.storage, core.clock, name)


def create_subscription(core: Core, topic: str, name: str, settings: SubscriptionSettings) -> SubscriptionState:
    """Creates a subscription. See `Tidewheel.create_subscription`.

    If the process stops after the queues are created, the next call finds them by their tags.
    """
    check_both(topic, name)
    connection, queue_url = core.connection, settings.queue_url
    state = connection.storage.topic_states.existing(topic)
    existing = connection.storage.subscriptions.read(topic, name)
    if existing is not None:
        if queue_url is not None:
            subscribe.check_same_queue(existing, queue_url)
        subscribe.check_same_settings(existing, settings)
        return existing
    reader = reader_of(settings.reader, settings.carry, own_queue=queue_url is not None)
    settings = replace(settings, reader=reader)
    if queue_url is None:
        receives = receives_of(reader, state.settings)
        queue_url = make_queue(connection.sqs, connection.stack, topic, name, settings, receives)
    else:
        check_given_queue(connection.sqs, queue_url)
    created = subscribe.create_subscription(
        connection.storage, core.clock, topic, name, queue_url, settings.initial_position, settings=settings
    )
    core.cache.forget(topic)  # receipts tell of what is not claimed
    subscribe.collect_soon(connection.storage, core.clock, topic)
    return created


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
