"""A subscription: a queue, and a cursor over its topic's plans.

         pause                       mark_broken: its queue does not take messages
PAUSED <--------- ACTIVE, BROKEN             ACTIVE ---------> BROKEN
       ---------> ACTIVE                     ACTIVE <--------- BROKEN
         resume                      resume, or a drain that got through

state     plans              direct messages      parts that a worker has     parks
ACTIVE    are handed out     are sent             are sent                    are drained
PAUSED    wait               are parked           are sent                    wait
BROKEN    are handed out     are parked           are parked when refused     are drained: that tries the queue
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Whether a subscription's messages go to its queue."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    """Told to wait: nothing new enters its queue, and its cursor stands."""
    BROKEN = "BROKEN"
    """Its queue is gone or refuses everything: its work is parked, so that it keeps no ledger from being collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One named reader of a topic.

    Attributes:
        generation: tells apart subscriptions of the same name, one deleted and one created again.
        cursor: slots below it are handed out.
        start: slots below it are not delivered to it.
        filter_policy: JSON of the `FilterPolicy` of what it takes; None: everything.
    """

    topic: str
    name: str
    generation: str
    queue_url: str
    cursor: int
    start: int
    state: State = State.ACTIVE
    filter_policy: str | None = None

    @property
    def takes_plans(self) -> bool:
        """Whether plans are handed out to it."""
        return self.state is not State.PAUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryKey:
    """Names a delivery: one plan handed out to one subscription.

    Attributes:
        replay: of a plan that is delivered again: tells it apart from any other delivery of that plan, so that a late
            worker of one does not touch the other.
    """

    topic: str
    subscription: str
    generation: str
    plan: int
    replay: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A plan handed out.

    Attributes:
        parts: how many units of work it has.
        done: parts that are finished.
        leases: part -> when a worker took it, in ms.
        start: the subscription's start.
        queue_url: where it goes.
        next_check_ms: when the sweep looks whether it is still open.
        filter_policy: the subscription's when the plan was handed out.
        first_ms, end_ms: of a replay: rows due outside of [first_ms, end_ms) are not sent.
    """

    key: DeliveryKey
    queue_url: str
    parts: int
    start: int
    next_check_ms: int
    done: frozenset[int] = frozenset()
    leases: tuple[tuple[int, int], ...] = ()
    filter_policy: str | None = None
    first_ms: int | None = None
    end_ms: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every part is done."""
        return len(self.done) >= self.parts
