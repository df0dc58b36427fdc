"""Gives the SDK's client the local stack's settings as defaults of new topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock

if TYPE_CHECKING:
    import boto3

    from tidewheel.model.settings import NewTopicSettings


class LocalClient(Tidewheel):
    """A Tidewheel client whose `create_topic` starts from the local stack's settings."""

    def __init__(self, stack_name: str, session: boto3.Session, clock: Clock, topic_settings: NewTopicSettings) -> None:
        super().__init__(stack_name, session=session, clock=clock)
        self._topic_defaults = topic_settings
