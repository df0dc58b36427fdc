"""Tells whether a subscription's queue took a planned message.

A message was *sent* when its subscription's queue took it. SQS shows it from its due time on. A consumer that claims
messages *takes* one. SQS does not tell what other consumers do.

`SENT` is only said where nothing else can be true. A delivery counts its messages that were parked, refused, expired,
purged or lost. If one of them may be the message, its place is `UNCERTAIN`, and `why` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tidewheel.clock import utc
from tidewheel.model.settings import MAX_SKEW_MS
from tidewheel.model.subscription_state import Delivery, State
from tidewheel.model.tombstone import Claim
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import Options

if TYPE_CHECKING:
    from tidewheel.flows.waiting.peek import FoundMessage


class Place(StrEnum):
    """Where a message of a plan is for one subscription.

    If something that could tell cannot be read, this is the earliest place that is still possible.
    """

    PLANNED = "planned"
    """The plan was not handed out yet: the subscription is paused, or the hand-out runs."""
    DELIVERING = "delivering"
    """The subscription's delivery of the plan is open. Perhaps the message's part of the ledger cannot be read."""
    PARKED = "parked"
    """The subscription has parked messages, and this message may be among them."""
    SENT = "sent"
    """The subscription's queue took the message."""
    LEFT_OUT = "left out"
    """The subscription does not get the message: `why` names the filter, or another reason."""
    EXPIRED = "expired"
    """The message expired before it could be sent."""
    PURGED = "purged"
    """The message was purged before it could be sent."""
    UNCERTAIN = "uncertain"
    """The delivery is done, and nothing tells whether it sent the message: `why` says what else may be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionProgress:
    """A subscription's progress with a message.

    Attributes:
        place: where the message is.
        sent_from, sent_until: the queue took the message between these times. None: unknown.
        taken_at: when a consumer claimed the message last. None: none has, or its time is unknown.
        why: more about the place. None: the place says all.
        replayed: whether this is a replay.
        state: None: the subscription is deleted.
    """

    name: str
    state: State | None
    place: Place
    sent_from: datetime | None = None
    sent_until: datetime | None = None
    taken_at: datetime | None = None
    why: str | None = None
    replayed: bool = False

    @property
    def sent(self) -> bool:
        """Whether the subscription's queue certainly took the message."""
        return self.place is Place.SENT


class Outcome(NamedTuple):
    """A place, and more about it."""

    place: Place
    why: str | None = None


Owner = tuple[str, str, str]
"""A topic, a subscription and its generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a topic.

    Attributes:
        state: the topic, with the purges in force.
        read_ms: when the first of all this was read.
        states: the subscriptions that there are.
        parked: those that have parks.
    """

    state: TopicState
    read_ms: int
    states: Mapping[Owner, State]
    parked: Collection[Owner]

    def told(
        self, found: FoundMessage, done: Iterable[Delivery], claim: Claim, *, cancelled: bool
    ) -> list[SubscriptionProgress]:
        """Returns the progress of subscriptions whose deliveries are done, by name.

        Args:
            found: the message, which its plan did not leave out.
            done: deliveries of this plan.
            claim: the message's.
            cancelled: whether a tombstone names the message.
        """
        told = [
            progress(it.key.subscription, self.states.get(it.key.owner), self._outcome(found, it, cancelled), claim, it)
            for it in done
            if it.has(found.checked.deliver_at_ms)
        ]
        return sorted(told, key=lambda each: (each.name, each.replayed))

    def _outcome(self, found: FoundMessage, done: Delivery, cancelled: bool) -> Outcome:
        """Returns the outcome of a message whose delivery is done, as far as the delivery tells."""
        from tidewheel.flows.waiting.peek import is_taken

        tally, expires_ms, due_ms = done.tally, found.expires_at_ms, found.checked.deliver_at_ms
        early_ms, late_ms = done.opened_ms - MAX_SKEW_MS, done.done_ms + MAX_SKEW_MS
        old = late_ms >= self.read_ms  # a purge or a cancel may be newer than the read, and older than the delivery
        options = found.checked.options or Options()
        if options.only is not None and options.only != done.key.subscription:
            return Outcome(Place.LEFT_OUT, f"it is a retry for {options.only} only")
        if due_ms // self.state.slot_ms < done.start:
            return Outcome(Place.LEFT_OUT, "the subscription begins later")
        if options.only is None and not is_taken(done.filter_policy, found.checked.attributes, options.group):
            return Outcome(Place.LEFT_OUT, "its filter leaves the message out")
        # What is counted as expired or purged may have been sent before, by a try that died.
        if tally.expired and expires_ms is not None and expires_ms < late_ms:
            return Outcome(Place.EXPIRED) if expires_ms < early_ms else _uncertain("expired")
        if tally.purged and (old or self.state.purged(due_ms, found.sent_at_ms)):
            before = self.state.purged(due_ms, found.sent_at_ms, until_ms=early_ms)
            return Outcome(Place.PURGED) if before else _uncertain("was purged")
        # A delivery to a newer subscription leaves out what was cancelled before.
        if done.key.plan < done.created_slot and (cancelled or old):
            return _uncertain("was cancelled")
        if tally.parked and done.key.owner in self.parked:
            return Outcome(Place.PARKED)
        of = tally.sent + tally.parked + tally.refused + tally.lost
        for count, what in (
            (tally.lost, "could not be read, and were given up"),
            (tally.refused, "were refused by SQS (see tidewheel refused)"),
            (tally.parked, "were parked, and sent later unless they expired, or were purged or given up"),
        ):
            if count:
                return Outcome(Place.UNCERTAIN, f"{count:,} of the {of:,} messages of its delivery {what}")
        return Outcome(Place.SENT)


def _uncertain(what: str) -> Outcome:
    return Outcome(Place.UNCERTAIN, f"perhaps it {what} before it could be sent")


def progress(
    name: str, state: State | None, of: Outcome, claim: Claim, done: Delivery | None = None
) -> SubscriptionProgress:
    """Returns a subscription's progress, with the times that a delivery and a claim know.

    Args:
        of: what the delivery tells. A consumer that has the message got it from the queue, so the claim has the last
            word, except of a replay.
    """
    timed = done if of.place is Place.SENT and done is not None and not done.tally.parked else None
    replayed = done is not None and done.key.replay is not None
    taken_s = None if replayed else claim.taken.get(name)
    if name in claim.holders and not replayed:
        of = Outcome(Place.SENT)
    return SubscriptionProgress(
        name=name,
        state=state,
        place=of.place,
        sent_from=None if timed is None else utc(timed.opened_ms),
        sent_until=None if timed is None else utc(timed.done_ms),
        taken_at=None if taken_s is None else utc(taken_s * 1000),
        why=of.why,
        replayed=replayed,
    )
