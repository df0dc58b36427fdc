"""Dispatches topics: seals slots, plans, hands out, and schedules the next dispatch.

    seal      1  STATE: sealed up
    advance   2  read buckets, tombstones, recurring messages and subscriptions
              3  T{put PLAN; STATE: planned = sealed IF planned and swap_version as read;
                   each subscription at `planned`: put DELIVERY, cursor = sealed IF cursor and generation as read;
                   if no subscription is left out: STATE: next slot up IF work_version as read}
              4  send a small plan, or enqueue its parts
    rest      5  each subscription that lags: its plans, each as T{put DELIVERY; cursor up}
              6  advance once more, now that no subscription lags: raises the next slot
    schedule  7  create the schedule of the next slot

A plain dispatch has no rest. Missed occurrences of recurring messages may need several plans, and so several advances.
A subscription is left out of 3 if it lags, or if a transaction has no room for it. If 3 is refused because another
change came between, it is tried again without the next slot. Then ingest cannot refuse it, and 6 raises the next slot.
`tests/simulation/protocol_model.py` explores these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from tidewheel import deadline
from tidewheel.deadline import TRY_S
from tidewheel.errors import ConcurrentModification, ObjectMissing
from tidewheel.flows.delivery.commit import schedule
from tidewheel.flows.delivery.occurrences import end_of_part
from tidewheel.flows.delivery.planning import DueBuckets, make_plan, next_work_of
from tidewheel.flows.delivery.recur import all_recurring, note_missed
from tidewheel.flows.ports import Ports, each_alone
from tidewheel.model.marks import hand_outs_together, item_count
from tidewheel.model.plan import MAX_PART_RAW_BYTES, MAX_PART_SEGMENTS, Plan
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import Delivered, Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.model.wheel import open_from
from tidewheel.storage.deliveries import HandOut

_ATTEMPTS = 10
_SCHEDULE_S = 2 * TRY_S
"""Kept for the schedule of the next slot."""
_FEW_STEPS = 2
"""Plans that a dispatch hands out to each of several subscriptions. One that lags further is left to a task."""
_MOST_STEPS = 1000
"""Plans that one call hands out to a subscription at most. A long-paused subscription may have many to receive."""
_ONE_STEP_SUBSCRIPTIONS = hand_outs_together(0)
"""Subscriptions that get a plan with its commit. Fewer, if their deliveries have many items."""


@dataclass(slots=True, kw_only=True)
class Dispatched:
    """The result of a dispatch.

    Attributes:
        planned_rows: estimate of the planned rows.
        sent: by the dispatcher itself.
        cancelled: tombstones of messages that would have been due in the plan.
        enqueued_parts: left to the work queue.
        next_slot: the next occupied slot at or after `sealed`, whose schedule was asked for, if any.
        collect: whether the topic is to be collected now.
        missed: recurring messages that could not be read -> the error; their occurrences are missing.
        failures: all of reading and sending; what they affect is noted, parked, or left to the work queue.
    """

    planned_rows: int = 0
    sent: Delivered = field(default_factory=Delivered)
    cancelled: int = 0
    enqueued_parts: int = 0
    next_slot: int | None = None
    collect: bool = False
    missed: dict[str, Exception] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)


def dispatch(ports: Ports, topic: str) -> Dispatched | None:
    """Dispatches all messages due within the lookahead. Returns None if the topic is absent.

    If it stops
        after sealing: rows for the sealed slots go direct; the next slot is still low, so the sweep plans these slots.
        after the transaction: the deliveries are open, and the next sweep after a lease enqueues their parts. If a
            subscription was left out, the next slot is still low, so the sweep hands the plan out.
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
    step = _advance(ports, state, done) if state.planned < state.sealed else None
    while step is not None and step.more:
        current = ports.topic_states.read(topic)
        step = None if current is None else _advance(ports, current, done)
    if step is None or step.unfinished:
        with deadline.reserve(_SCHEDULE_S):
            _hand_out_the_rest(ports, topic, state.sealed if step is None else step.state.sealed, done)
        current = ports.topic_states.read(topic)
        step = None if current is None else _advance(ports, current, done)
    # Even if work is left: who does it may come late, and the messages of the next occupied slot must not wait.
    if step is not None and step.next_work.next_slot is not None:
        done.next_slot = step.next_work.next_slot
        schedule(ports, topic, done.next_slot, step.state.settings)
    done.collect = state.collect_at_ms is not None and state.collect_at_ms <= now_ms
    return done


