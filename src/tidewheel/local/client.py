"""The SDK's client as a local stack hands it out: with the stack's settings as the default of new topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidewheel.clock import Clock
from tidewheel.sdk.client import Tidewheel

if TYPE_CHECKING:
    import boto3

    from tidewheel.fence import Fence
    from tidewheel.settings import TopicSettings


class LocalClient(Tidewheel):
    """A Tidewheel client whose `create_topic` starts from the local stack's settings."""

    def __init__(
        self, stack_name: str, session: boto3.Session, clock: Clock, topic_settings: Mapping[str, int | None]
    ) -> None:
        super().__init__(stack_name, session=session, clock=clock)
        self._topic_settings = topic_settings

    def create_topic(self, name: str, *, settings: TopicSettings | None = None, **changes: Any) -> Fence:
        """As `Tidewheel.create_topic`; what is not given comes from the local stack's arguments."""
        if settings is None:
            changes = {**self._topic_settings, **changes}
        return super().create_topic(name, settings=settings, **changes)
