"""Enqueues the overdue work of a delivery, a park or a set-aside item again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tidewheel.errors import CorruptMetadata
from tidewheel.flows.administration.pause import drop_parks
from tidewheel.flows.ports import Ports
from tidewheel.flows.upkeep.sweep_result import SweepResult
from tidewheel.model.park import Park, ParkKey, least_tried
from tidewheel.model.set_aside import SetAsideKey
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState

_MOST_TRIED = 3
"""Parks of a broken subscription that one sweep tries."""


def check_delivery(ports: Ports, key: DeliveryKey, swept: SweepResult) -> None:
    """Enqueues the open parts of an old delivery again. Deletes a complete or ownerless delivery.

    The first stamp keeps other sweeps off while this sweep enqueues. If it stops after that, or the queue takes no jobs
    for now, the next sweep tries again. If it stops after the jobs, the jobs are enqueued once more, and leases prevent
    double work. The last stamp leaves the jobs `redrive_s`.
    """
    subscription = ports.subscriptions.read(key.topic, key.subscription)
    if subscription is None or subscription.generation != key.generation:  # also if the delivery cannot be read
        ports.deliveries.delete([key])
        return
    delivery = ports.deliveries.read(key)
    if delivery is None:
        return
    if delivery.complete:
        ports.deliveries.delete([key])
        return
    state = ports.topic_states.read(key.topic)
    now_ms = ports.clock.now_ms()
    if state is None or delivery.next_check_ms > now_ms:  # another sweep has it
        return
    enqueued_ms = now_ms + LEASE_MS
    if ports.deliveries.set_next_check(key, delivery.next_check_ms, enqueued_ms):
        parts = [part for part in range(delivery.parts) if part not in delivery.done]
        ports.queues.enqueue_parts(key, parts)
        ports.deliveries.set_next_check(key, enqueued_ms, now_ms + state.settings.redrive_s * 1000)
        with swept.lock:
            swept.redriven += len(parts)


def check_set_aside(ports: Ports, key: SetAsideKey, swept: SweepResult) -> None:
    """Enqueues a try of a suspect. Deletes an item without a subscription.

    If it stops after the stamp, or the queue takes no jobs for now, a later sweep tries again.
    """
    with suppress(CorruptMetadata):  # the try notes it
        if not key.is_of(ports.subscriptions.read(key.topic, key.subscription)):
            ports.set_aside.delete([key])
            return
    item = ports.set_aside.read(key)
    if item is None:
        return
    now_ms = ports.clock.now_ms()
    if item.next_check_ms is None or item.next_check_ms > now_ms:  # another sweep has it
        return
    if ports.set_aside.change(item, replace(item, next_check_ms=now_ms + LEASE_MS)):
        ports.queues.enqueue_set_aside([item])
        with swept.lock:
            swept.tries += 1


def check_park(ports: Ports, key: ParkKey, swept: SweepResult) -> None:
    """Enqueues an old park. Deletes a park without a subscription.

    If it stops after the first stamp, or the queue takes no jobs for now, the next sweep tries again.
    """
    state = ports.topic_states.read(key.topic)
    park = ports.parks.read(key)
    if state is None or park is None:
        return
    subscription = ports.subscriptions.read(key.topic, key.subscription)
    if subscription is None or subscription.generation != key.generation:
        drop_parks(ports, [park])
        return
    now_ms = ports.clock.now_ms()
    if park.next_check_ms > now_ms:  # another sweep has it, or this sweep has tried it
        return
    settled_ms = now_ms + state.settings.redrive_s * 1000
    owner = key.topic, key.subscription
    if subscription.state is State.BROKEN and owner not in swept.tried:
        swept.tried.add(owner)
        tried = _try_queue(ports, subscription, swept)
        if key in tried:
            return
    if subscription.state is not State.ACTIVE:
        ports.parks.set_next_check(key, park.next_check_ms, settled_ms)
        return
    if _enqueue_park(ports, park, swept):
        ports.parks.set_next_check(key, now_ms + LEASE_MS, settled_ms)


def _try_queue(ports: Ports, subscription: SubscriptionState, swept: SweepResult) -> set[ParkKey]:
    """Enqueues the least tried parks of a broken subscription. Returns their keys.

    These parks show whether the queue takes messages again, and the drain of one enqueues the others. So their next
    check is as soon as their drains must be over. The others' is after `redrive_s`.
    """
    tried = least_tried(ports.parks.of(subscription))[:_MOST_TRIED]
    for park in tried:
        _enqueue_park(ports, park, swept)
    return {park.key for park in tried}


def _enqueue_park(ports: Ports, park: Park, swept: SweepResult) -> bool:
    """Enqueues a park, unless another sweep does. The stamp comes first, so that one sweep does."""
    if not ports.parks.set_next_check(park.key, park.next_check_ms, ports.clock.now_ms() + LEASE_MS):
        return False
    ports.queues.enqueue_parks([park.key])
    swept.drains += 1
    return True
