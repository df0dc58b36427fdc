"""Parks messages as ledgers while a queue must not receive messages or does not take them.

A doubted clock does not stop the parking, because other messages have just been sent: it shifts the next try.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from tidewheel import deadline
from tidewheel.deadline import TRY_S
from tidewheel.errors import ConcurrentModification, HeldTooLong, UnknownTopic
from tidewheel.flows.delivery.away import away_since_s
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import content_id
from tidewheel.ledger.ledger import decode_segment, encode_ledger
from tidewheel.ledger.reader import segments_of
from tidewheel.model import object_names
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.job import HoldJob
from tidewheel.model.park import MAX_INLINE_PARK_BYTES, MAX_WAIT_S, Park, ParkKey
from tidewheel.model.segment import Segment
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.model.triggers import HOLD_S, RETENTION_S, UNKNOWN_WAIT_S
from tidewheel.storage.objects import Objects
from tidewheel.storage.parks import JobNote, Parked

_ATTEMPTS = 10
FIRST_WAIT_S = 30
"""Seconds until the first try of messages that a queue has just refused."""
_WAIT_S = 60
HOLDING_S = 2 * TRY_S
"""Kept to hold messages in the work queue, if the table does not take their park."""
_NEW_S = 120
"""How long a subscription is new."""


class DrainHint(NamedTuple):
    """A drain to enqueue.

    Attributes:
        key: the park.
        delay_s: how long the job waits in the work queue.
    """

    key: ParkKey
    delay_s: int


def park_ledger(
    ports: Ports,
    state: TopicState,
    subscription: SubscriptionState,
    ledger: bytes,
    rows: int,
    *,
    tried: bool,
    refused: bool,
    note: JobNote | None = None,
) -> DrainHint | None:
    """Parks messages of a subscription, whatever its state. Returns the drain to enqueue, if any.

    Does nothing if the subscription is gone. The sweep finds the park if the drain is not enqueued. If it stops
        after the object of a large park is put: nothing names the object, and the orphan sweep deletes it a day later.
        after the park is put with its note: all is done.
        after it finds a park that another has put, before the note: the job comes again, and sends a copy if the park
            was drained.

    Args:
        ports: the service.
        state: the topic.
        subscription: as read.
        ledger: the messages.
        rows: how many messages there are.
        tried: whether the queue has just refused the messages.
        refused: whether the queue did so for the messages' own sake, and took others.
        note: of the job that holds the messages.

    Raises:
        ConcurrentModification: the subscription changed under every attempt.
    """
    park = None
    current: SubscriptionState | None = subscription
    for _ in range(_ATTEMPTS):
        if current is None or current.generation != subscription.generation:
            _forget_unnamed(ports, park, Parked.MOVED)
            return None
        wait_ms, delay_s = _waits(current.state, state, tried=tried)
        next_check_ms = unchecked_ms(ports.clock) + wait_ms
        if park is None:
            park = _park(ports, ParkKey(**current.owned, id=""), ledger, rows, next_check_ms, refused=refused)
        parked = ports.parks.put(replace(park, next_check_ms=next_check_ms), current.state, note)
        if parked is Parked.EXISTS and note is not None:
            ports.notes.put(subscription.topic, note.name, 0, note.ttl_s)
        if parked is not Parked.MOVED:
            _forget_unnamed(ports, park, parked)
            return None if delay_s is None else DrainHint(park.key, delay_s)
        current = ports.subscriptions.read(subscription.topic, subscription.name)
    raise ConcurrentModification("parking", subscription.topic, _ATTEMPTS)


def _waits(state: State, topic: TopicState, *, tried: bool) -> tuple[int, int | None]:
    """Returns the milliseconds until a park's first check, and the seconds until its drain, if one is enqueued."""
    if state is State.PAUSED:
        return topic.settings.redrive_s * 1000, None
    if tried:
        return FIRST_WAIT_S * 1000, FIRST_WAIT_S
    if state is State.BROKEN:  # a sweep tries the queue with some park
        return 0, None
    return LEASE_MS, 0


def enqueue_drains(ports: Ports, hints: Iterable[DrainHint | None]) -> None:
    """Enqueues drains, if the work queue takes jobs now. Otherwise the sweep enqueues them at their next check."""
    by_delay: dict[int, list[ParkKey]] = {}
    for hint in hints:
        if hint is not None:
            by_delay.setdefault(hint.delay_s, []).append(hint.key)
    for delay_s, keys in by_delay.items():
        with suppress(Exception):
            ports.queues.enqueue_parks(keys, delay_s=delay_s)


