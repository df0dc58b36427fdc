"""Creates, changes and deletes subscriptions for administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidewheel.client.connection import Connection
from tidewheel.client.subscription_queues import check_given_queue, delete_queues, make_queue
from tidewheel.errors import UnknownTopic
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration import subscribe
from tidewheel.model.settings import ChangeableSubscriptionSettings, SubscriptionSettings, stored_settings
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    from tidewheel.clock import Clock


def create(
    connection: Connection, clock: Clock, topic: str, name: str, settings: SubscriptionSettings
) -> SubscriptionState:
    """Creates a subscription. See `Tidewheel.create_subscription`.

    If the process stops after the queues are created, the next call finds them by their tags.
    """
    _check_names(topic, name)
    queue_url = settings.queue_url
    if connection.storage.topic_states.read(topic) is None:
        raise UnknownTopic(topic)
    existing = connection.storage.subscriptions.read(topic, name)
    if existing is not None:
        if queue_url is not None:
            subscribe.check_same_queue(existing, queue_url)
        subscribe.check_same_settings(existing, settings)
        return existing
    if queue_url is None:
        queue_url = make_queue(connection.sqs, connection.stack, topic, name, settings)
    else:
        check_given_queue(connection.sqs, queue_url)
    return subscribe.create_subscription(
        connection.storage, clock, topic, name, queue_url, settings.initial_position, settings=settings
    )


def pause(connection: Connection, topic: str, name: str) -> SubscriptionState:
    """Pauses a subscription. See `Tidewheel.pause`."""
    _check_names(topic, name)
    return states.pause(connection.storage, topic, name)


def resume(connection: Connection, clock: Clock, topic: str, name: str) -> SubscriptionState:
    """Resumes a subscription. See `Tidewheel.resume`."""
    from tidewheel.aws.sqs_queues import SqsQueues

    _check_names(topic, name)
    return states.resume(connection.storage, SqsQueues.of(connection.sqs, connection.settings), clock, topic, name)


def update(connection: Connection, topic: str, name: str, changes: ChangeableSubscriptionSettings) -> SubscriptionState:
    """Changes settings of a subscription. See `Tidewheel.set_filter`."""
    _check_names(topic, name)
    checked = stored_settings(changes)
    return states.update_subscription(connection.storage, topic, name, {each: checked[each] for each in changes})


def delete(connection: Connection, topic: str, name: str, delete_queue: bool) -> SubscriptionState:
    """Deletes a subscription. See `Tidewheel.delete_subscription`.

    If the process stops after the subscription is deleted, its queues stay. A new subscription of this name finds them.
    """
    _check_names(topic, name)
    deleted = states.delete_subscription(connection.storage, topic, name)
    if delete_queue:
        delete_queues(connection.sqs, connection.stack, topic, name, deleted.queue_url)
    return deleted


def _check_names(topic: str, name: str) -> None:
    check_name("topic", topic)
    check_name("subscription", name)
