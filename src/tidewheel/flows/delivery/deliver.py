"""Delivers planned rows from ledgers to one subscription's queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import add
from typing import NamedTuple

import pyarrow as pa

from tidewheel import deadline
from tidewheel.errors import CorruptMetadata, ObjectMissing, ObjectRefused, OutOfTime, PartLeased
from tidewheel.flows.delivery import sending
from tidewheel.flows.delivery.due_rows import due_rows, rows_for, rows_of, without_expired, without_ids
from tidewheel.flows.delivery.parking import park_rest
from tidewheel.flows.delivery.plan_again import plan_at, segments_of_unindexed
from tidewheel.flows.delivery.unread import is_of_object, lost_objects, notes_of, unread_of
from tidewheel.flows.ports import Ports, persistently
from tidewheel.ledger.rows import without_repeats
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.message import id_bytes
from tidewheel.model.plan import Piece, Plan
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import NOTHING_SENT, Delivered, Delivery, DeliveryKey, Tally, Unread
from tidewheel.model.topic_state import TopicState

_MOST_TIMES_INLINE = 4
"""A plan that turns out to need more than so many times `inline_rows` sends is sent in parts."""
_PORTION_S = 15
"""Time for a portion of a ledger whose index dispatch could not read."""


def deliver_part(ports: Ports, key: DeliveryKey, part: int) -> Delivered | None:
    """Sends a part of a delivery.

    Returns None if the part is done, its delivery is gone, or the topic is being deleted.

    If it stops
        after the lease: the next try waits for the lease to end.
        between sends, or before the part is marked or its unread pieces are noted: the next try sends copies with the
            same ids.
        after the subscription is marked as broken, or after messages that its queue did not take are parked: likewise.
        after the rest of a large ledger is noted, for which there was no time: the sweep enqueues the part.
        before the delivery is finished: the sweep finishes it.

    Raises:
        PartLeased: another worker has the part, or had the part less than LEASE_MS ago and died.
        Exception: the table did not answer.
    """
    # First a read of the table: its answer shows whether the local clock is right. The clock then decides the lease.
    state = ports.topic_states.read(key.topic)
    now_ms = ports.clock.now_ms()
    delivery = ports.deliveries.lease_part(key, part, now_ms, now_ms - LEASE_MS)
    if delivery is None:
        current = ports.deliveries.read_marks(key, part)
        if current is None or part in current.done:
            return None
        raise PartLeased(key, part)
    try:
        if state is None:
            if ports.deletions.read(key.topic) is not None:
                return None
            raise CorruptMetadata(f"delivery {key} is open, but its topic is gone")
        sent = _deliver(ports, state, delivery, part)
    except Exception:
        ports.deliveries.release_part(key, part)
        raise
    if sent is None:
        return None
    if sent.unread is not None:
        note, tally = {part: sent.unread}, sent.done.tally
        persistently(lambda: ports.deliveries.note_unread(delivery, note, str(sent.reason), now_ms, tally=tally))
        if sent.goes_on:
            ports.queues.enqueue_parts(key, [part])
        return sent.done
    done_ms, tally = unchecked_ms(ports.clock), sent.done.tally
    after = persistently(lambda: ports.deliveries.part_done(key, part, delivery.edition, tally, done_ms))
    ended = None if after is None else ports.deliveries.ended(after, part)
    if ended is not None:
        ports.deliveries.finish(ended, state.settings.record_ttl_s(done_ms))
    return sent.done


class _Sent(NamedTuple):
    """What came of a part.

    Attributes:
        unread: the pieces that could not be read, or for which there was no time.
        reason: the error of `unread`.
        goes_on: whether time was all that was missing. Each task sends some of the part, so the next may come at once.
    """

    done: Delivered
    unread: Unread | None = None
    reason: Exception | None = None
    goes_on: bool = False


def _deliver(ports: Ports, state: TopicState, delivery: Delivery, part: int) -> _Sent | None:
    """Sends the rows of a leased part that can be read. Returns None if there is nothing to mark."""
    try:
        plan = plan_at(ports, state, delivery.key.plan)
    except (ObjectMissing, ObjectRefused) as error:
        return _nothing_read(Unread((), (error.object_name,), 0, lost=True), error)
    if plan is None:
        raise CorruptMetadata(f"delivery {delivery.key} is open, but its plan is gone")
    if (plan.edition, plan.part_count) != (delivery.edition, delivery.parts):
        # Another edition has other parts. A delivery has one part if its plan could not be read when it was handed out.
        if ports.deliveries.restart(delivery, plan.edition, plan.part_count):
            ports.queues.enqueue_parts(delivery.key, range(plan.part_count))
        return None
    if part >= delivery.parts:
        return None  # a task of another edition
    parts = plan.parts()
    if part < len(parts):
        return _send_portions(ports, state, plan, delivery, part, [parts[part]])
    ledger = plan.unindexed[part - len(parts)]
    try:
        segments = segments_of_unindexed(ports.objects, ledger, plan, state.slot_ms)
    except Exception as error:
        return _nothing_read(Unread((), (ledger.object_name,), ledger.rows, is_of_object(error)), error)
    portions = replace(plan, segments=tuple(segments), unindexed=()).parts()
    return _send_portions(ports, state, plan, delivery, part, portions)


def _nothing_read(unread: Unread, error: Exception) -> _Sent:
    return _Sent(Delivered(failures=(error,), unread=lost_objects(unread)), unread, error)


def _send_portions(
    ports: Ports, state: TopicState, plan: Plan, delivery: Delivery, part: int, portions: Sequence[Sequence[Piece]]
) -> _Sent:
    """Sends the pieces of a part, or those that could not be read before, in portions that fit into memory."""
    noted = dict(delivery.unread).get(part)
    numbered = list(enumerate(piece for pieces in portions for piece in pieces))
    if noted is not None and noted.pieces:
        numbered = [numbered[number] for number in noted.pieces if number < len(numbered)]
    numbers = {piece: number for number, piece in numbered}
    done, errors, late = Delivered(), dict[Piece, Exception](), OutOfTime("the rest of a ledger")
    for portion in portions:
        pieces = [piece for piece in portion if piece in numbers]
        if done.segments and deadline.left_s() < _PORTION_S:
            errors |= dict.fromkeys(pieces, late)
        elif pieces:
            due = due_rows(ports, state, plan, pieces)
            errors |= {piece: each.error for each in due.unread for piece in each.pieces}
            sent = _send(ports, state, delivery, due.rows)
            done = done.plus(sent._replace(segments=len({piece.planned for piece in pieces}), purged=due.purged))
    if not errors:
        return _Sent(done)
    unread = unread_of({numbers[piece]: piece for piece in errors}, sum(map(len, portions)), errors, delivery.parts)
    causes = tuple(each for each in dict.fromkeys(errors.values()) if each is not late)  # one of many is reported once
    done = done._replace(failures=done.failures + causes, unread=lost_objects(unread))
    return _Sent(done, unread, causes[-1] if causes else late, goes_on=not causes)


def _send(ports: Ports, state: TopicState, delivery: Delivery, rows: pa.Table) -> Delivered:
    """Sends rows to a delivery's queue, and parks the rest."""
    live, expired = _ready(ports, state, delivery, without_repeats(rows))
    messages = sending.queue_messages(live, state.settings, carry=delivery.carry, claim=delivery.key.generation)
    outcome = sending.send(ports, delivery.queue_url, messages)
    parked = park_rest(ports, state, delivery, live, outcome) if outcome.untaken else 0
    refused = outcome.refused
    return Delivered(messages=outcome.sent, failures=outcome.failures, parked=parked, expired=expired, refused=refused)