def mark_broken(ports: Ports, topic: str, name: str, generation: str) -> bool:
    """Marks an active subscription as broken. Returns False if the subscription is gone.

    A new subscription is not marked: SQS may not know its new queue yet.

    Returns True if the table does not answer, because the mark only saves calls.
    """
    try:
        current = ports.subscriptions.read(topic, name)
        if current is None or current.generation != generation:
            return False
        if unchecked_ms(ports.clock) >= (current.created_at_ms or 0) + _NEW_S * 1000:
            ports.subscriptions.mark_broken(topic, name, generation)
    except Exception:
        return True
    return True


def park_part(
    ports: Ports, state: TopicState, key: DeliveryKey, part: int, rows: pa.Table, *, refused: bool
) -> DrainHint:
    """Parks the messages of a part that a queue did not take, and marks the part done. Returns the drain to enqueue.

    If it stops
        after the object of a large park is put: as `park_ledger`; the part comes again.
        after the park is put, and the part is marked with it: the sweep drains the park, and deletes a complete
            delivery.

    `refused` tells whether the queue refused the messages for their own sake, and took others.
    """
    owner = ParkKey(**key.owned, id="")
    next_check_ms = unchecked_ms(ports.clock) + FIRST_WAIT_S * 1000
    park = _park(ports, owner, encoded(state, rows), rows.num_rows, next_check_ms, refused=refused)
    parked = ports.parks.park_part(key, part, park)
    _forget_unnamed(ports, park, parked)
    if parked is Parked.EXISTS:  # another delivery of the same messages has parked them already
        ports.deliveries.part_done(key, part)
    return DrainHint(park.key, FIRST_WAIT_S)


def park_inline(
    ports: Ports,
    state: TopicState,
    owner: SubscriptionState | DeliveryKey,
    rows: pa.Table,
    *,
    tried: bool,
    refused: bool = False,
) -> list[DrainHint | None]:
    """Parks messages in items that need no object, because S3 may be what fails. Returns the drains to enqueue.

    Messages that the table does not take either go to the work queue, whose worker parks them. If it stops between two
    items or jobs, a repetition makes the same ones. Equal jobs make one park.

    Args:
        ports: the service.
        state: the topic.
        owner: the subscription as read, or its delivery.
        rows: the messages.
        tried: as for `park_ledger`.
        refused: as for `park_ledger`.

    Raises:
        QueueUnavailable: the work queue takes no jobs either.
    """
    name = owner.subscription if isinstance(owner, DeliveryKey) else owner.name
    since_s = unchecked_ms(ports.clock) // 1000
    hints: list[DrainHint | None] = []
    subscription: SubscriptionState | None = None  # None: the table does not answer
    with suppress(Exception), deadline.reserve(HOLDING_S):
        subscription = ports.subscriptions.read(state.topic, name)
        if subscription is None or subscription.generation != owner.generation:
            return []
    for count, ledger in _portions(state, rows):
        if subscription is not None:
            try:
                with deadline.reserve(HOLDING_S):
                    hints.append(park_ledger(ports, state, subscription, ledger, count, tried=tried, refused=refused))
                continue
            except Exception:
                subscription = None
        job = HoldJob(topic=state.topic, subscription=name, generation=owner.generation, since_s=since_s, ledger=ledger)
        ports.queues.enqueue_hold(job, delay_s=_WAIT_S)
    return hints


