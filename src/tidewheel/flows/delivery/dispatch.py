"""Dispatches topics: seals slots, plans, hands out, and schedules the next dispatch.

The usual case is one transaction (`_plan_and_hand_out`): plan, cursors, deliveries and the raised next slot together.
If another change interferes, dispatch does the same in single steps, each with its own conditional write.
`tests/simulation/protocol_model.py` explores both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidewheel.errors import ConcurrentModification
from tidewheel.flows.delivery.deliver import deliver_at_once
from tidewheel.flows.delivery.load_index import completed, next_occupied
from tidewheel.flows.delivery.occurrences import store_occurrences
from tidewheel.flows.delivery.recur import all_recurring, next_occupied_by
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.deliveries import HandOut
from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.delayed_index import due_segments, waiting_rows
from tidewheel.model.plan import MAX_PART_RAW_BYTES, MAX_PART_SEGMENTS, Plan
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import fires_at_ms, open_from

_ATTEMPTS = 10
_MOST_STEPS = 1000
"""Plans that one call hands out to a subscription at most. A long-paused subscription may have many to receive."""
# TransactWriteItems takes 100 items: the topic state, the plan, and two a subscription.
_ONE_STEP_SUBSCRIPTIONS = 49


@dataclass(slots=True, kw_only=True)
class Dispatched:
    """The result of a dispatch.

    Attributes:
        planned_rows: estimate of the planned rows.
        messages: sent by the dispatcher itself.
        expired: dropped by the dispatcher because their time had passed.
        cancelled: tombstones of messages that would have been due in the plan.
        segments: read by the dispatcher itself.
        enqueued_parts: left to the work queue.
        next_slot: the next slot whose schedule was created, if any.
        collect: whether the topic is to be collected now.
        failures: of sending; the affected deliveries were left to the work queue.
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
    """Dispatches all messages due within the lookahead. Returns None if the topic is absent.

    If it stops
        after sealing: rows for the sealed slots go direct; the next slot is still low, so the sweep plans these slots.
        after planning: the next slot is still low, so the sweep hands the plan out.
        after handing out: the deliveries are open; the sweep enqueues their parts when they are old.
        before the schedule is created: the topic state names the next slot, and the sweep dispatches the topic.

    Raises:
        ConcurrentModification: the topic changed under every attempt; safe to try again.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return None
    now_ms = ports.clock.now_ms()
    boundary = open_from(now_ms, state.settings)
    if state.sealed < boundary:
        sealed = ports.topic_states.seal(state, boundary)
        if sealed is None:
            return None
        state = sealed
    done = Dispatched()
    if not (state.planned < state.sealed and _plan_and_hand_out(ports, state, done, now_ms)):
        _plan(ports, state, done)
        for subscription in ports.subscriptions.all(topic):
            hand_out(ports, topic, subscription.name, done)
        _raise_next_slot(ports, topic, done)
    done.collect = state.collect_at_ms is not None and state.collect_at_ms <= now_ms
    return done


def make_plan(
    ports: Ports, state: TopicState, buckets: Sequence[Bucket], recurring: Sequence[Recurring] = ()
) -> Plan | None:
    """Returns the plan of [planned, sealed). Returns None if nothing is due.

    Tombstones are read after the seal. Buckets that occupy this range must be complete. The occurrences of recurring
    messages are put into an object first.
    """
    segments = due_segments(buckets, state.planned, state.sealed, state.slot_ms)
    occurrences = None
    if recurring:
        occurrences = store_occurrences(ports, state, recurring)
    if occurrences is not None:
        segments += occurrences.segments
    if not segments:
        return None
    return Plan(
        topic=state.topic,
        first_slot=state.planned,
        end_slot=state.sealed,
        segments=segments,
        cancelled=ports.tombstones.ids(state.topic, state.planned, state.sealed),
        part_rows=state.settings.part_rows,
        occurrences=None if occurrences is None else occurrences.object_name,
    )


def _due_buckets(ports: Ports, state: TopicState) -> list[Bucket]:
    """Reads all buckets, and the tails of buckets that occupy [planned, sealed)."""
    return completed(ports, ports.buckets.all(state.topic), state.planned, state.sealed, state.slot_ms)


def _plan_and_hand_out(ports: Ports, state: TopicState, done: Dispatched, now_ms: int) -> bool:
    """Plans, hands out and raises the next slot in one transaction. Returns False if nothing was done.

    The topic state was read (by the seal) before the buckets and subscriptions. Its swap_version and work_version are
    conditions, so buckets and subscriptions are a snapshot and no ledger came in between.
    """
    buckets = _due_buckets(ports, state)
    takers = [s for s in ports.subscriptions.all(state.topic) if s.takes_plans]
    if len(takers) > _ONE_STEP_SUBSCRIPTIONS or any(s.cursor != state.planned for s in takers):
        return False
    recurring = all_recurring(ports, state)
    plan = make_plan(ports, state, buckets, recurring)
    at_once = plan is not None and _small(plan, state, len(takers))
    steps = [
        HandOut(
            subscription=s,
            to=state.sealed,
            delivery=None if plan is None else _delivery(s, plan, state, now_ms, at_once),
        )
        for s in takers
    ]
    next_work = _next_work(ports, state, buckets, recurring, now_ms)
    if not ports.plans.commit(state, plan, state.sealed, steps, next_work):
        return False
    if plan is not None:
        done.planned_rows = plan.due_rows
        done.cancelled = len(plan.cancelled)
        deliveries = [step.delivery for step in steps if step.delivery is not None]
        _start(ports, state, plan, deliveries, at_once, done)
    # After the sending: a failure to create the schedule must not delay due messages; the sweep sees the next slot.
    _schedule(ports, state, next_work, done)
    return True


def _plan(ports: Ports, state: TopicState, done: Dispatched) -> None:
    for _ in range(_ATTEMPTS):
        if state.planned >= state.sealed:
            return
        plan = make_plan(ports, state, _due_buckets(ports, state), all_recurring(ports, state))
        if ports.plans.commit(state, plan, state.sealed):
            done.planned_rows += 0 if plan is None else plan.due_rows
            done.cancelled += 0 if plan is None else len(plan.cancelled)
            return
        current = ports.topic_states.read(state.topic)
        if current is None:
            return
        state = current
    raise ConcurrentModification("planning", state.topic, _ATTEMPTS)


def hand_out(ports: Ports, topic: str, name: str, done: Dispatched, *, most_steps: int = _MOST_STEPS) -> bool:
    """Hands out plans to a subscription until its cursor is at `planned`. Returns False if some are left.

    Takes at most `most_steps` steps. The order of the reads (topic state, subscription, plan) ensures that a handed-out
    plan is older than any pause not yet seen. If it stops between steps, the next slot is still low, so the sweep
    continues.

    Raises:
        ConcurrentModification: the cursor moved under every attempt.
    """
    lost = 0
    for _ in range(most_steps):
        state = ports.topic_states.read(topic)
        subscription = ports.subscriptions.read(topic, name)
        if state is None or subscription is None or not subscription.takes_plans:
            return True
        if subscription.cursor >= state.planned:
            return True
        plan = ports.plans.next(topic, subscription.cursor)
        if plan is None or plan.first_slot >= state.planned:
            stepped = ports.deliveries.hand_out(HandOut(subscription=subscription, to=state.planned, delivery=None))
        else:
            at_once = _small(plan, state, 1)
            delivery = _delivery(subscription, plan, state, ports.clock.now_ms(), at_once)
            stepped = ports.deliveries.hand_out(HandOut(subscription=subscription, to=plan.end_slot, delivery=delivery))
            if stepped:
                _start(ports, state, plan, [delivery], at_once, done)
        lost = 0 if stepped else lost + 1
        if lost == _ATTEMPTS:
            raise ConcurrentModification("handing out", topic, _ATTEMPTS)
    return False


def _raise_next_slot(ports: Ports, topic: str, done: Dispatched) -> None:
    """Raises the next slot to the next occupied slot, unless work is left below."""
    for _ in range(_ATTEMPTS):
        state = ports.topic_states.read(topic)
        if state is None or state.planned < state.sealed:
            return
        subscriptions = ports.subscriptions.all(topic)
        if any(s.takes_plans and s.cursor < state.planned for s in subscriptions):
            return
        buckets = ports.buckets.all(topic)
        next_work = _next_work(ports, state, buckets, all_recurring(ports, state), ports.clock.now_ms())
        unchanged = (state.next_slot, state.next_check_ms, state.collect_at_ms) == (
            next_work.next_slot,
            next_work.next_check_ms,
            next_work.collect_at_ms,
        )
        if unchanged or ports.topic_states.raise_next_slot(state, next_work):
            _schedule(ports, state, next_work, done)
            return
    # The next slot stays low, which only costs the sweep a check.


def _next_work(
    ports: Ports, state: TopicState, buckets: Sequence[Bucket], recurring: Sequence[Recurring], now_ms: int
) -> NextWork:
    slots = (
        next_occupied(ports, buckets, state.sealed),
        next_occupied_by(recurring, state.slot_ms, state.sealed) if recurring else None,
    )
    slot = min((each for each in slots if each is not None), default=None)
    collect_at_ms = state.collect_at_ms
    if collect_at_ms is None:
        collect_at_ms = now_ms + state.settings.collect_interval_s * 1000
    return NextWork(
        next_slot=slot,
        next_check_ms=state.check_at(slot, collect_at_ms),
        collect_at_ms=collect_at_ms,
        waiting=waiting_rows(buckets, state.sealed),
    )


def _schedule(ports: Ports, state: TopicState, next_work: NextWork, done: Dispatched) -> None:
    done.next_slot = next_work.next_slot
    if next_work.next_slot is not None:
        ports.wheel.schedule(state.topic, next_work.next_slot, fires_at_ms(next_work.next_slot, state.settings))


def _small(plan: Plan, state: TopicState, subscriptions: int) -> bool:
    few = plan.due_rows * max(1, subscriptions) <= state.settings.inline_rows
    return few and len(plan.segments) <= MAX_PART_SEGMENTS and plan.raw_bytes <= 2 * MAX_PART_RAW_BYTES


def _delivery(subscription: SubscriptionState, plan: Plan, state: TopicState, now_ms: int, at_once: bool) -> Delivery:
    parts = len(plan.parts())
    return Delivery(
        key=DeliveryKey(
            topic=plan.topic, subscription=subscription.name, generation=subscription.generation, plan=plan.first_slot
        ),
        queue_url=subscription.queue_url,
        parts=parts,
        start=subscription.start,
        # With `at_once` no part is in the work queue, so the sweep only waits for this function's own lease.
        next_check_ms=now_ms + (LEASE_MS if at_once else state.settings.redrive_s * 1000),
        leases=tuple((part, now_ms) for part in range(parts)) if at_once else (),
        filter_policy=subscription.filter_policy,
    )


def _start(
    ports: Ports, state: TopicState, plan: Plan, deliveries: Sequence[Delivery], at_once: bool, done: Dispatched
) -> None:
    if at_once and deliveries:
        delivered = deliver_at_once(ports, state, plan, deliveries)
        done.messages += delivered.messages
        done.expired += delivered.expired
        done.segments += delivered.segments
        done.failures += delivered.failures
        return
    for delivery in deliveries:
        ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
        done.enqueued_parts += delivery.parts
