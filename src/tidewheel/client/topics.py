"""Creates, updates, purges, deletes and replays topics for administrators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from tidewheel.client.connection import Connection
from tidewheel.client.subscription_queues import delete_queues
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration import delete_topic as deletion
from tidewheel.flows.administration import purge as purges
from tidewheel.flows.administration import replay as replays
from tidewheel.flows.administration import subscribe
from tidewheel.flows.administration import update_topic as updates
from tidewheel.model.duration import at_ms
from tidewheel.model.setting import check_names
from tidewheel.model.settings import NewTopicSettings, TopicSettings
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    from tidewheel.clock import Clock
    from tidewheel.model.topic_state import TopicState

Time = datetime | float
"""A time from callers: an aware datetime, or Unix seconds."""


def create(
    connection: Connection,
    clock: Clock,
    name: str,
    settings: TopicSettings | None,
    changes: NewTopicSettings,
    defaults: NewTopicSettings,
) -> TopicState:
    """Creates a topic. See `Tidewheel.create_topic`. A new topic has `defaults` in place of those of TopicSettings."""
    check_name("topic", name)
    if settings is None:
        given = cast("dict[str, Any]", changes)
        check_names(TopicSettings, given, "a topic")
        settings = TopicSettings(**{**defaults, **given})
        return subscribe.create_topic(connection.storage, clock, name, settings, given=given)
    if changes:
        raise InvalidValue("settings", changes, "give settings= or single settings, not both")
    if not isinstance(settings, TopicSettings):
        raise InvalidValue("settings", settings, "give a TopicSettings, or single settings such as slot_s=60")
    return subscribe.create_topic(connection.storage, clock, name, settings)


def update(connection: Connection, clock: Clock, name: str, changes: Mapping[str, Any]) -> TopicState:
    """Changes settings of a topic. See `Tidewheel.update_topic`."""
    check_name("topic", name)
    return updates.update_topic(connection.storage, clock, name, changes)


def purge(connection: Connection, clock: Clock, topic: str, start: Time | None, end: Time | None) -> purges.PurgeResult:
    """Drops messages sent before now. See `Tidewheel.purge`."""
    check_name("topic", topic)
    first_ms, end_ms = _bounds(start, end)
    return purges.purge(connection.storage, clock, topic, first_ms=first_ms, end_ms=end_ms)


def delete(connection: Connection, clock: Clock, name: str, delete_its_queues: bool) -> None:
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
    from tidewheel.aws.sqs_queues import SqsQueues

    check_name("topic", topic)
    check_name("subscription", subscription)
    first_ms, end_ms = _bounds(start, end)
    enqueue = SqsQueues.of(connection.sqs, connection.settings).enqueue_parts
    return replays.replay(
        connection.storage, clock, topic, subscription, first_ms=first_ms, end_ms=end_ms, enqueue=enqueue
    )


def _bounds(start: Time | None, end: Time | None) -> tuple[int | None, int | None]:
    return None if start is None else at_ms("start", start), None if end is None else at_ms("end", end)
