"""Drains parks once their subscriptions may receive messages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

import pyarrow as pa

from tidewheel.flows.administration.pause import activate, drop_parks, wake_parks
from tidewheel.flows.delivery import release
from tidewheel.flows.delivery.damage import is_damage
from tidewheel.flows.delivery.deliver import Delivered
from tidewheel.flows.delivery.due_rows import without_expired, without_purged
from tidewheel.flows.delivery.parking import DrainHint, enqueue_drains, mark_broken, park_inline, parked_rows, remainder
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parallel import persistently
from tidewheel.flows.ports.queues import Release
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.model.park import Park, ParkKey, least_tried
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.parks import Parked

_DRAIN_MS = 20_000
"""How long one job passes dead parks."""
_REFUSED_MS = 24 * 3_600_000
"""A message that its queue took in no drain for so long, after it had refused the message and taken others, is refused.
No half broken queue refuses the same message by chance for as long."""
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
        after the messages that are left are held: likewise, and the held messages come, too.
        after the park is deleted or replaced: the orphan sweep deletes the object. The sweep finds a new park. A broken
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
        messages = release.releases(rows, subscription.carry, state.claim(key.generation))
    except Exception as error:
        done.failures.append(error)
        _put_off(ports, park, damage=error if is_damage(error) else None)
        return _Found.NOT_ASKED
    done.expired += wanted.num_rows - rows.num_rows
    if not messages:
        drop_parks(ports, [park])
        return _Found.NOT_ASKED
    outcome = release.send(ports, subscription.queue_url, messages)
    done.sent += outcome.sent
    done.failures += outcome.failures
    # Messages that were refused for their own sake, while the queue took others, say nothing about the queue.
    down = outcome.down and not (park.refused_ms is not None and outcome.blames_messages)
    if not down:
        _refuse_stuck(ports, subscription, park, messages, outcome)
    # First of all, or a failure of anything else would have the messages sent again.
    left = _settle(ports, state, subscription, park, rows, outcome, done)
    if outcome.sent and subscription.state is State.BROKEN:
        _heal(ports, subscription, left, done)
    elif down and subscription.state is State.ACTIVE:
        mark_broken(ports, key.topic, key.subscription, key.generation)
    return _Found.ASKED


def _heal(ports: Ports, subscription: SubscriptionState, left: set[ParkKey], done: _Drained) -> None:
    """Enqueues the other parks of a broken subscription, and makes it active.

    If that fails, the next drain that gets messages through does it.
    """
    try:
        wake_parks(ports, ports.queues, ports.clock, subscription, but=left)
        activate(ports, subscription)
    except Exception as error:
        done.failures.append(error)


def _refuse_stuck(
    ports: Ports, subscription: SubscriptionState, park: Park, messages: list[Release], outcome: release.Outcome
) -> None:
    """Refuses messages that the queue has refused for too long for their own sake.

    If it stops between two messages, a repetition refuses a message again.
    """
    since_ms = park.refused_ms
    if subscription.state is not State.ACTIVE or since_ms is None or unchecked_ms(ports.clock) - since_ms < _REFUSED_MS:
        return
    for place, refusal in outcome.own_refusals.items():
        try:
            release.refuse(ports, subscription.queue_url, messages[place], refusal.code, refusal.reason)
        except Exception as error:  # the message stays in the park
            outcome.error = error
            return
        del outcome.untaken[place]


def _settle(
    ports: Ports,
    state: TopicState,
    subscription: SubscriptionState,
    park: Park,
    rows: pa.Table,
    outcome: release.Outcome,
    done: _Drained,
) -> set[ParkKey]:
    """Deletes a park, puts it off, or replaces it by parks of the messages that are left. Returns the keys of these.

    Messages that the queue refuses for their own sake are parked apart from the others. Messages that cannot be parked
    go to the work queue. A doubted clock does not stop this: its error shifts the next try by as much.
    """
    # A queue that takes nothing may be down. Then its refusals say nothing about these messages.
    blamed = outcome.own_refusals if outcome.sent or park.refused_ms is not None else {}
    own = sorted(blamed)
    others = [place for place in outcome.places if place not in blamed]
    if not own and not others:
        persistently(lambda: drop_parks(ports, [park]))
        return set()
    now_ms = unchecked_ms(ports.clock)
    # A queue that takes some is soon asked again for the others.
    rest = replace(park, tries=0 if outcome.sent else park.tries + 1)
    refused = replace(park, tries=park.tries + 1, refused_ms=park.refused_ms or now_ms)
    if len(outcome.untaken) == rows.num_rows and not (own and others):
        _put_off(ports, refused if own else rest)
        return {park.key}
    kinds = [(each, places) for each, places in ((refused, own), (rest, others)) if places]
    try:
        parks = [remainder(ports, state, each, rows.take(pa.array(places))) for each, places in kinds]
    except Exception as error:  # S3 does not take the object of a large park
        done.failures.append(error)
        hints = []
        for each, places in kinds:
            left_rows = rows.take(pa.array(places))
            hints += park_inline(ports, state, subscription, left_rows, tried=True, refused=each is refused)
        persistently(lambda: drop_parks(ports, [park]))
        enqueue_drains(ports, hints)
        return set()
    left = {each.key for each in parks}
    replaced = persistently(lambda: ports.parks.replace(park, parks))
    if replaced is Parked.EXISTS:  # the same messages are parked already
        parks = [each for each in parks if ports.parks.read(each.key) is None]
        replaced = ports.parks.replace(park, parks)
    if replaced is Parked.PARKED and park.object_name is not None:
        ports.objects.delete([park.object_name])
    _hint(ports, parks)
    return left


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
    if ports.parks.put_off(park, after) and damage is None:
        _hint(ports, [after])


def _hint(ports: Ports, parks: list[Park]) -> None:
    """Enqueues the next tries of parks that were tried few times."""
    enqueue_drains(ports, [DrainHint(each.key, each.wait_s) for each in parks if each.tries < _HINTED_TRIES])
