"""Replays delivered messages of a time range to a subscription, while their ledgers are kept.

A plan behind the cursor is handed out once more, as a delivery with time bounds. The messages keep their ids, so a
consumer that remembers processed ids drops them. Direct messages were never in a ledger and are not replayed.
Cancelled, purged and expired messages stay dropped.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidewheel.clock import Clock, utc
from tidewheel.errors import (
    CorruptMetadata,
    InvalidValue,
    NewerRelease,
    ObjectMissing,
    QueueUnavailable,
    RetentionExpired,
    UnknownSubscription,
)
from tidewheel.model.plan import Piece, Plan
from tidewheel.model.subscription_state import Delivery, DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.deliveries import Replay
from tidewheel.storage.storage import Storage

Enqueue = Callable[[DeliveryKey, Sequence[int]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The deliveries that a replay opened.

    Attributes:
        plans: how many deliveries were opened.
        messages: estimate of their messages.
        skipped: plans with a delivery to the subscription that is still open.
        first_ms, end_ms: rows due in [first_ms, end_ms) are replayed; first_ms is later than asked if ledgers are gone.
    """

    plans: int
    messages: int
    skipped: int
    first_ms: int
    end_ms: int


def replay(
    storage: Storage,
    clock: Clock,
    topic: str,
    name: str,
    *,
    first_ms: int | None = None,
    end_ms: int | None = None,
    enqueue: Enqueue | None = None,
) -> ReplayResult:
    """Delivers ledger messages due in [first_ms, end_ms) again, to one subscription.

    For each plan, a delivery is opened, then its parts are enqueued. If it stops
        after a delivery is opened: the sweep enqueues its parts.
        between two plans: the earlier plans are delivered; a repetition delivers these a second time once they are
            done.

    Args:
        first_ms: None: from the first kept message on.
        end_ms: at most now, which is also the meaning of None.
        enqueue: puts parts into the work queue. If None, or without access to the queue, the sweep enqueues the parts
            within five minutes.

    Raises:
        InvalidValue: the range is empty, or the subscription is paused.
        UnknownTopic, UnknownSubscription: there is no topic or subscription of this name.
        RetentionExpired: nothing of the range is kept any more.
    """
    state = storage.topic_states.existing(topic)
    subscription = storage.subscriptions.read(topic, name)
    if subscription is None:
        raise UnknownSubscription(topic, name)
    now_ms = clock.now_ms()
    end_ms = now_ms if end_ms is None else min(end_ms, now_ms)
    if first_ms is not None and end_ms <= first_ms:
        raise InvalidValue("start", first_ms, f"give a start before the end ({end_ms}), and before now")
    run = _Run(storage, state, subscription, max(first_ms or 0, state.collected_until * state.slot_ms), end_ms)
    if subscription.state is State.PAUSED:
        raise run.paused
    if end_ms <= run.first_ms:
        kept_from = utc(state.collected_until * state.slot_ms).isoformat()
        raise RetentionExpired(topic, kept_from, state.settings.retention_s)
    for a, b in storage.plans.ranges(topic):
        if a * state.slot_ms < end_ms and b * state.slot_ms > run.first_ms and b <= subscription.cursor:
            run.replay_plan(a, b, now_ms, enqueue)
    return run.result()


class _Run:
    """A replay in progress, with its bounds and counts."""

    def __init__(self, storage: Storage, state: TopicState, to: SubscriptionState, first_ms: int, end_ms: int) -> None:
        self._storage = storage
        self._state = state
        self._to = to
        self.first_ms = first_ms
        self._end_ms = end_ms
        self._plans = self._messages = self._skipped = 0
        self._opened = {
            each.key.plan
            for each in storage.deliveries.all(state.topic, {})
            if (each.key.subscription, each.key.generation) == (to.name, to.generation)
        }

    @property
    def paused(self) -> InvalidValue:
        advice = "it is paused or gone, and a replay would enter its queue; resume it first"
        return InvalidValue("subscription", self._to.name, advice)

    def result(self) -> ReplayResult:
        return ReplayResult(
            plans=self._plans,
            messages=self._messages,
            skipped=self._skipped,
            first_ms=self.first_ms,
            end_ms=self._end_ms,
        )

    def replay_plan(self, first_slot: int, end_slot: int, now_ms: int, enqueue: Enqueue | None) -> None:
        """Opens a delivery of a plan with rows in the range, and enqueues its parts."""
        if first_slot in self._opened:
            self._skipped += 1
            return
        try:
            plan = self._storage.plans.read(self._state.topic, first_slot)
        except NewerRelease:
            raise
        except (CorruptMetadata, ObjectMissing):  # its delivery makes it anew
            plan = Plan(topic=self._state.topic, first_slot=first_slot, end_slot=end_slot, segments=())
            self._open(plan, 1, frozenset(), end_slot, now_ms, enqueue)
            return
        if plan is None:
            self.first_ms = max(self.first_ms, end_slot * self._state.slot_ms)
            return
        parts = plan.parts()
        untouched = frozenset(number for number, part in enumerate(parts) if not any(map(self._touches, part)))
        if len(untouched) == plan.part_count:
            return
        self._open(plan, plan.part_count, untouched, end_slot, now_ms, enqueue)

    def _open(
        self, plan: Plan, parts: int, untouched: frozenset[int], end_slot: int, now_ms: int, enqueue: Enqueue | None
    ) -> None:
        delivery = self._delivery(plan, parts, untouched, now_ms)
        match self._storage.deliveries.open_replay(self._state, delivery):
            case Replay.COLLECTED:
                self.first_ms = max(self.first_ms, end_slot * self._state.slot_ms)
            case Replay.REFUSED:
                raise self.paused
            case Replay.OPENED:
                self._plans += 1
                self._messages += self._due(plan)
                self._start(delivery, now_ms, enqueue)

    def _delivery(self, plan: Plan, parts: int, untouched: frozenset[int], now_ms: int) -> Delivery:
        to = self._to
        return Delivery(
            key=DeliveryKey(**to.owned, plan=plan.first_slot, replay=secrets.token_hex(8)),
            queue_url=to.queue_url,
            parts=parts,
            done=untouched,
            # Requested messages are delivered, even if due before the subscription began.
            start=0,
            # The sweep enqueues what the caller cannot.
            next_check_ms=now_ms,
            filter_policy=to.filter_policy,
            carry=to.carry,
            first_ms=self.first_ms,
            end_ms=self._end_ms,
        )

    def _start(self, delivery: Delivery, now_ms: int, enqueue: Enqueue | None) -> None:
        if enqueue is None:
            return
        with suppress(QueueUnavailable):
            enqueue(delivery.key, [part for part in range(delivery.parts) if part not in delivery.done])
            next_check_ms = now_ms + self._state.settings.redrive_s * 1000
            self._storage.deliveries.set_next_check(delivery.key, delivery.next_check_ms, next_check_ms)

    def _touches(self, piece: Piece) -> bool:
        segment = piece.planned.segment
        return segment.last_deliver_at_ms >= self.first_ms and segment.first_deliver_at_ms < self._end_ms

    def _due(self, plan: Plan) -> int:
        """Estimates the rows of a plan in the range.

        Assumes that rows lie evenly over their segment's part of the plan.
        """
        total = 0.0
        for planned in plan.segments:
            first = max(planned.segment.first_deliver_at_ms, plan.first_slot * self._state.slot_ms)
            end = min(planned.segment.last_deliver_at_ms + 1, plan.end_slot * self._state.slot_ms)
            inside = min(end, self._end_ms) - max(first, self.first_ms)
            total += planned.due_rows * max(0, inside) / max(1, end - first)
        return round(total)
