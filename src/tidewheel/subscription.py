"""A subscription: a queue, and a cursor over its topic's plans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Whether plans are handed out to a subscription."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One named reader of a topic.

    Attributes:
        generation: tells apart subscriptions of the same name, one deleted and one created again.
        cursor: slots below it are handed out.
        start: slots below it are not delivered to it.
    """

    topic: str
    name: str
    generation: str
    queue_url: str
    cursor: int
    start: int
    state: State = State.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryKey:
    """Names a delivery: one plan handed out to one subscription."""

    topic: str
    subscription: str
    generation: str
    plan: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A plan handed out.

    Attributes:
        parts: how many units of work it has.
        done: parts that are finished.
        leases: part -> when a worker took it, in ms.
        start: the subscription's start.
        queue_url: where it goes.
        look_at_ms: when the sweep looks whether it is still open.
    """

    key: DeliveryKey
    queue_url: str
    parts: int
    start: int
    look_at_ms: int
    done: frozenset[int] = frozenset()
    leases: tuple[tuple[int, int], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every part is done."""
        return len(self.done) >= self.parts
