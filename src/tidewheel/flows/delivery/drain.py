"""Drains parks once their subscriptions may receive messages."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidewheel.errors import QueueUnavailable
from tidewheel.flows.administration.pause import activate, drop_parks, parks_of
from tidewheel.flows.delivery import release
from tidewheel.flows.delivery.deliver import Delivered
from tidewheel.flows.delivery.due_rows import without_expired, without_purged
from tidewheel.flows.delivery.parking import parked_rows, put_aside
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parks import Parked
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState


def drain(ports: Ports, key: ParkKey) -> Delivered | None:
    """Sends a park's messages and deletes the park.

    Returns None if the park is gone, must wait, or is leased by another worker.

    If the queue of a broken subscription takes messages, the subscription has healed: it is made active again, and its
    other parks are enqueued.

    If it stops
        after the lease, or between sends: the next try waits for the lease to end, and sends copies with the same ids.
        after the queue took some messages and the rest is parked anew: as before.
        after the subscription is made active: as before; the sweep enqueues the other parks.
        after the park is deleted: the sweep enqueues the other parks; the orphan sweep deletes the object.

    Raises:
        NotTaken: the queue temporarily did not take some messages.
        ObjectMissing, CorruptLedger: the park is not readable; nothing of the park was sent.
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
    now_ms = ports.clock.now_ms()
    park = ports.parks.lease(key, now_ms, now_ms - LEASE_MS)
    if park is None:
        return None
    done = _send(ports, state, subscription, park)
    if done is None:
        return None
    sent, expired = done
    healed = sent > 0 and subscription.state is State.BROKEN and activate(ports, subscription)
    drop_parks(ports, [park])
    if healed:
        ports.queues.enqueue_parks([each.key for each in parks_of(ports, subscription)])
    return Delivered(messages=sent, segments=0, expired=expired)


def _send(ports: Ports, state: TopicState, subscription: SubscriptionState, park: Park) -> tuple[int, int] | None:
    """Sends a park's messages. Returns how many were sent, and how many had expired.

    Returns None if the queue does not take all messages; the sweep tries the queue again.
    """
    try:
        wanted = without_purged(parked_rows(ports.objects, park), state)
        rows = without_expired(wanted, ports.clock.now_ms())
        release.send(ports, subscription.queue_url, release.releases(rows))
    except QueueUnavailable as error:
        ports.subscriptions.mark_broken(subscription.topic, subscription.name, subscription.generation)
        broken = replace(subscription, state=State.BROKEN)
        in_part = len(error.unsent) < rows.num_rows
        if in_part and put_aside(ports, state, broken, rows.take(pa.array(error.unsent))) is not Parked.MOVED:
            drop_parks(ports, [park])
        else:
            ports.parks.release(park.key)
        return None
    except Exception:
        ports.parks.release(park.key)
        raise
    return int(rows.num_rows), int(wanted.num_rows - rows.num_rows)
