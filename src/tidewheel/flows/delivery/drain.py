"""Drains parks once their subscriptions may receive messages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

import pyarrow as pa

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.administration.pause import activate, drop_parks, wake_parks
from tidewheel.flows.delivery import sending
from tidewheel.flows.delivery.due_rows import without_expired, without_purged
from tidewheel.flows.delivery.parking import DrainHint, enqueue_drains, mark_broken, park_rows, parked_rows
from tidewheel.flows.ports import Ports, persistently
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.park import Park, ParkKey, least_tried
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import Delivered, State, SubscriptionState
from tidewheel.model.topic_state import TopicState

_DRAIN_MS = 20_000
"""How long one task passes dead parks."""
_HINTED_TRIES = 4
"""Tries after which only the sweep starts the next."""
MAX_UNREADABLE_WAIT_MS = 6 * 3_600_000
"""The longest wait between two tries to read a damaged park."""


class _Found(Enum):
    """The outcome of draining a park."""

    NOTHING = auto()
    """The park is gone or leased."""
    NOT_ASKED = auto()
    """The queue was not asked: the park has no live message, or is not readable."""
    ASKED = auto()
    """The queue was asked to take messages."""


@dataclass(slots=True)
class _Drained:
    sent: int = 0
    expired: int = 0
    failures: list[Exception] = field(default_factory=list)


def drain(ports: Ports, key: ParkKey) -> Delivered | None:
    """Sends a park's messages and deletes the park. Messages that the queue does not take stay in a smaller park.

    Returns None if the park is gone, must wait, or is leased by another worker.

    If the queue of a broken subscription takes messages, the subscription has healed: its other parks are enqueued, and
    it is made active again. A park of a broken subscription without live messages is passed, and the next park is
    drained.

    If it stops
        after the lease, or between sends: the next try waits for the lease to end, and sends copies with the same ids.
        after the messages that are left are parked anew: likewise, and these come once more.
        after the park is deleted: the orphan sweep deletes the object. The sweep finds a new park. A broken
            subscription stays broken until the drain of another park gets messages through.
        after the other parks are enqueued: each of their drains makes the subscription active.
    """
    state = ports.topic_states.read(key.topic)
    subscription = ports.subscriptions.read(key.topic, key.subscription)
    if state is None:  # the topic is at rest: a rebuild may bring the topic back
        return None
    if subscription is None or subscription.generation != key.generation:
        park = ports.parks.read(key)
        drop_parks(ports, [] if park is None else [park])
        return None
    if subscription.state is State.PAUSED:
        return None
    done = _Drained()
    found = _drain(ports, state, subscription, key, done)
    if found is _Found.NOTHING:
        return None
    if found is _Found.NOT_ASKED and subscription.state is State.BROKEN:
        _pass(ports, state, subscription, key, done)
    return Delivered(messages=done.sent, expired=done.expired, failures=tuple(done.failures))


def _pass(ports: Ports, state: TopicState, subscription: SubscriptionState, passed: ParkKey, done: _Drained) -> None:
    """Drains the parks of a broken subscription, the least tried first, until one asks the queue."""
    ends_ms = ports.clock.now_ms() + _DRAIN_MS
    for park in least_tried(ports.parks.of(subscription)):
        if park.key == passed:
            continue
        if ports.clock.now_ms() >= ends_ms:
            enqueue_drains(ports, [DrainHint(park.key, 0)])
            return
        if _drain(ports, state, subscription, park.key, done) is _Found.ASKED:
            return


def _drain(ports: Ports, state: TopicState, subscription: SubscriptionState, key: ParkKey, done: _Drained) -> _Found:
    now_ms = ports.clock.now_ms()
    park = ports.parks.lease(key, now_ms, now_ms - LEASE_MS)
    if park is None:
        return _Found.NOTHING
    try:
        wanted = without_purged(parked_rows(ports.objects, park), state)
        rows = without_expired(wanted, now_ms)
        messages = sending.queue_messages(rows, state.settings, carry=subscription.carry, claim=key.generation)
    except Exception as error:
        done.failures.append(error)
        _put_off(ports, park, damage=error if isinstance(error, CorruptLedger | ObjectMissing) else None)
        return _Found.NOT_ASKED
    done.expired += wanted.num_rows - rows.num_rows
    if not messages:
        drop_parks(ports, [park])
        return _Found.NOT_ASKED
    outcome = sending.send(ports, subscription.queue_url, messages)
    done.sent += outcome.sent
    done.failures += outcome.failures
    # First of all, or a failure of anything else would have the messages sent again.
    tried = _settle(ports, state, subscription, park, rows, outcome)
    if outcome.sent and subscription.state is State.BROKEN:
        _heal(ports, subscription, tried, done)
    elif outcome.down and subscription.state is State.ACTIVE:
        mark_broken(ports, subscription)
    return _Found.ASKED


def _heal(ports: Ports, subscription: SubscriptionState, tried: set[ParkKey], done: _Drained) -> None:
    """Enqueues the other parks of a broken subscription, and makes it active.

    If that fails, the next drain that gets messages through does it.
    """
    try:
        wake_parks(ports, ports.queues, ports.clock, subscription, but=tried)
        activate(ports, subscription)
    except Exception as error:
        done.failures.append(error)


def _settle(
    ports: Ports,
    state: TopicState,
    subscription: SubscriptionState,
    park: Park,
    rows: pa.Table,
    outcome: sending.Outcome,
) -> set[ParkKey]:
    """Deletes a park, puts it off, or parks the messages that are left anew. Returns the keys of parks just tried."""
    if len(outcome.untaken) == rows.num_rows:
        _put_off(ports, replace(park, tries=park.tries + 1))
        return {park.key}
    hints: list[DrainHint] = []
    if outcome.untaken:
        hints = park_rows(ports, state, subscription, rows.take(pa.array(outcome.places)), tried=True)
    persistently(lambda: drop_parks(ports, [park]))
    enqueue_drains(ports, hints)
    return {each.key for each in hints}


def _put_off(ports: Ports, park: Park, *, damage: Exception | None = None) -> None:
    """Ends the lease of a park until its next try.

    Args:
        ports: the service.
        park: leased, with its new counts.
        damage: why the park is not readable, if it is not; its tries are not yet counted then.
    """
    tries = park.tries if damage is None else park.tries + 1
    wait_ms = park.wait_s * 1000 if damage is None else min(30_000 << min(tries, 10), MAX_UNREADABLE_WAIT_MS)
    unreadable = None if damage is None else str(damage)
    after = replace(park, tries=tries, next_check_ms=unchecked_ms(ports.clock) + wait_ms, unreadable=unreadable)
    if ports.parks.put_off(park, after) and damage is None and tries < _HINTED_TRIES:
        enqueue_drains(ports, [DrainHint(park.key, park.wait_s)])
