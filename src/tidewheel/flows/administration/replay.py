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
from tidewheel.errors import InvalidValue, ObjectMissing, QueueUnavailable, RetentionExpired, UnknownSubscription
from tidewheel.model.plan import Piece, Plan
from tidewheel.model.settings import DAY_MS
from tidewheel.model.subscription_state import Delivery, DeliveryKey, State, SubscriptionState
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
        CorruptMetadata: a plan of the range cannot be read. The earlier plans are delivered.
    """
    state = storage.topic_states.existing(topic)
    subscription = storage.subscriptions.read(topic, name)
    if subscription is None:
        raise UnknownSubscription(topic, name)
    now_ms = clock.now_ms()
    end_ms = now_ms if end_ms is None else min(end_ms, now_ms)
    if first_ms is not None and end_ms <= first_ms:
        raise InvalidValue("start", first_ms, f"give a start before the end ({end_ms}), and before now")
    first_ms = max(first_ms or 0, state.collected_until * state.slot_ms)
    if subscription.state is State.PAUSED:
        raise _paused(name)
    if end_ms <= first_ms:
        kept_from = utc(state.collected_until * state.slot_ms).isoformat()
        raise RetentionExpired(topic, kept_from, state.settings.retention_ms / DAY_MS)
    opened = {
        each.key.plan
        for each in storage.deliveries.all(topic, {})
        if (each.key.subscription, each.key.generation) == (name, subscription.generation)
    }
    plans = messages = skipped = 0
    for a, b in storage.plans.ranges(topic):
        if a * state.slot_ms >= end_ms or b * state.slot_ms <= first_ms or b > subscription.cursor:
            continue
        if a in opened:
            skipped += 1
            continue
        plan = _plan(storage, topic, a, b)
        if plan is None:
            first_ms = max(first_ms, b * state.slot_ms)
            continue
        delivery = _delivery(subscription, plan, first_ms, end_ms, now_ms)
        if len(delivery.done) == delivery.parts:  # no row is in the range
            continue
        match storage.deliveries.open_replay(state, delivery):
            case Replay.COLLECTED:
                first_ms = max(first_ms, b * state.slot_ms)
            case Replay.REFUSED:
                raise _paused(name)
            case Replay.OPENED:
                plans += 1
                messages += _due_rows(plan, state.slot_ms, first_ms, end_ms)
                _start(storage, delivery, now_ms + state.settings.redrive_s * 1000, enqueue)
    return ReplayResult(plans=plans, messages=messages, skipped=skipped, first_ms=first_ms, end_ms=end_ms)


def _paused(name: str) -> InvalidValue:
    advice = "it is paused or gone, and a replay would enter its queue; resume it first"
    return InvalidValue("subscription", name, advice)


def _plan(storage: Storage, topic: str, first_slot: int, end_slot: int) -> Plan | None:
    """Reads a plan. Returns None for a deleted plan, and an empty plan for one whose object is gone."""
    try:
        return storage.plans.read(topic, first_slot)
    except ObjectMissing:  # its delivery makes it again
        return Plan(topic=topic, first_slot=first_slot, end_slot=end_slot, segments=())


def _delivery(to: SubscriptionState, plan: Plan, first_ms: int, end_ms: int, now_ms: int) -> Delivery:
    """Returns the delivery of a plan's rows due in [first_ms, end_ms). Parts without such rows are done."""

    def touches(piece: Piece) -> bool:
        segment = piece.planned.segment
        return segment.last_deliver_at_ms >= first_ms and segment.first_deliver_at_ms < end_ms

    untouched = frozenset(number for number, part in enumerate(plan.parts()) if not any(map(touches, part)))
    return Delivery(
        key=DeliveryKey(**to.owned, plan=plan.first_slot, replay=secrets.token_hex(8)),
        queue_url=to.queue_url,
        # A plan whose object is gone has one part, which makes the plan again.
        parts=plan.part_count or 1,
        done=untouched,
        # Requested messages are delivered, even if due before the subscription began.
        start=0,
        # The sweep enqueues parts that the caller cannot.
        next_check_ms=now_ms,
        first_ms=first_ms,
        end_ms=end_ms,
        edition=plan.edition,
        created_slot=to.created_slot,
        opened_ms=now_ms,
        **to.stored(),
    )


def _start(storage: Storage, delivery: Delivery, next_check_ms: int, enqueue: Enqueue | None) -> None:
    """Enqueues the parts of a delivery. If it stops, or without access to the queue, the sweep does so."""
    if enqueue is None:
        return
    with suppress(QueueUnavailable):
        enqueue(delivery.key, [part for part in range(delivery.parts) if part not in delivery.done])
        storage.deliveries.set_next_check(delivery.key, delivery.next_check_ms, next_check_ms)


def _due_rows(plan: Plan, slot_ms: int, first_ms: int, end_ms: int) -> int:
    """Estimates the rows of a plan in a range. Assumes that rows lie evenly over their segment's part of the plan."""
    total = 0.0
    for planned in plan.segments:
        first = max(planned.segment.first_deliver_at_ms, plan.first_slot * slot_ms)
        end = min(planned.segment.last_deliver_at_ms + 1, plan.end_slot * slot_ms)
        total += planned.due_rows * max(0, min(end, end_ms) - max(first, first_ms)) / max(1, end - first)
    return round(total)
