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

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import add
from typing import NamedTuple

from tidewheel.model.settings import StoredSettings

DAMAGED_AFTER_TRIES = 3
"""A stuck delivery is damaged from this try of the sweep on: after about half an hour."""
_FIRST_WAIT_MS = 5 * 60_000
_MAX_WAIT_MS = 60 * 60_000


class State(StrEnum):
    """Whether a subscription's messages go to the queue."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    """Nothing new enters the queue, and the cursor does not move."""
    BROKEN = "BROKEN"
    """The queue is gone or refuses every message. Its work is parked, so that its ledgers can be collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionState(StoredSettings):
    """The state of a subscription, a named reader of a topic, with the settings.

    Attributes:
        generation: distinguishes subscriptions with the same name, when a deleted name is used again.
        cursor: slots below the cursor are handed out.
        start: slots below the start are not delivered to this subscription.
        created_at_ms: when the subscription was created.
        created_slot: slots below it were sealed then. Their messages may have been cancelled late before, by a caller
            who does not know this subscription.
    """

    topic: str
    name: str
    generation: str
    queue_url: str
    cursor: int
    start: int
    state: State = State.ACTIVE
    created_at_ms: int
    created_slot: int = 0

    @property
    def owned(self) -> dict[str, str]:
        """The fields of `Owned` for this subscription's data."""
        return {"topic": self.topic, "subscription": self.name, "generation": self.generation}

    @property
    def takes_plans(self) -> bool:
        """Whether plans are handed out to this subscription."""
        return self.state is not State.PAUSED


class PlainReader(NamedTuple):
    """A subscription that is not declared to claim messages. A message that is cancelled late may still come to it.

    Attributes:
        declared: whether it is declared as plain. If False, it claims once a consumer of the SDK has received from it.
    """

    name: str
    generation: str
    declared: bool