def _ready(ports: Ports, state: TopicState, delivery: Delivery, rows: pa.Table) -> tuple[pa.Table, int]:
    """Returns the rows of a delivery that are to be sent now, and how many have expired."""
    if rows.num_rows and delivery.key.plan < delivery.created_slot:  # a late cancel may be older than the subscription
        end = rows.column("deliver_at_ms")[-1].as_py() // state.slot_ms + 1
        cancelled = ports.tombstones.ids(state.topic, delivery.key.plan, min(end, delivery.created_slot))
        rows = without_ids(rows, map(id_bytes, cancelled))
    its_rows = rows_for(rows_of(state, delivery, rows), delivery.key.subscription, delivery.filter_policy)
    live = without_expired(its_rows, ports.clock.now_ms())
    return live, its_rows.num_rows - live.num_rows


def deliver_at_once(ports: Ports, state: TopicState, plan: Plan, deliveries: Sequence[Delivery]) -> Delivered:
    """Sends a small plan to all subscriptions to which it was just handed out.

    Each segment is read once. The caller leased all parts in the hand-out. The messages that a queue does not take are
    parked for its subscription. Any other failure of a subscription goes to the work queue and does not delay the
    others. If it stops, the sweep enqueues the open deliveries again.
    """
    parts = plan.parts()
    pieces = [piece for part in parts for piece in part]
    segments = len({piece.planned for piece in pieces})
    failures: list[Exception] = []
    rows, unread, purged = due_rows(ports, state, plan, pieces)
    rows = without_repeats(rows)
    if rows.num_rows * len(deliveries) > _MOST_TIMES_INLINE * state.settings.inline_rows:
        _leave_to_queue(ports, deliveries, failures)  # more rows than estimated: send in parts, which are bounded
        return Delivered(segments=segments, failures=tuple(failures))
    ready: list[_Ready] = []
    for delivery in deliveries:
        with _alone(ports, delivery, failures):
            ready.append(_Ready(delivery, *_ready(ports, state, delivery, rows), purged))
    failures += [each.error for each in unread]
    notes = notes_of(parts, unread, plan.part_count) if unread else {}
    note = partial(_note, ports, notes, str(unread[0].error)) if unread else None
    done = _send_ready(ports, state, ready, note, failures)
    lost = tuple(sorted({name for each in notes.values() for name in lost_objects(each)}))
    return done._replace(segments=segments, failures=tuple(failures), unread=lost)


