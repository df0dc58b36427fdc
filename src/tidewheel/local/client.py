"""Gives the SDK's client the local stack's settings as defaults of new topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock

if TYPE_CHECKING:
    import boto3

    from tidewheel.model.settings import NewTopicSettings, TopicSettings
    from tidewheel.model.topic import Topic


class LocalClient(Tidewheel):
    """A Tidewheel client whose `create_topic` starts from the local stack's settings."""

    def __init__(self, stack_name: str, session: boto3.Session, clock: Clock, topic_settings: NewTopicSettings) -> None:
        super().__init__(stack_name, session=session, clock=clock)
        self._topic_settings = topic_settings

    def create_topic(
        self, name: str, *, settings: TopicSettings | None = None, **changes: Unpack[NewTopicSettings]
    ) -> Topic:
        """As `Tidewheel.create_topic`, with defaults from the local stack's arguments."""
        if settings is None:
            changes = {**self._topic_settings, **changes}
        return super().create_topic(name, settings=settings, **changes)
