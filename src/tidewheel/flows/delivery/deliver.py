"""Delivers planned rows from ledgers to one subscription's queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import CorruptMetadata, InvalidValue, PartLeased, QueueUnavailable
from tidewheel.flows.delivery import release
from tidewheel.flows.delivery.addressed import rows_for
from tidewheel.flows.delivery.due_rows import due_rows, without_expired
from tidewheel.flows.delivery.parking import spill
from tidewheel.flows.ports import Ports
from tidewheel.model.plan import Plan
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import Delivery, DeliveryKey
from tidewheel.model.topic_state import TopicState

_MOST_TOO_MANY = 4


class Delivered(NamedTuple):
    """The result of a job.

    Attributes:
        messages: sent.
        segments: read.
        failures: why work was left to the work queue.
        parked: messages that the queue did not take, and that were parked.
        expired: messages that were dropped because their time had passed, counted for each subscription.
    """

    messages: int
    segments: int
    failures: tuple[Exception, ...] = ()
    parked: int = 0
    expired: int = 0


def deliver_part(ports: Ports, key: DeliveryKey, part: int) -> Delivered | None:
    """Sends a part of a delivery.

    Returns None if the part is done, its delivery is gone, or the topic is being deleted.

    If it stops
        after the lease: the next try waits for the lease to end.
        between sends, or before the part is marked: the next try sends copies with the same ids.
        after the subscription is marked as broken because its queue refused: the next try sends, or parks.
        before the delivery is deleted: the sweep deletes it.

    Raises:
        InvalidValue: the delivery has no such part.
        PartLeased: another worker has the part, or had the part less than LEASE_MS ago and died.
        CorruptLedger: a segment is damaged; nothing of the part was sent.
        ObjectMissing: an object is gone; nothing of the part was sent.
        NotTaken: the queue temporarily did not take some messages.
    """
    now_ms = ports.clock.now_ms()
    delivery = ports.deliveries.lease_part(key, part, now_ms, now_ms - LEASE_MS)
    if delivery is None:
        current = ports.deliveries.read(key)
        if current is None or part in current.done:
            return None
        raise PartLeased(key, part)
    try:
        state = ports.topic_states.read(key.topic)
        plan = ports.plans.read(key.topic, key.plan)
        if state is None and ports.deletions.read(key.topic) is not None:
            return None
        if state is None or plan is None:
            raise CorruptMetadata(f"delivery {key} is open, but its {'topic' if state is None else 'plan'} is gone")
        parts = plan.parts()
        if part >= len(parts):
            raise InvalidValue("part", part, f"the plan has {len(parts)}; nobody has made this job")
        pieces = parts[part]
        segments = len({piece.planned for piece in pieces})
        wanted = _its_rows(state, delivery, due_rows(ports, state, plan, pieces))
        rows = without_expired(wanted, now_ms)
        expired = wanted.num_rows - rows.num_rows
        try:
            sent = _send(ports, delivery, rows)
        except QueueUnavailable as error:
            parked = _set_aside(ports, state, key, part, rows.take(pa.array(error.unsent)))
            done = rows.num_rows - len(error.unsent)
            return Delivered(messages=done, segments=segments, parked=parked, expired=expired)
    except Exception:
        ports.deliveries.release_part(key, part)
        raise
    after = ports.deliveries.part_done(key, part)
    if after is not None and after.complete:
        ports.deliveries.delete([key])
    return Delivered(messages=sent, segments=segments, expired=expired)


def _set_aside(ports: Ports, state: TopicState, key: DeliveryKey, part: int, rows: pa.Table) -> int:
    """Parks the refused messages of a part. Returns how many were parked.

    So the part does not keep a ledger from being collected.
    """
    if not ports.subscriptions.mark_broken(key.topic, key.subscription, key.generation):
        current = ports.subscriptions.read(key.topic, key.subscription)
        if current is None or current.generation != key.generation:
            ports.deliveries.delete([key])
            return 0
    spill(ports, state, key, part, rows)
    after = ports.deliveries.read(key)
    if after is not None and after.complete:
        ports.deliveries.delete([key])
    return int(rows.num_rows)


def deliver_at_once(ports: Ports, state: TopicState, plan: Plan, deliveries: Sequence[Delivery]) -> Delivered:
    """Sends a small plan to all subscriptions to which it was just handed out.

    Each segment is read once. The caller leased all parts in the hand-out. A failure of one subscription goes to the
    work queue and does not delay the others. If it stops, the sweep enqueues the open deliveries again.
    """
    done: list[DeliveryKey] = []
    failures: list[Exception] = []
    sent = expired = 0
    now_ms = ports.clock.now_ms()
    pieces = [piece for part in plan.parts() for piece in part]
    rows: pa.Table | None = None
    try:
        rows = due_rows(ports, state, plan, pieces)
        if rows.num_rows * len(deliveries) > _MOST_TOO_MANY * state.settings.inline_rows:
            rows = None  # more rows than estimated: send in parts, which are bounded
    except Exception as error:  # the work queue retries, then keeps a dead letter
        failures.append(error)
    for delivery in deliveries:
        try:
            if rows is not None:
                wanted = _its_rows(state, delivery, rows)
                live = without_expired(wanted, now_ms)
                sent += _send(ports, delivery, live)
                expired += wanted.num_rows - live.num_rows
                done.append(delivery.key)
                continue
        except Exception as error:  # likewise; the other subscriptions receive theirs
            failures.append(error)
        for part in range(delivery.parts):
            ports.deliveries.release_part(delivery.key, part)
        ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
    ports.deliveries.delete(done)
    segments = len({piece.planned for piece in pieces})
    return Delivered(messages=sent, segments=segments, failures=tuple(failures), expired=expired)


def _its_rows(state: TopicState, delivery: Delivery, rows: pa.Table) -> pa.Table:
    """Returns the rows of a plan for a subscription."""
    if delivery.start > delivery.key.plan:
        rows = rows.filter(pc.greater_equal(rows.column("deliver_at_ms"), delivery.start * state.slot_ms))
    if delivery.first_ms is not None and delivery.end_ms is not None:
        due = rows.column("deliver_at_ms")
        rows = rows.filter(pc.and_(pc.greater_equal(due, delivery.first_ms), pc.less(due, delivery.end_ms)))
    return rows_for(rows, delivery.key.subscription, delivery.filter_policy)


def _send(ports: Ports, delivery: Delivery, rows: pa.Table) -> int:
    messages = release.releases(rows)
    release.send(ports, delivery.queue_url, messages)
    return len(messages)
