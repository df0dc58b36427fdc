"""Defines topics and subscriptions as users see them, and checks their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidewheel.clock import utc
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import State, SubscriptionState

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
        problem: why the topic cannot be read, and what to do. Then only the name is right. None: it can be read.
    """

    name: str
    settings: TopicSettings
    created_at: datetime | None = None
    waiting: int = 0
    recurring: int = 0
    problem: str | None = None

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

    @classmethod
    def unreadable(cls, name: str, error: Exception) -> Topic:
        """Returns a topic whose state cannot be read."""
        return cls(name=name, settings=TopicSettings(), problem=str(error))


def check_name(kind: str, name: object) -> str:
    """Returns a valid name of a topic or subscription.

    The limit is 48 characters because a schedule's name (at most 64) holds the topic's name and a slot.

    Raises:
        InvalidValue: the name does not match `[A-Za-z0-9_-]{1,48}`.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidValue(kind, name, "use 1 to 48 letters, digits, '-' or '_'")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A named reader of a topic. Its messages go to an SQS queue.

    Attributes:
        topic: the topic's name.
        name: the subscription's name.
        queue_url: the queue that gets the messages.
        filter_policy: JSON of the filter policy. None: the subscription takes all messages.
        carry: "id" if each copy carries the message id as an attribute.
        reader: "tidewheel" if its consumers claim messages, "plain" if they do not; None: not declared.
        state: ACTIVE, PAUSED, or BROKEN if the queue does not take messages.
        created_at: when the subscription was created.
    """

    topic: str
    name: str
    queue_url: str
    filter_policy: str | None = None
    carry: str | None = None
    reader: str | None = None
    state: State = State.ACTIVE
    created_at: datetime

    @classmethod
    def of(cls, state: SubscriptionState) -> Subscription:
        """Returns the subscription of a subscription state."""
        return cls(
            topic=state.topic,
            name=state.name,
            queue_url=state.queue_url,
            state=state.state,
            created_at=utc(state.created_at_ms),
            **state.stored(),
        )