class _Step:
    """One transaction, made of a topic state and of all that is read after it.

    The topic state is read before the buckets and the subscriptions. The transaction requires the swap_version as read,
    so the buckets are a snapshot. A transaction that raises the next slot also requires the work_version as read, so no
    ledger came in between.

    Attributes:
        state: the topic state, in which `sealed` is the end of the plan.
        plan: of [planned, sealed), if anything is due.
        up_to_date: the subscriptions that get the plan with its commit.
        left_out: whether another subscription does not get it, or lags.
        more: whether further plans follow at once, because this one has as many occurrences as a plan takes.
        unfinished: whether the next slot must still be raised. False if all tries to raise the next slot were refused:
            the sweep checks the topic.
    """

    def __init__(self, ports: Ports, state: TopicState, done: Dispatched) -> None:
        recurring = all_recurring(ports, state, done.missed) if state.recurring else []
        end_slot = end_of_part(state, recurring) if recurring else state.sealed
        self.more, state = end_slot < state.sealed, replace(state, sealed=end_slot)
        self.state = state
        self.buckets = DueBuckets(ports, state)
        takers = [each for each in ports.subscriptions.all(state.topic) if each.takes_plans]
        self.plan = make_plan(ports, state, self.buckets.indexes, recurring)
        self.up_to_date = _up_to_date(state, takers, self.plan)
        self.left_out = self.unfinished = sum(each.cursor < state.sealed for each in takers) > len(self.up_to_date)
        self.now_ms = ports.clock.now_ms()
        occupied, again = self.buckets.next_slot(), bool(done.missed)
        self.next_work = next_work_of(state, occupied, recurring, self.now_ms, plans=self.plan is not None, again=again)

    def commit(self, ports: Ports, done: Dispatched, *, raise_next_slot: bool) -> bool:
        """Commits the plan, the hand-outs and the raise, and starts the deliveries. Returns False if refused."""
        state, plan = self.state, self.plan
        # Subscriptions that get the plan later, and further plans, must not wait for these sends.
        at_once = plan is not None and not (self.left_out or self.more) and _small(plan, state, len(self.up_to_date))
        deliveries = [] if plan is None else [_delivery(each, plan, self.now_ms, at_once) for each in self.up_to_date]
        steps = [
            HandOut(subscription=each, to=state.sealed, delivery=delivery)
            for each, delivery in zip_longest(self.up_to_date, deliveries)
        ]
        next_work = self.next_work if raise_next_slot else None
        if not ports.plans.commit(state, plan, state.sealed, steps, next_work, rows=self.buckets.planned_rows):
            return False
        self.unfinished = not raise_next_slot
        if done.missed and state.planned < state.sealed:
            note_missed(ports, state, done.missed)
        if plan is not None:
            done.planned_rows += plan.due_rows
            done.cancelled += len(plan.cancelled)
            with deadline.reserve(_SCHEDULE_S):
                _start(ports, state, plan, deliveries, at_once, done)
        return True

    @property
    def raised(self) -> bool:
        """Whether the topic state names the next work already."""
        state = self.state
        return self.next_work == NextWork(
            next_slot=state.next_slot, next_check_ms=state.next_check_ms, collect_at_ms=state.collect_at_ms
        )


def _up_to_date(state: TopicState, takers: Sequence[SubscriptionState], plan: Plan | None) -> list[SubscriptionState]:
    """Returns the subscriptions that get [planned, sealed) with its plan, as many as a transaction takes."""
    if state.planned == state.sealed:
        return []
    most = min(_ONE_STEP_SUBSCRIPTIONS, hand_outs_together(0 if plan is None else plan.part_count))
    return [each for each in takers if each.cursor == state.planned][:most]


def _advance(ports: Ports, state: TopicState, done: Dispatched) -> _Step | None:
    """Plans sealed slots, hands the plans out, and raises the next slot if no subscription is left out.

    Returns the last step, or None if the topic is gone. If other changes refuse the raise each time, the next slot
    stays low, which only costs the sweep a check.

    Raises:
        ConcurrentModification: nothing was planned in all attempts.
    """
    for attempt in range(_ATTEMPTS):
        step = _Step(ports, state, done)
        if state.planned == state.sealed:
            if step.left_out or step.raised or step.commit(ports, done, raise_next_slot=True):
                return step
        elif step.commit(ports, done, raise_next_slot=attempt == 0 and not step.left_out):
            return step
        current = ports.topic_states.read(state.topic)
        if current is None:
            return None
        state = current
    if state.planned < state.sealed:
        raise ConcurrentModification("planning", state.topic, _ATTEMPTS)
    return step


