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
from tidewheel.errors import ConcurrentModification
from tidewheel.flows.delivery.sending import Outcome
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import content_id
from tidewheel.ledger.ledger import decode_segment, encode_ledger
from tidewheel.ledger.reader import segments_of
from tidewheel.model import object_names
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.park import MAX_INLINE_PARK_BYTES, Park, ParkKey
from tidewheel.model.plan import Segment
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import Delivery, State, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import Objects
from tidewheel.storage.parks import Parked

_ATTEMPTS = 10
FIRST_WAIT_S = 30
"""Seconds until the first try of messages that a queue has just refused."""
_IN_ITEMS_S = 2 * TRY_S
"""Kept to park messages in items, if S3 does not take the object of their park."""
_NEW_S = 120
"""How long a subscription is new."""


class DrainHint(NamedTuple):
    """A drain to enqueue.

    Attributes:
        key: the park.
        delay_s: how long the task waits in the work queue.
    """

    key: ParkKey
    delay_s: int


def park_rest(ports: Ports, state: TopicState, delivery: Delivery, rows: pa.Table, outcome: Outcome) -> int:
    """Parks the messages that the queue did not take. Returns how many.

    So the part does not come again because of them, and does not keep a ledger from being collected.
    """
    key = delivery.key
    subscription = ports.subscriptions.read(key.topic, key.subscription)
    if subscription is None or subscription.generation != key.generation:
        return 0
    if outcome.down:
        subscription = mark_broken(ports, subscription)
    left = rows.take(pa.array(outcome.places))
    enqueue_drains(ports, park_rows(ports, state, subscription, left, tried=True))
    return int(left.num_rows)


def park_rows(
    ports: Ports,
    state: TopicState,
    subscription: SubscriptionState,
    rows: pa.Table,
    *,
    tried: bool,
    ledger: bytes | None = None,
) -> list[DrainHint]:
    """Parks messages of a subscription, whatever its state. Returns the drains to enqueue.

    Does nothing if the subscription is gone. If S3 does not take the object of a large park, parks in items take its
    place. The sweep finds a park whose drain is not enqueued. If it stops between two parks, a repetition makes the
    same ones.

    Args:
        ports: the service.
        state: the topic.
        subscription: as read.
        rows: the messages.
        tried: whether the queue has just refused the messages.
        ledger: the messages, encoded. None: not encoded yet.

    Raises:
        ConcurrentModification: the subscription changed under every attempt.
        Exception: the table does not take the messages.
    """
    data = encoded(state, rows) if ledger is None else ledger
    if len(data) <= MAX_INLINE_PARK_BYTES:
        return _park_ledger(ports, state, subscription, data, rows.num_rows, tried=tried)
    with suppress(Exception), deadline.reserve(_IN_ITEMS_S):
        return _park_ledger(ports, state, subscription, data, rows.num_rows, tried=tried)
    found: list[DrainHint] = []
    for count, each in _portions(state, rows):
        found += _park_ledger(ports, state, subscription, each, count, tried=tried)
    return found


def _park_ledger(
    ports: Ports, state: TopicState, subscription: SubscriptionState, ledger: bytes, rows: int, *, tried: bool
) -> list[DrainHint]:
    """Puts a park, and before it the object of a large park. If it stops between the two, the object is an orphan."""
    made = None
    current: SubscriptionState | None = subscription
    for _ in range(_ATTEMPTS):
        if current is None or current.generation != subscription.generation:
            _forget_unnamed(ports, made, Parked.MOVED)
            return []
        wait_ms, delay_s = _waits(current.state, state, tried=tried)
        next_check_ms = unchecked_ms(ports.clock) + wait_ms
        made = made or _made(ports, ParkKey(**current.owned, id=content_id(ledger)), ledger, rows)
        parked = ports.parks.put(replace(made, next_check_ms=next_check_ms), current.state)
        if parked is not Parked.MOVED:
            _forget_unnamed(ports, made, parked)
            return [] if delay_s is None else [DrainHint(made.key, delay_s)]
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


def enqueue_drains(ports: Ports, hints: Iterable[DrainHint]) -> None:
    """Enqueues drains, if the work queue takes tasks now. Otherwise the sweep enqueues them at their next check."""
    by_delay: dict[int, list[ParkKey]] = {}
    for hint in hints:
        by_delay.setdefault(hint.delay_s, []).append(hint.key)
    for delay_s, keys in by_delay.items():
        with suppress(Exception):
            ports.queues.enqueue_parks(keys, delay_s=delay_s)


def mark_broken(ports: Ports, subscription: SubscriptionState) -> SubscriptionState:
    """Marks an active subscription as broken. Returns the subscription.

    A new subscription is not marked: SQS may not know its new queue yet. The mark only saves calls, so a failure is
    passed over.
    """
    if unchecked_ms(ports.clock) < subscription.created_at_ms + _NEW_S * 1000:
        return subscription
    with suppress(Exception):
        ports.subscriptions.mark_broken(subscription.topic, subscription.name, subscription.generation)
    return replace(subscription, state=State.BROKEN)


def _portions(state: TopicState, rows: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Returns ledgers that fit into an item, with their numbers of messages."""
    ledger = encoded(state, rows)
    if len(ledger) <= MAX_INLINE_PARK_BYTES or rows.num_rows == 1:
        yield rows.num_rows, ledger
        return
    half = rows.num_rows // 2
    yield from _portions(state, rows.slice(0, half))
    yield from _portions(state, rows.slice(half))


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


def _made(ports: Ports, key: ParkKey, ledger: bytes, rows: int) -> Park:
    """Returns a new park. Puts the object of a large park."""
    inline = len(ledger) <= MAX_INLINE_PARK_BYTES
    object_name = None if inline else object_names.park_name(key, ports.objects.new_attempt())
    if object_name is not None:
        ports.objects.put(object_name, ledger)
    return Park(
        key=key,
        rows=rows,
        size_bytes=len(ledger),
        next_check_ms=0,
        ledger=ledger if inline else None,
        object_name=object_name,
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