class _Ready(NamedTuple):
    """The rows of a delivery that are to be sent now, and how many have expired or are purged."""

    delivery: Delivery
    rows: pa.Table
    expired: int
    purged: int


@contextmanager
def _alone(ports: Ports, delivery: Delivery, failures: list[Exception]) -> Iterator[None]:
    """Leaves a delivery to the work queue if the block fails. The other subscriptions get their messages."""
    try:
        yield
    except Exception as error:
        failures.append(error)
        _leave_to_queue(ports, [delivery], failures)


def _send_ready(
    ports: Ports,
    state: TopicState,
    ready: Sequence[_Ready],
    note: Callable[[Delivery, Tally], object] | None,
    failures: list[Exception],
) -> Delivered:
    """Sends the rows of deliveries side by side, parks the rest of each, and finishes the deliveries.

    If pieces could not be read, notes them instead.
    """
    sendings = [
        (to.queue_url, sending.queue_messages(rows, state.settings, carry=to.carry, claim=to.key.generation))
        for to, rows, *_ in ready
    ]
    outcomes = sending.send_all(ports, sendings)
    done: list[Delivery] = []
    total = NOTHING_SENT
    for (delivery, rows, expired, purged), outcome in zip(ready, outcomes, strict=True):
        failures += outcome.failures
        with _alone(ports, delivery, failures):
            parked = park_rest(ports, state, delivery, rows, outcome) if outcome.untaken else 0
            tally = Tally(outcome.sent, parked, outcome.refused, expired, purged)
            total = Tally(*map(add, total, tally))
            if note is None:
                done.append(replace(delivery, tally=tally))
            else:
                note(delivery, tally)
    for delivery in done:
        _finish(ports, state, delivery, failures)
    return Delivered(messages=total.sent, parked=total.parked, expired=total.expired)


def _note(ports: Ports, notes: Mapping[int, Unread], reason: str, delivery: Delivery, tally: Tally) -> None:
    """Notes the pieces of a delivery that could not be read, and that its other parts are done."""
    others, now_ms = set(range(delivery.parts)).difference(notes), unchecked_ms(ports.clock)
    persistently(lambda: ports.deliveries.note_unread(delivery, notes, reason, now_ms, others, tally))


def _finish(ports: Ports, state: TopicState, delivery: Delivery, failures: list[Exception]) -> None:
    """Finishes a complete delivery. If that fails, marks its parts done, and the sweep finishes the delivery."""
    key, edition, now_ms = delivery.key, delivery.edition, unchecked_ms(ports.clock)
    try:
        ports.deliveries.finish(replace(delivery, done_ms=now_ms), state.settings.record_ttl_s(now_ms))
    except Exception as error:
        failures.append(error)
        for part in range(delivery.parts):
            tally = NOTHING_SENT if part else delivery.tally
            persistently(partial(ports.deliveries.part_done, key, part, edition, tally, now_ms))


def _leave_to_queue(ports: Ports, deliveries: Sequence[Delivery], failures: list[Exception]) -> None:
    """Leaves deliveries to the work queue. Notes a failure. The sweep finds each delivery that was not enqueued."""
    for delivery in deliveries:
        try:
            for part in range(delivery.parts):
                ports.deliveries.release_part(delivery.key, part)
            ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
        except Exception as error:
            failures.append(error)
