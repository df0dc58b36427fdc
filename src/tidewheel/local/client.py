"""Gives the SDK's client the local stack's settings as defaults of new topics."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, Unpack

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock

if TYPE_CHECKING:
    import boto3

    from tidewheel.model.received import ReceivedMessage
    from tidewheel.model.settings import NewTopicSettings, TopicSettings
    from tidewheel.model.topic_state import TopicState


class LocalClient(Tidewheel):
    """A Tidewheel client whose `create_topic` starts from the local stack's settings."""

    def __init__(self, stack_name: str, session: boto3.Session, clock: Clock, topic_settings: NewTopicSettings) -> None:
        super().__init__(stack_name, session=session, clock=clock)
        self._topic_settings = topic_settings

    def create_topic(
        self, name: str, *, settings: TopicSettings | None = None, **changes: Unpack[NewTopicSettings]
    ) -> TopicState:
        """As `Tidewheel.create_topic`, with defaults from the local stack's arguments."""
        if settings is None:
            changes = {**self._topic_settings, **changes}
        return super().create_topic(name, settings=settings, **changes)


class Visible(Protocol):
    """A queue with the time at which each message became receivable."""

    def visible_at_ms(self, sqs_message_id: str, /) -> int | None:
        """Returns when a message became receivable."""
        ...


def take_all(
    client: Tidewheel, queue_of: Callable[[str], Visible], topic: str, subscription: str
) -> list[ReceivedMessage]:
    """Receives and deletes all receivable messages of a subscription.

    Each message has the time at which it became receivable.
    """
    messages = client.receive(topic, subscription, max_messages=sys.maxsize)
    if not messages:
        return []
    [url] = [each.queue_url for each in client.subscriptions(topic) if each.name == subscription]
    queue = queue_of(url)
    visible = [queue.visible_at_ms(message.sqs_message_id) for message in messages]
    client.delete(topic, subscription, messages)
    return [
        replace(message, visible_at=None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC))
        for message, at_ms in zip(messages, visible, strict=True)
    ]
