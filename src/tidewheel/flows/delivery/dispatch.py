"""Dispatch: seal what is due soon, plan it once, hand it out to every subscription, and set the next alarm.

The usual case is one transaction (`_plan_and_hand_out`): plan, cursors, deliveries and the raised wake together. When
anything disturbs it, the same is done in single steps, each a conditional write of its own; `tests/simulation/
protocol_model.py` explores both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidewheel.errors import Contended
from tidewheel.flows.delivery.deliver import deliver_at_once
from tidewheel.flows.delivery.load_index import completed, next_occupied
from tidewheel.flows.delivery.occurrences import store_occurrences
from tidewheel.flows.delivery.recur import all_recurring, next_occupied_by
from tidewheel.flows.ports import HandOut, Ports, Wake
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.delayed_index import due_segments, waiting_rows
from tidewheel.model.plan import MAX_PART_RAW_BYTES, MAX_PART_SEGMENTS, Plan
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription import Delivery, DeliveryKey, Subscription
from tidewheel.model.topic_state import Fence
from tidewheel.model.wheel import fires_at_ms, open_from

_ATTEMPTS = 10
_MOST_STEPS = 1000
"""Plans that one call hands out to a subscription at most: one that was paused for long has many to come."""
# TransactWriteItems takes 100 items: the fence, the plan, and two a subscription.
_ONE_STEP_SUBSCRIPTIONS = 49


@dataclass(slots=True, kw_only=True)
class Dispatched:
    """What a dispatch did.

    Attributes:
        planned_rows: estimate of the rows that it planned.
        messages: sent by the dispatcher itself.
        expired: dropped by it because their time had passed.
        cancelled: tombstones of messages that would have been due in what it planned.
        segments: read by the dispatcher itself.
        enqueued_parts: left to the work queue.
        next_slot: the next slot that was armed, if any.
        collect: whether the topic is to be collected now.
        failures: of sending; what they concern was left to the work queue.
    """

    planned_rows: int = 0
    messages: int = 0
    expired: int = 0
    cancelled: int = 0
    segments: int = 0
    enqueued_parts: int = 0
    next_slot: int | None = None
    collect: bool = False
    failures: list[Exception] = field(default_factory=list)


def dispatch(ports: Ports, topic: str) -> Dispatched | None:
    """Dispatches all that is due within the lookahead; None if there is no such topic.

    If it stops
        after sealing: rows for the sealed slots go direct; wake is still low, so the sweep plans them.
        after planning: wake is still low, so the sweep hands the plan out.
        after handing out: the deliveries are open; the sweep enqueues their parts when they are old.
        before arming: wake names the next slot, and the sweep dispatches it.

    Raises:
        Contended: the topic changed under every attempt; safe to try again.
    """
    fence = ports.topics.fence(topic)
    if fence is None:
        return None
    now_ms = ports.clock.now_ms()
    boundary = open_from(now_ms, fence.settings)
    if fence.sealed < boundary:
        sealed = ports.topics.seal(fence, boundary)
        if sealed is None:
            return None
        fence = sealed
    done = Dispatched()
    if not (fence.planned < fence.sealed and _plan_and_hand_out(ports, fence, done, now_ms)):
        _plan(ports, fence, done)
        for subscription in ports.topics.subscriptions(topic):
            hand_out(ports, topic, subscription.name, done)
        _raise_wake(ports, topic, done)
    done.collect = fence.collect_at_ms is not None and fence.collect_at_ms <= now_ms
    return done


def make_plan(
    ports: Ports, fence: Fence, buckets: Sequence[Bucket], recurring: Sequence[Recurring] = ()
) -> Plan | None:
    """Returns what is due in [planned, sealed), None if nothing is; tombstones are read after the seal.

    Buckets that occupy this range must be complete. What recurring messages add is put into an object before.
    """
    a, b = fence.planned, fence.sealed
    segments = due_segments(buckets, a, b, fence.slot_ms)
    occurrences = None
    if recurring:
        occurrences = store_occurrences(ports, fence, recurring)
    if occurrences is not None:
        segments += occurrences.segments
    if not segments:
        return None
    return Plan(
        topic=fence.topic,
        a=a,
        b=b,
        segments=segments,
        cancelled=ports.topics.tombstones(fence.topic, a, b),
        part_rows=fence.settings.part_rows,
        occurrences=None if occurrences is None else occurrences.object_name,
    )


def _due_buckets(ports: Ports, fence: Fence) -> list[Bucket]:
    """Reads all buckets, and the tails of those that occupy [planned, sealed)."""
    return completed(ports, ports.topics.buckets(fence.topic), fence.planned, fence.sealed, fence.slot_ms)


def _plan_and_hand_out(ports: Ports, fence: Fence, done: Dispatched, now_ms: int) -> bool:
    """Plans, hands out and raises wake in one transaction; returns False, with nothing done, if that cannot be.

    The fence was read (by the seal) before the buckets and subscriptions, and its cver and ver are conditions, so
    both are a snapshot and no ledger came in between.
    """
    buckets = _due_buckets(ports, fence)
    takers = [s for s in ports.topics.subscriptions(fence.topic) if s.takes_plans]
    if len(takers) > _ONE_STEP_SUBSCRIPTIONS or any(s.cursor != fence.planned for s in takers):
        return False
    recurring = all_recurring(ports, fence)
    plan = make_plan(ports, fence, buckets, recurring)
    at_once = plan is not None and _small(plan, fence, len(takers))
    steps = [
        HandOut(
            subscription=s,
            to=fence.sealed,
            delivery=None if plan is None else _delivery(s, plan, fence, now_ms, at_once),
        )
        for s in takers
    ]
    wake = _wake(ports, fence, buckets, recurring, now_ms)
    if not ports.topics.commit_plan(fence, plan, fence.sealed, steps, wake):
        return False
    if plan is not None:
        done.planned_rows = plan.due_rows
        done.cancelled = len(plan.cancelled)
        deliveries = [step.delivery for step in steps if step.delivery is not None]
        _start(ports, fence, plan, deliveries, at_once, done)
    # After the sending: an alarm that cannot be set must not hold up what is due; the sweep sees wake.
    _arm(ports, fence, wake, done)
    return True


def _plan(ports: Ports, fence: Fence, done: Dispatched) -> None:
    for _ in range(_ATTEMPTS):
        if fence.planned >= fence.sealed:
            return
        plan = make_plan(ports, fence, _due_buckets(ports, fence), all_recurring(ports, fence))
        if ports.topics.commit_plan(fence, plan, fence.sealed):
            done.planned_rows += 0 if plan is None else plan.due_rows
            done.cancelled += 0 if plan is None else len(plan.cancelled)
            return
        current = ports.topics.fence(fence.topic)
        if current is None:
            return
        fence = current
    raise Contended("planning", fence.topic, _ATTEMPTS)


def hand_out(ports: Ports, topic: str, name: str, done: Dispatched, *, most_steps: int = _MOST_STEPS) -> bool:
    """Moves one cursor to planned, or as far as `most_steps` take it; returns whether nothing is left.

    The order of the reads (fence, subscription, plan) makes a plan that is handed out older than any pause that was
    not yet seen. If it stops between steps: wake is still low, so the sweep goes on.

    Raises:
        Contended: the cursor moved under every attempt.
    """
    lost = 0
    for _ in range(most_steps):
        fence = ports.topics.fence(topic)
        subscription = ports.topics.subscription(topic, name)
        if fence is None or subscription is None or not subscription.takes_plans:
            return True
        if subscription.cursor >= fence.planned:
            return True
        plan = ports.topics.next_plan(topic, subscription.cursor)
        if plan is None or plan.a >= fence.planned:
            stepped = ports.topics.hand_out(HandOut(subscription=subscription, to=fence.planned, delivery=None))
        else:
            at_once = _small(plan, fence, 1)
            delivery = _delivery(subscription, plan, fence, ports.clock.now_ms(), at_once)
            stepped = ports.topics.hand_out(HandOut(subscription=subscription, to=plan.b, delivery=delivery))
            if stepped:
                _start(ports, fence, plan, [delivery], at_once, done)
        lost = 0 if stepped else lost + 1
        if lost == _ATTEMPTS:
            raise Contended("handing out", topic, _ATTEMPTS)
    return False


def _raise_wake(ports: Ports, topic: str, done: Dispatched) -> None:
    """Raises wake to the next occupied slot, unless somebody still has work below it."""
    for _ in range(_ATTEMPTS):
        fence = ports.topics.fence(topic)
        if fence is None or fence.planned < fence.sealed:
            return
        subscriptions = ports.topics.subscriptions(topic)
        if any(s.takes_plans and s.cursor < fence.planned for s in subscriptions):
            return
        buckets = ports.topics.buckets(topic)
        wake = _wake(ports, fence, buckets, all_recurring(ports, fence), ports.clock.now_ms())
        unchanged = (fence.wake_slot, fence.look_at_ms, fence.collect_at_ms) == (
            wake.wake_slot,
            wake.look_at_ms,
            wake.collect_at_ms,
        )
        if unchanged or ports.topics.raise_wake(fence, wake):
            _arm(ports, fence, wake, done)
            return
    # Wake stays low, which costs the sweep a look and nothing else.


def _wake(ports: Ports, fence: Fence, buckets: Sequence[Bucket], recurring: Sequence[Recurring], now_ms: int) -> Wake:
    slots = (
        next_occupied(ports, buckets, fence.sealed),
        next_occupied_by(recurring, fence.slot_ms, fence.sealed) if recurring else None,
    )
    slot = min((each for each in slots if each is not None), default=None)
    collect_at_ms = fence.collect_at_ms
    if collect_at_ms is None:
        collect_at_ms = now_ms + fence.settings.collect_interval_s * 1000
    return Wake(
        wake_slot=slot,
        look_at_ms=fence.look_at(slot, collect_at_ms),
        collect_at_ms=collect_at_ms,
        waiting=waiting_rows(buckets, fence.sealed),
    )


def _arm(ports: Ports, fence: Fence, wake: Wake, done: Dispatched) -> None:
    done.next_slot = wake.wake_slot
    if wake.wake_slot is not None:
        ports.wheel.arm(fence.topic, wake.wake_slot, fires_at_ms(wake.wake_slot, fence.settings))


def _small(plan: Plan, fence: Fence, subscriptions: int) -> bool:
    few = plan.due_rows * max(1, subscriptions) <= fence.settings.inline_rows
    return few and len(plan.segments) <= MAX_PART_SEGMENTS and plan.raw_bytes <= 2 * MAX_PART_RAW_BYTES


def _delivery(subscription: Subscription, plan: Plan, fence: Fence, now_ms: int, at_once: bool) -> Delivery:
    parts = len(plan.parts())
    return Delivery(
        key=DeliveryKey(
            topic=plan.topic, subscription=subscription.name, generation=subscription.generation, plan=plan.a
        ),
        queue_url=subscription.queue_url,
        parts=parts,
        start=subscription.start,
        # Nothing of it is in the work queue, so the sweep need only wait for this function's own lease.
        look_at_ms=now_ms + (LEASE_MS if at_once else fence.settings.redrive_s * 1000),
        leases=tuple((part, now_ms) for part in range(parts)) if at_once else (),
        filter_policy=subscription.filter_policy,
    )


def _start(
    ports: Ports, fence: Fence, plan: Plan, deliveries: Sequence[Delivery], at_once: bool, done: Dispatched
) -> None:
    if at_once and deliveries:
        delivered = deliver_at_once(ports, fence, plan, deliveries)
        done.messages += delivered.messages
        done.expired += delivered.expired
        done.segments += delivered.segments
        done.failures += delivered.failures
        return
    for delivery in deliveries:
        ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
        done.enqueued_parts += delivery.parts