def readers_of(subscriptions: Iterable[SubscriptionState]) -> tuple[PlainReader, ...]:
    """Returns the subscriptions that are not declared to claim messages."""
    return tuple(
        PlainReader(each.name, each.generation, each.reader == "plain")
        for each in subscriptions
        if each.reader != "tidewheel"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Names the data of one generation of a subscription."""

    topic: str
    subscription: str
    generation: str

    @property
    def owner(self) -> tuple[str, str, str]:
        """The topic, the subscription and the subscription's generation."""
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


class Tally(NamedTuple):
    """How many messages of a delivery or of a part went which way. A try that died counts none.

    Attributes:
        sent: the queue took them. Copies count.
        parked: the queue did not take them. Sent later, unless expired or purged until then.
        refused: SQS refused them permanently.
        expired, purged: they were dropped for this reason. Purged ones count before the filter.
        lost: they could not be read, and were given up.
    """

    sent: int = 0
    parked: int = 0
    refused: int = 0
    expired: int = 0
    purged: int = 0
    lost: int = 0


NOTHING_SENT = Tally()


class Delivered(NamedTuple):
    """The result of a task.

    Attributes:
        messages: sent.
        segments: read.
        failures: errors of some of the work, which is parked, or left to the work queue or the sweep.
        parked: messages that the queue did not take, and that were parked.
        expired: messages that were dropped because their time had passed, counted for each subscription.
        unread: objects that are lost or refused. The sweep has their rows tried again.
        refused: messages that SQS refused permanently.
        purged: messages that were dropped because they were purged.
    """

    messages: int = 0
    segments: int = 0
    failures: tuple[Exception, ...] = ()
    parked: int = 0
    expired: int = 0
    unread: tuple[str, ...] = ()
    refused: int = 0
    purged: int = 0

    @property
    def tally(self) -> Tally:
        """The same, as a delivery counts it."""
        return Tally(self.messages, self.parked, self.refused, self.expired, self.purged)

    def plus(self, more: Delivered) -> Delivered:
        """Returns the result of both."""
        return Delivered(*map(add, self, more))


class Unread(NamedTuple):
    """The pieces of a part that could not be read. The other rows of the part were sent.

    Attributes:
        pieces: their numbers in the part. Empty: all.
        objects: the names of the objects that could not be read.
        rows: estimated. 0: it needs more than `objects`, as nobody could read the plan, or they are too many.
        lost: whether an object is damaged, gone or refused. If False, S3 may answer the next try.
    """

    pieces: tuple[int, ...]
    objects: tuple[str, ...]
    rows: int
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(StoredSettings):
    """A plan handed out to a subscription, with the subscription's settings at that time.

    Attributes:
        parts: how many units of work the delivery has.
        done: parts that are finished.
        leases: part -> when a worker took the part, in ms.
        start: the subscription's start.
        created_slot: the subscription's. Below it, tombstones are read again when the rows are sent.
        queue_url: the queue to which messages are sent.
        next_check_ms: when the sweep checks whether the delivery is still open.
        first_ms, end_ms: of a replay. Rows due outside of [first_ms, end_ms) are not sent.
        unread: open part -> its pieces that could not be read.
        unread_ms: since when there are such pieces.
        reason: why the last of them could not be read.
        tries: how often the sweep has enqueued the parts of a stuck delivery of which objects are lost.
        edition: of the plan whose parts these are.
        opened_ms: when the plan was handed out. No message was sent before.
        done_ms: when the last part was marked. No message was sent after.
        tally: of the parts that are done.
    """

    key: DeliveryKey
    queue_url: str
    parts: int
    start: int
    next_check_ms: int
    done: frozenset[int] = frozenset()
    leases: tuple[tuple[int, int], ...] = ()
    first_ms: int | None = None
    end_ms: int | None = None

    unread: tuple[tuple[int, Unread], ...] = ()
    unread_ms: int | None = None
    reason: str | None = None
    tries: int = 0
    edition: int = 0
    created_slot: int = 0
    opened_ms: int = 0
    done_ms: int = 0
    tally: Tally = NOTHING_SENT

    def has(self, due_ms: int) -> bool:
        """Whether the delivery was to send messages due at a time. A replay has a range."""
        return self.first_ms is None or self.end_ms is None or self.first_ms <= due_ms < self.end_ms

    @property
    def complete(self) -> bool:
        """Whether every part is done."""
        return len(self.done) >= self.parts

    @property
    def stuck(self) -> bool:
        """Whether every open part only has pieces that could not be read."""
        return bool(self.unread) and len(self.done.union(part for part, _ in self.unread)) >= self.parts

    @property
    def lost(self) -> bool:
        """Whether an object that the delivery needs is damaged, gone or refused."""
        return any(each.lost for _, each in self.unread)

    @property
    def damaged(self) -> bool:
        """Whether objects stayed lost for long. An operator may give the delivery up."""
        return self.stuck and self.tries >= DAMAGED_AFTER_TRIES

    @property
    def names_all(self) -> bool:
        """Whether all that could not be read is named."""
        return all(each.rows for _, each in self.unread)

    @property
    def quarantined(self) -> bool:
        """Whether a damaged delivery names all that it needs. Collections keep that, and are not held."""
        return self.damaged and self.names_all

    @property
    def unread_objects(self) -> frozenset[str]:
        """The names of the objects that could not be read."""
        return frozenset(name for _, each in self.unread for name in each.objects)

    @property
    def unread_rows(self) -> int:
        """Estimated messages that could not be read."""
        return sum(each.rows for _, each in self.unread)


def unread_objects(deliveries: Iterable[Delivery]) -> frozenset[str]:
    """Returns the names of the objects that some deliveries could not read."""
    return frozenset[str]().union(*(each.unread_objects for each in deliveries))


def wait_ms(tries: int) -> int:
    """Returns how long to wait after a try of a stuck delivery: 5, 10, 20, 40 minutes, then an hour.

    The wait is 5 minutes while no object is lost, so with 0 tries.
    """
    return min(_FIRST_WAIT_MS << min(max(tries, 1) - 1, 10), _MAX_WAIT_MS)
