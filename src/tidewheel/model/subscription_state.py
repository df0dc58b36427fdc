"""Defines the state of subscriptions, each a queue and a cursor over its topic's plans.

         pause                       mark_broken: its queue does not take messages
PAUSED <--------- ACTIVE, BROKEN             ACTIVE ---------> BROKEN
       ---------> ACTIVE                     ACTIVE <--------- BROKEN
         resume                      resume, or a drain that got through

state     plans              direct messages      parts that a worker has     parks
ACTIVE    are handed out     are sent             are sent                    are drained
PAUSED    wait               are parked           are sent                    wait
BROKEN    are handed out     are parked           are sent                    are drained: that tries the queue

What a queue does not take is parked in each state.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidewheel.model.settings import StoredSettings


class State(StrEnum):
    """Whether a subscription's messages go to the queue."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    """Nothing new enters the queue, and the cursor does not move."""
    BROKEN = "BROKEN"
    """The queue is gone or refuses every message. Its work is parked, so that its ledgers can be collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionState(StoredSettings):
    """The state of one subscription, a named reader of a topic, with its settings.

    Attributes:
        generation: distinguishes subscriptions with the same name, when a deleted name is used again.
        cursor: slots below the cursor are handed out.
        start: slots below the start are not delivered to this subscription.
        created_at_ms: when the subscription was created. None: unknown.
    """

    topic: str
    name: str
    generation: str
    queue_url: str
    cursor: int
    start: int
    state: State = State.ACTIVE
    created_at_ms: int | None = None

    @property
    def owned(self) -> dict[str, str]:
        """The fields of `Owned` for what belongs to this subscription."""
        return {"topic": self.topic, "subscription": self.name, "generation": self.generation}

    @property
    def takes_plans(self) -> bool:
        """Whether plans are handed out to this subscription."""
        return self.state is not State.PAUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Names what belongs to one generation of a subscription."""

    topic: str
    subscription: str
    generation: str

    @property
    def owner(self) -> tuple[str, str, str]:
        """The topic, the subscription and its generation."""
        return self.topic, self.subscription, self.generation

    @property
    def owned(self) -> dict[str, str]:
        """The same as fields, by name."""
        return {"topic": self.topic, "subscription": self.subscription, "generation": self.generation}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryKey(Owned):
    """Names a delivery of a plan to a subscription.

    Attributes:
        replay: id of a replay that delivers the plan again. It separates the deliveries of a plan, so that a late
            worker of one delivery does not touch another.
    """

    plan: int
    replay: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A plan handed out to a subscription.

    Attributes:
        parts: how many units of work the delivery has.
        done: parts that are finished.
        leases: part -> when a worker took the part, in ms.
        start: the subscription's start.
        queue_url: the queue to which messages are sent.
        next_check_ms: when the sweep checks whether the delivery is still open.
        filter_policy: the subscription's filter policy when the plan was handed out.
        carry: the subscription's setting.
        first_ms, end_ms: of a replay. Rows due outside of [first_ms, end_ms) are not sent.
    """

    key: DeliveryKey
    queue_url: str
    parts: int
    start: int
    next_check_ms: int
    done: frozenset[int] = frozenset()
    leases: tuple[tuple[int, int], ...] = ()
    filter_policy: str | None = None
    carry: str | None = None
    first_ms: int | None = None
    end_ms: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every part is done."""
        return len(self.done) >= self.parts
