"""Defines what users see of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidewheel.clock import utc
from tidewheel.model.subscription_state import State, SubscriptionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A named reader of a topic. Its messages go to an SQS queue.

    Attributes:
        topic: the topic's name.
        name: the subscription's name.
        queue_url: the queue that gets the messages.
        filter_policy: JSON of the filter policy. None: the subscription takes all messages.
        carry: "id" if each copy carries the message id as an attribute.
        state: ACTIVE, PAUSED, or BROKEN if the queue does not take messages.
        created_at: when the subscription was created. None: unknown after a rebuild.
    """

    topic: str
    name: str
    queue_url: str
    filter_policy: str | None = None
    carry: str | None = None
    state: State = State.ACTIVE
    created_at: datetime | None = None

    @classmethod
    def of(cls, state: SubscriptionState) -> Subscription:
        """Returns the subscription of a subscription state."""
        return cls(
            topic=state.topic,
            name=state.name,
            queue_url=state.queue_url,
            state=state.state,
            created_at=None if state.created_at_ms is None else utc(state.created_at_ms),
            **state.stored(),
        )
