"""Defines what users see of a topic, and checks the names of topics and subscriptions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidewheel.clock import utc
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import TopicSettings

if TYPE_CHECKING:
    from tidewheel.model.topic_state import TopicState

_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A named stream of messages.

    Attributes:
        name: the name that callers send to.
        settings: the topic's settings.
        created_at: when the topic was created. None: unknown after a rebuild without a checkpoint.
        waiting: an estimate of the messages in ledgers that are not on their way yet. `stats` counts them.
        recurring: the number of recurring messages.
    """

    name: str
    settings: TopicSettings
    created_at: datetime | None = None
    waiting: int = 0
    recurring: int = 0

    @classmethod
    def of(cls, state: TopicState) -> Topic:
        """Returns the topic of a topic state."""
        return cls(
            name=state.topic,
            settings=state.settings,
            created_at=None if state.created_at_ms is None else utc(state.created_at_ms),
            waiting=state.waiting,
            recurring=state.recurring,
        )


def check_name(kind: str, name: object) -> str:
    """Returns a valid name of a topic or subscription.

    The limit is 48 characters because a schedule's name (at most 64) holds the topic's name and a slot.

    Raises:
        InvalidValue: the name does not match `[A-Za-z0-9_-]{1,48}`.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidValue(kind, name, "use 1 to 48 letters, digits, '-' or '_'")
    return name
