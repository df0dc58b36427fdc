"""Delivers planned rows from ledgers to one subscription's queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from tidewheel import deadline
from tidewheel.errors import CorruptMetadata, InvalidValue, NewerRelease, ObjectMissing, PartLeased
from tidewheel.flows.delivery import release
from tidewheel.flows.delivery.due_rows import Unread, due_rows, rows_for, rows_of, without_expired
from tidewheel.flows.delivery.parking import HOLDING_S, DrainHint, enqueue_drains, mark_broken, park_inline, park_part
from tidewheel.flows.delivery.plan_anew import deliver_anew
from tidewheel.flows.delivery.set_aside import deliver_unindexed, set_aside, set_aside_all
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parallel import persistently
from tidewheel.ledger.rows import without_repeats
from tidewheel.model.plan import Plan
from tidewheel.model.set_aside import SetAside
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import Delivery, DeliveryKey
from tidewheel.model.topic_state import TopicState

_MOST_TIMES_INLINE = 4
"""A plan that turns out to need more than so many times `inline_rows` sends is sent in parts."""


class Delivered(NamedTuple):
    """The result of a job.

    Attributes:
        messages: sent.
        segments: read.
        failures: errors of some of the work, which is parked, set aside, or left to the work queue or the sweep.
        parked: messages that the queue did not take, and that were parked.
        expired: messages that were dropped because their time had passed, counted for each subscription.
        set_aside: parts of which something could not be read.
        damaged: set-aside items that became damaged.
    """

    messages: int = 0
    segments: int = 0
    failures: tuple[Exception, ...] = ()
    parked: int = 0
    expired: int = 0
    set_aside: int = 0
    damaged: int = 0


def deliver_part(ports: Ports, key: DeliveryKey, part: int) -> Delivered | None:
    """Sends a part of a delivery.

    Returns None if the part is done, its delivery is gone, or the topic is being deleted.

    If it stops
        after the lease: the next try waits for the lease to end.
        after what cannot be read is set aside: the next try sets the same aside.
        between sends, or before the part is marked: the next try sends copies with the same ids.
        after the subscription is marked as broken because its queue took nothing: likewise.
        before the delivery is deleted: the sweep deletes it.

    Raises:
        PartLeased: another worker has the part, or had the part less than LEASE_MS ago and died.
        Exception: S3 gave nothing of the part, or what is to be set aside was not taken; nothing was sent.
    """
    # Before the time decides a lease: the answer shows whether the local clock is right.
    state = ports.topic_states.read(key.topic)
    now_ms = ports.clock.now_ms()
    delivery = ports.deliveries.lease_part(key, part, now_ms, now_ms - LEASE_MS)
    if delivery is None:
        current = ports.deliveries.read(key)
        if current is None or part in current.done:
            return None
        raise PartLeased(key, part)
    try:
        if state is None:
            if ports.deletions.read(key.topic) is not None:
                return None
            raise CorruptMetadata(f"delivery {key} is open, but its topic is gone")
        done, marked = _deliver(ports, state, delivery, part, now_ms)
    except Exception:
        ports.deliveries.release_part(key, part)
        raise
    if not marked:
        _done(ports, key, part)
    return done


def _deliver(
    ports: Ports, state: TopicState, delivery: Delivery, part: int, now_ms: int
) -> tuple[Delivered | None, bool]:
    """Sends a leased part. Returns the result, and whether no more is to be marked in the table."""
    key = delivery.key
    try:
        plan = _plan(ports, key)
    except NewerRelease:
        raise
    except (CorruptMetadata, ObjectMissing) as error:
        put = deliver_anew(ports, state, delivery, part, error)
        return Delivered(failures=(error,), set_aside=put or 0, damaged=int(put is None)), True
    if delivery.parts < plan.part_count:  # handed out while the plan could not be read
        put = set_aside_all(ports, plan, delivery, CorruptMetadata("its plan could not be read when handed out"))
        ports.deliveries.delete([key])
        return Delivered(set_aside=put), True
    if part >= plan.part_count:
        return None, True  # a job from before a rebuild, whose new plan has fewer parts
    parts = plan.parts()
    if part >= len(parts):
        return _deliver_index(ports, state, plan, delivery, part), False
    pieces = parts[part]
    rows, unread = due_rows(ports, state, plan, pieces)
    try:
        ready = _ready(ports, state, plan, delivery, without_repeats(rows), unread, now_ms)
    except InvalidValue as error:  # the filter cannot be read
        ready = _ready(ports, state, plan, delivery, rows.slice(0, 0), [Unread(list(pieces), error)], now_ms)
    messages = release.releases(ready.rows, delivery.carry, state.claim(key.generation))
    outcome = release.send(ports, delivery.queue_url, messages)
    parked = _park_rest(ports, state, key, part, ready.rows, outcome) if outcome.untaken else 0
    failures = outcome.failures if outcome.untaken else ()
    segments = len({piece.planned for piece in pieces})
    return _delivered([ready], outcome.sent, segments, failures, parked), bool(outcome.untaken)


def _delivered(
    ready: Sequence[_Ready], messages: int, segments: int, failures: Sequence[Exception], parked: int
) -> Delivered:
    aside = [item for each in ready for item in each.aside]
    return Delivered(
        messages=messages,
        segments=segments,
        failures=tuple(failures),
        parked=parked,
        expired=sum(each.expired for each in ready),
        set_aside=len(aside),
        damaged=sum(each.damaged for each in aside),
    )


class _Ready(NamedTuple):
    """The rows of a delivery that are to be sent now.

    Attributes:
        expired: how many rows were dropped because their time had passed.
        aside: the items of what could not be read.
    """

    delivery: Delivery
    rows: pa.Table
    expired: int
    aside: list[SetAside]


def _ready(
    ports: Ports,
    state: TopicState,
    plan: Plan,
    delivery: Delivery,
    rows: pa.Table,
    unread: Sequence[Unread],
    now_ms: int,
) -> _Ready:
    """Selects a delivery's rows. Sets unreadable segments aside.

    Raises:
        InvalidValue: the delivery's filter cannot be read.
    """
    wanted = rows_for(rows_of(state, delivery, rows), delivery.key.subscription, delivery.filter_policy)
    live = without_expired(wanted, now_ms)
    aside = set_aside(ports, plan, delivery, unread) if unread else []
    return _Ready(delivery, live, wanted.num_rows - live.num_rows, aside)


def _deliver_index(ports: Ports, state: TopicState, plan: Plan, delivery: Delivery, part: int) -> Delivered:
    """Does a part that is a ledger whose index is still to be read."""
    kept = deliver_unindexed(ports, state, plan, delivery, part)
    return Delivered() if kept is None else Delivered(failures=(kept[1],), set_aside=1, damaged=int(kept[0].damaged))


def _plan(ports: Ports, key: DeliveryKey) -> Plan:
    plan = ports.plans.read(key.topic, key.plan)
    if plan is None:
        raise CorruptMetadata(f"delivery {key} is open, but its plan is gone")
    return plan


def _done(ports: Ports, key: DeliveryKey, part: int) -> None:
    _delete_complete(ports, persistently(lambda: ports.deliveries.part_done(key, part)))


def _delete_complete(ports: Ports, delivery: Delivery | None) -> None:
    if delivery is not None and delivery.complete:
        ports.deliveries.delete([delivery.key])


def _park_rest(
    ports: Ports, state: TopicState, key: DeliveryKey, part: int, rows: pa.Table, outcome: release.Outcome
) -> int:
    """Parks the messages of a part that the queue did not take. Returns how many were parked.

    So the part does not come again because of them, and does not keep a ledger from being collected.
    """
    left = rows.take(pa.array(outcome.places))
    if outcome.down and not mark_broken(ports, key.topic, key.subscription, key.generation):
        ports.deliveries.delete([key])
        return 0
    hints: Sequence[DrainHint | None]
    try:
        with deadline.reserve(HOLDING_S):
            hints = [park_part(ports, state, key, part, left, refused=outcome.refused_some)]
    except Exception:
        hints = park_inline(ports, state, key, left, tried=True, refused=outcome.refused_some)
        persistently(lambda: ports.deliveries.part_done(key, part))
    _delete_complete(ports, ports.deliveries.read(key))
    enqueue_drains(ports, hints)
    return int(left.num_rows)


def deliver_at_once(ports: Ports, state: TopicState, plan: Plan, deliveries: Sequence[Delivery]) -> Delivered:
    """Sends a small plan to all subscriptions to which it was just handed out.

    Each segment is read once. The caller leased all parts in the hand-out. The messages that a queue does not take are
    parked for its subscription. Any other failure of a subscription goes to the work queue and does not delay the
    others. If it stops, the sweep enqueues the open deliveries again.
    """
    pieces = [piece for part in plan.parts() for piece in part]
    segments = len({piece.planned for piece in pieces})
    failures: list[Exception] = []
    unread: list[Unread] = []
    try:
        rows, unread = due_rows(ports, state, plan, pieces)
        rows = without_repeats(rows)
    except Exception as error:  # the work queue retries, then keeps a dead letter
        rows = None
        failures.append(error)
    if rows is None or rows.num_rows * len(deliveries) > _MOST_TIMES_INLINE * state.settings.inline_rows:
        _leave_to_queue(ports, deliveries, failures)  # more rows than estimated: send in parts, which are bounded
        return Delivered(segments=segments, failures=tuple(failures))
    ready: list[_Ready] = []
    for delivery in deliveries:
        try:
            ready.append(_ready(ports, state, plan, delivery, rows, unread, ports.clock.now_ms()))
        except Exception as error:  # likewise; the other subscriptions receive theirs
            failures.append(error)
            _leave_to_queue(ports, [delivery], failures)
    messages, parked = _send_ready(ports, state, ready, failures)
    failures += [each.error for each in unread]
    return _delivered(ready, messages, segments, failures, parked)


def _send_ready(ports: Ports, state: TopicState, ready: Sequence[_Ready], failures: list[Exception]) -> tuple[int, int]:
    """Sends the rows of deliveries side by side, parks the rest of each, and deletes the deliveries.

    Returns how many messages were sent, and how many parked.
    """
    sendings = [
        (to.queue_url, release.releases(rows, to.carry, state.claim(to.key.generation))) for to, rows, *_ in ready
    ]
    outcomes = release.send_all(ports, sendings)
    done: list[Delivery] = []
    parked = 0
    for (delivery, rows, *_), outcome in zip(ready, outcomes, strict=True):
        failures += [] if outcome.error is None else [outcome.error]
        try:
            if outcome.untaken:
                parked += _park_rest(ports, state, delivery.key, 0, rows, outcome)
            done.append(delivery)
        except Exception as error:
            failures.append(error)
            _leave_to_queue(ports, [delivery], failures)
    _delete_done(ports, done, failures)
    return sum(each.sent for each in outcomes), parked


def _delete_done(ports: Ports, deliveries: Sequence[Delivery], failures: list[Exception]) -> None:
    """Deletes complete deliveries. If that fails, marks their parts done, and the sweep deletes the deliveries."""
    try:
        ports.deliveries.delete([each.key for each in deliveries])
    except Exception as error:
        failures.append(error)
        for delivery in deliveries:
            for part in range(delivery.parts):
                persistently(partial(ports.deliveries.part_done, delivery.key, part))


def _leave_to_queue(ports: Ports, deliveries: Sequence[Delivery], failures: list[Exception]) -> None:
    """Leaves deliveries to the work queue. Notes a failure. The sweep finds each delivery that was not enqueued."""
    for delivery in deliveries:
        try:
            for part in range(delivery.parts):
                ports.deliveries.release_part(delivery.key, part)
            ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
        except Exception as error:
            failures.append(error)
