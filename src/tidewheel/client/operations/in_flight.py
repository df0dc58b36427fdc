"""Estimates from plans how many sealed messages are not delivered yet, and which messages are late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidewheel.errors import CorruptMetadata, ObjectMissing
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.park import Park
from tidewheel.model.plan import Plan
from tidewheel.model.subscription_state import Delivery, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage

MAX_PLANS = 20
"""The most plans read of each kind. Without a limit, a long-paused subscription would cost thousands of requests."""


class ReadPlan(NamedTuple):
    """The estimated rows of a plan, and the first slot that may have a message of the plan."""

    rows: float
    first_slot: int


class Undelivered(NamedTuple):
    """Planned messages that are not delivered to all subscriptions yet.

    Attributes:
        rows: their estimated number.
        first_slot: the first slot with such a message; None without such messages.
        plans: first slot -> the plan, of those that were read.
        unread_from: from which slot on no plan was read.
        unread_rows: estimated rows of each slot from there to the last planned slot.
    """

    rows: float
    first_slot: int | None
    plans: Mapping[int, ReadPlan]
    unread_from: int
    unread_rows: float


def due_from_ms(plan: Plan, slot_ms: int) -> int:
    """Returns the first time at which a plan may have a message."""
    segments = (each.segment.first_deliver_at_ms for each in plan.segments if not plan.unindexed)
    return max(plan.first_slot * slot_ms, min(segments, default=0))


def undelivered(
    storage: Storage,
    state: TopicState,
    buckets: Sequence[Bucket],
    subscriptions: Sequence[SubscriptionState],
    opened: Sequence[Delivery],
    unreadable: dict[str, Exception],
) -> Undelivered:
    """Estimates the planned messages that are not delivered to all subscriptions yet.

    A message counts once, even if several subscriptions wait for it. The function reads the first MAX_PLANS plans that
    are being delivered, and the first MAX_PLANS plans that are not handed out yet. It assumes that the other plans are
    similar. If no slot is sealed, it reads nothing.

    Args:
        buckets: the topic's buckets, complete or not; the occupied slots of a bucket improve the estimate.
        unreadable: gets the error of each plan that cannot be read.
    """
    exact = {each.object_name: each for each in buckets if not each.slot_shift}
    plans = _Plans(storage, state, exact, unreadable)
    not_handed_out = min((each.cursor for each in subscriptions), default=state.planned)
    left = _shares_left(subscriptions, opened, not_handed_out)
    rows = plans.in_delivery(left)
    read_rows, unread_from = plans.not_handed_out(not_handed_out)
    unread = state.planned - unread_from
    unread_rows = read_rows / max(1, unread_from - not_handed_out) if unread > 0 else 0.0
    first_slot = min((each.first_slot for each in plans.read.values()), default=None)
    return Undelivered(rows + read_rows + unread_rows * unread, first_slot, plans.read, unread_from, unread_rows)


def _shares_left(
    subscriptions: Sequence[SubscriptionState], opened: Sequence[Delivery], not_handed_out: int
) -> dict[int, float]:
    """Returns plan -> the largest share of parts still missing in any subscription."""
    alive = {(each.name, each.generation) for each in subscriptions}
    left: dict[int, float] = {}
    for each in opened:
        key = each.key
        if (key.subscription, key.generation) in alive and key.plan < not_handed_out and not each.complete:
            left[key.plan] = max(left.get(key.plan, 0.0), 1 - len(each.done) / each.parts)
    return left


@dataclass(frozen=True, slots=True)
class _Plans:
    """Reads plans, and estimates their rows. `exact` has the buckets whose slots are not coarse, by ledger."""

    storage: Storage
    state: TopicState
    exact: Mapping[str, Bucket]
    unreadable: dict[str, Exception]
    read: dict[int, ReadPlan] = field(default_factory=dict)

    def in_delivery(self, left: Mapping[int, float]) -> float:
        """Reads the first plans of which parts are left. Returns the rows that are left of all."""
        rows = shares = 0.0
        for a in sorted(left)[:MAX_PLANS]:
            try:
                plan = self.storage.plans.read(self.state.topic, a)
            except (CorruptMetadata, ObjectMissing) as error:
                self.unreadable[f"plan {a}"] = error
                continue
            if plan is not None:
                rows, shares = rows + left[a] * self._note(plan), shares + left[a]
        return rows * sum(left.values()) / shares if shares else 0.0

    def not_handed_out(self, start: int) -> tuple[float, int]:
        """Reads the first plans from a slot on. Returns their rows, and the slot behind the last."""
        rows, at = 0.0, start
        for _ in range(MAX_PLANS):
            try:
                plan = self.storage.plans.next(self.state.topic, at) if at < self.state.planned else None
            except (CorruptMetadata, ObjectMissing) as error:
                self.unreadable[f"plan after {at}"] = error
                break
            if plan is None or plan.first_slot >= self.state.planned:
                return rows, self.state.planned
            rows, at = rows + self._note(plan), plan.end_slot
        return rows, at

    def _note(self, plan: Plan) -> float:
        """Keeps a plan's estimate, and returns the rows."""
        rows = self._rows(plan)
        self.read[plan.first_slot] = ReadPlan(rows, due_from_ms(plan, self.state.slot_ms) // self.state.slot_ms)
        return rows

    def _rows(self, plan: Plan) -> float:
        """Estimates a plan's rows, with segments spread evenly over the occupied slots of their spans."""
        rows, slot_ms = 0.0, self.state.slot_ms
        for each in plan.segments:
            segment, bucket = each.segment, self.exact.get(each.object_name)
            first, end = segment.first_deliver_at_ms // slot_ms, segment.last_deliver_at_ms // slot_ms + 1
            occupied = 0 if bucket is None else bucket.slots.range_cardinality(first, end)
            if bucket is None or not occupied:  # merged, or its index is in its tail
                rows += each.due_rows
            else:
                planned = bucket.slots.range_cardinality(max(first, plan.first_slot), min(end, plan.end_slot))
                rows += segment.rows * planned / occupied
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LateMessages:
    """Finds the late messages of each subscription of a topic, in the data of the topic's statistics.

    Attributes:
        now_slot: the slot of the current time.
        planned: slots below this are planned.
        unplanned: the first slot of messages that are due and in no plan, None if there is none, and their number.
    """

    slot_ms: int
    now_ms: int
    planned: int
    unplanned: tuple[int | None, float]
    left: Undelivered
    opened: Sequence[Delivery]
    parks: Sequence[Park]

    def of(self, each: SubscriptionState) -> tuple[int | None, int]:
        """Returns since when the first message is due, and the number of messages."""
        due = [(due_ms, rows) for due_ms, rows in self._waiting(each) if due_ms <= self.now_ms]
        return min((due_ms for due_ms, _ in due if due_ms), default=None), round(sum(rows for _, rows in due))

    def _waiting(self, each: SubscriptionState) -> Iterator[tuple[int, float]]:
        """Yields due times of messages that the queue does not have, and their numbers. 0: unknown. No replays."""
        if (slot := self.unplanned[0]) is not None:
            yield slot * self.slot_ms, self.unplanned[1]
        for first_slot, plan in self.left.plans.items():
            if first_slot >= each.cursor:
                yield plan.first_slot * self.slot_ms, plan.rows
        unread = max(each.cursor, self.left.unread_from)
        due_slots = min(self.planned, self.now_ms // self.slot_ms + 1) - unread
        if due_slots > 0:
            yield unread * self.slot_ms, due_slots * self.left.unread_rows
        mean = sum(plan.rows for plan in self.left.plans.values()) / max(1, len(self.left.plans))
        for delivery in self.opened:
            if delivery.key.owner == (each.topic, each.name, each.generation) and delivery.key.replay is None:
                first_slot, rows = delivery.key.plan, mean
                if first_slot in self.left.plans:
                    rows, first_slot = self.left.plans[first_slot]
                left = rows * (1 - len(delivery.done) / delivery.parts)
                yield first_slot * self.slot_ms, delivery.unread_rows if delivery.stuck and delivery.names_all else left
        for park in self.parks:
            if park.key.owner == (each.topic, each.name, each.generation):
                yield park.first_due_ms or 0, park.rows