def _portions(state: TopicState, rows: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Returns ledgers that fit into an item or a job, with their numbers of messages."""
    ledger = encoded(state, rows)
    if len(ledger) <= MAX_INLINE_PARK_BYTES or rows.num_rows == 1:
        yield rows.num_rows, ledger
        return
    half = rows.num_rows // 2
    yield from _portions(state, rows.slice(0, half))
    yield from _portions(state, rows.slice(half))


def held_rows(job: HoldJob) -> int:
    """Returns how many messages a job holds.

    Raises:
        CorruptLedger: the job's ledger is damaged.
    """
    return sum(segment.rows for segment in _segments(job.ledger, "of a job"))


def park_held(ports: Ports, job: HoldJob) -> Exception | None:
    """Parks messages that came in a job. Returns the error if the job was put off.

    Does nothing if the topic is being deleted, or the subscription is gone. A rebuild takes the topic state away for a
    while: the job waits for it, from when it is away. Work that SQS delivers twice is done once: a note outlives the
    park.

    If it stops
        after the park is put, and the note with it: the job comes again, and finds the note.
        after the job is enqueued again: both jobs make one park.

    Raises:
        CorruptLedger: the job's ledger is damaged.
        HeldTooLong: neither the table nor a rebuild ended the wait in time.
        QueueUnavailable: neither the table nor the work queue takes the messages; the job comes again.
    """
    rows = held_rows(job)
    name = f"hold-{job.subscription}-{job.generation}-{job.since_s}-{content_id(job.ledger)}"
    since_s, longest_s = job.since_s, HOLD_S
    try:
        # Before the topic state: a job whose park was drained is not to be refused while the topic is away.
        if ports.notes.read(job.topic, name) is not None:
            return None
        state = ports.topic_states.read(job.topic)
        if state is None:
            if ports.deletions.read(job.topic) is not None:
                return None
            since_s, longest_s = max(since_s, away_since_s(ports, job.topic)), UNKNOWN_WAIT_S
            raise UnknownTopic(job.topic)
        subscription = ports.subscriptions.read(job.topic, job.subscription)
        if subscription is not None and subscription.generation == job.generation:
            note = JobNote(name, ports.clock.now_ms() // 1000 + RETENTION_S)
            hint = park_ledger(ports, state, subscription, job.ledger, rows, tried=False, refused=False, note=note)
            enqueue_drains(ports, [hint])
    except Exception as error:
        now_s = ports.clock.now_ms() // 1000
        if now_s >= since_s + longest_s:
            raise HeldTooLong(rows, longest_s, error) from error
        # A time in the future is another program's: it would never end.
        ports.queues.enqueue_hold(replace(job, since_s=min(job.since_s, now_s)), delay_s=MAX_WAIT_S)
        return error
    return None


def parked_rows(objects: Objects, park: Park) -> pa.Table:
    """Reads the messages of a park.

    Raises:
        ObjectMissing: its object is gone.
        CorruptLedger: its ledger is damaged.
    """
    name = park.object_name or f"of park {park.key.id}"
    data = park.ledger
    if data is None:
        data = objects.get_range(name, 0, park.size_bytes)
    decoded = (
        decode_segment(data[each.offset : each.offset + each.length], object_name=name, segment=each)
        for each in _segments(data, name)
    )
    return pa.concat_tables(decoded)


def _segments(data: bytes, name: str) -> Iterable[Segment]:
    return segments_of(lambda offset, length: data[offset : offset + length], len(data), name)


def encoded(state: TopicState, rows: pa.Table) -> bytes:
    """Returns rows as the ledger of a park."""
    return encode_ledger(rows, topic=state.topic, generation=state.generation, slot_ms=state.slot_ms).data


def remainder(ports: Ports, state: TopicState, park: Park, rows: pa.Table) -> Park:
    """Returns a new park of messages that are left of a park. Puts the object of a large park."""
    next_check_ms = unchecked_ms(ports.clock) + park.wait_s * 1000
    made = _park(ports, park.key, encoded(state, rows), rows.num_rows, next_check_ms)
    return replace(made, tries=park.tries, refused_ms=park.refused_ms)


def _park(ports: Ports, owner: ParkKey, ledger: bytes, rows: int, next_check_ms: int, *, refused: bool = False) -> Park:
    """Returns a park of some rows. Puts the object of a large park."""
    key = replace(owner, id=content_id(ledger))
    inline = len(ledger) <= MAX_INLINE_PARK_BYTES
    object_name = None if inline else object_names.park_name(key, ports.objects.new_attempt())
    if object_name is not None:
        ports.objects.put(object_name, ledger)
    return Park(
        key=key,
        rows=rows,
        size_bytes=len(ledger),
        next_check_ms=next_check_ms,
        ledger=ledger if inline else None,
        object_name=object_name,
        refused_ms=unchecked_ms(ports.clock) if refused else None,
        first_due_ms=min(each.first_deliver_at_ms for each in _segments(ledger, "of a park")),
    )


def _forget_unnamed(ports: Ports, park: Park | None, parked: Parked) -> None:
    """Deletes the object of a park that was not put.

    The object stays if the stored park names it: then this try had put the park, and the answer was lost.
    """
    if park is None or parked is Parked.PARKED or park.object_name is None:
        return
    found = ports.parks.read(park.key)
    if found is None or found.object_name != park.object_name:
        ports.objects.delete([park.object_name])