def _hand_out_the_rest(ports: Ports, topic: str, planned: int, done: Dispatched) -> None:
    """Hands out plans to the subscriptions that lag behind a slot, side by side.

    The only subscription of a topic gets all its plans, and this call may send small plans. Each of several gets a few
    plans, whose parts are enqueued, because one call must not send for all. A task of the work queue continues for each
    subscription that still lags. If a hand-out fails or its task is not enqueued, `done.failures` gets the error, and
    the next slot stays low, so the sweep continues.
    """
    takers = [each for each in ports.subscriptions.all(topic) if each.takes_plans]
    alone = len(takers) == 1
    behind = sorted((each for each in takers if alone or each.cursor < planned), key=lambda each: -each.cursor)
    results: list[Dispatched] = []

    def step(taker: SubscriptionState) -> None:
        results.append(own := Dispatched())
        most_steps = _MOST_STEPS if alone else _FEW_STEPS
        if not hand_out(ports, topic, taker.name, own, most_steps=most_steps, inline=alone):
            ports.queues.enqueue_catch_up(topic, taker.name, taker.generation)

    done.failures += each_alone(ports.parallel, step, behind).values()
    for each in results:
        done.sent = done.sent.plus(each.sent)
        done.enqueued_parts += each.enqueued_parts
        done.failures += each.failures


def hand_out(ports: Ports, topic: str, name: str, done: Dispatched, *, most_steps: int, inline: bool = True) -> bool:
    """Hands out plans to a subscription until its cursor is at `planned`. Returns False if some are left.

    Takes at most `most_steps` steps. Sends small plans itself if `inline`. The order of the reads (topic state,
    subscription, plan) ensures that a handed-out plan is older than any pause not yet seen. If it stops between steps,
    the next slot is still low, so the sweep continues.

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
        plan, readable = _next_plan(ports, topic, subscription.cursor)
        if plan is None or plan.first_slot >= state.planned:
            stepped = ports.deliveries.hand_out(HandOut(subscription=subscription, to=state.planned, delivery=None))
        else:
            if not readable:
                plan = replace(plan, end_slot=min(plan.end_slot, state.planned))
            at_once = inline and readable and _small(plan, state, 1)
            delivery = _delivery(subscription, plan, ports.clock.now_ms(), at_once)
            stepped = ports.deliveries.hand_out(HandOut(subscription=subscription, to=plan.end_slot, delivery=delivery))
            if stepped:
                _start(ports, state, plan, [delivery], at_once, done)
        lost = 0 if stepped else lost + 1
        if lost == _ATTEMPTS:
            raise ConcurrentModification("handing out", topic, _ATTEMPTS)
    return False


def _next_plan(ports: Ports, topic: str, at_or_after: int) -> tuple[Plan | None, bool]:
    """Returns the next plan, and whether it can be read. If not, it has its range only."""
    try:
        return ports.plans.next(topic, at_or_after), True
    except ObjectMissing:  # whoever delivers it makes it again
        for first_slot, end_slot in ports.plans.ranges(topic, first_slot=at_or_after, limit=1):
            return Plan(topic=topic, first_slot=first_slot, end_slot=end_slot, segments=()), False
        return None, True  # deleted meanwhile


def _small(plan: Plan, state: TopicState, subscriptions: int) -> bool:
    few = not plan.unindexed and plan.due_rows * max(1, subscriptions) <= state.settings.inline_rows
    few = few and item_count(plan.part_count) == 1  # so that a note is one change
    return few and len(plan.segments) <= MAX_PART_SEGMENTS and plan.raw_bytes <= 2 * MAX_PART_RAW_BYTES


def _delivery(subscription: SubscriptionState, plan: Plan, now_ms: int, at_once: bool) -> Delivery:
    parts = max(1, plan.part_count)  # one if the plan cannot be read: its delivery makes it again
    return Delivery(
        key=DeliveryKey(**subscription.owned, plan=plan.first_slot),
        queue_url=subscription.queue_url,
        parts=parts,
        start=subscription.start,
        # Nobody knows yet whether all parts reach the work queue, so the sweep enqueues the open parts once more.
        next_check_ms=now_ms + LEASE_MS,
        leases=tuple((part, now_ms) for part in range(parts)) if at_once else (),
        edition=plan.edition,
        created_slot=subscription.created_slot,
        opened_ms=now_ms,
        **subscription.stored(),
    )


def _start(
    ports: Ports, state: TopicState, plan: Plan, deliveries: Sequence[Delivery], at_once: bool, done: Dispatched
) -> None:
    if at_once and deliveries:
        from tidewheel.flows.delivery.deliver import deliver_at_once  # loads pyarrow

        delivered = deliver_at_once(ports, state, plan, deliveries)
        done.sent = done.sent.plus(delivered)
        done.failures += delivered.failures
        return
    for delivery in deliveries:
        try:
            ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
        except Exception as error:  # the next sweep enqueues the parts; the other subscriptions get theirs
            done.failures.append(error)
            continue
        done.enqueued_parts += delivery.parts
