"""Pauses, resumes, filters and deletes subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, QueueUnavailable, UnknownSubscription
from tidewheel.flows.ports import Queues
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.storage.storage import Storage

_ATTEMPTS = 50


def pause(storage: Storage, topic: str, name: str) -> SubscriptionState:
    """Stops new messages from entering a subscription's queue.

    The cursor stands, and direct messages are parked. Messages that were handed out before still arrive. A paused
    subscription stays paused.

    Raises:
        UnknownTopic, UnknownSubscription: there is no topic or subscription of this name.
    """
    subscription = _read(storage, topic, name)
    if subscription.state is not State.PAUSED and not storage.subscriptions.pause(subscription):
        raise UnknownSubscription(topic, name)
    return replace(subscription, state=State.PAUSED)


def resume(storage: Storage, queues: Queues, clock: Clock, topic: str, name: str) -> SubscriptionState:
    """Makes a paused or broken subscription active again, and sends the missed messages.

    An active subscription stays active, and its missed messages are looked for once more. The order in which messages
    arrive is best effort.

    If it stops
        after the subscription is made active: the sweep hands out the missed messages within 300 s, and drains the
            parks at their next check, within `redrive_s`.
        after the work queue has the task: done. Without access to the work queue: the parks are due for the next sweep.

    Raises:
        UnknownTopic, UnknownSubscription: there is no topic or subscription of this name.
        ConcurrentModification: other changes of the topic came first each time.
    """
    for _ in range(_ATTEMPTS):
        subscription = _read(storage, topic, name)
        if subscription.state is State.ACTIVE or activate(storage, subscription):
            break
        storage.topic_states.existing(topic)  # it may be deleted before this subscription is
    else:
        raise ConcurrentModification("resume", topic, _ATTEMPTS)
    try:
        queues.enqueue_catch_up(topic, name, subscription.generation)
    except QueueUnavailable:
        _check_soon(storage, clock, storage.parks.of(subscription))
    return replace(subscription, state=State.ACTIVE)


def activate(storage: Storage, subscription: SubscriptionState) -> bool:
    """Makes a subscription active and has the sweep check its topic. Returns False if refused.

    The change is refused if the subscription's state is not as read.

    Raises:
        ConcurrentModification: other changes of the topic came first each time.
    """
    for _ in range(_ATTEMPTS):
        state = storage.topic_states.read(subscription.topic)
        if state is None:
            return False
        if storage.subscriptions.resume(state, subscription):
            return True
        current = storage.subscriptions.read(subscription.topic, subscription.name)
        if current is None or (current.generation, current.state) != (subscription.generation, subscription.state):
            return False
    raise ConcurrentModification("resume", subscription.topic, _ATTEMPTS)


def update_subscription(storage: Storage, topic: str, name: str, changes: Mapping[str, Any]) -> SubscriptionState:
    """Changes settings of a subscription for messages handed out or sent directly from now on.

    Args:
        changes: stored settings by name, as `SubscriptionSettings` checks them.

    Raises:
        UnknownTopic, UnknownSubscription: there is no topic or subscription of this name.
    """
    subscription = _read(storage, topic, name)
    changed = replace(subscription, **changes)
    if changed != subscription and not storage.subscriptions.update(subscription, changes):
        raise UnknownSubscription(topic, name)
    return changed


def delete_subscription(storage: Storage, topic: str, name: str) -> SubscriptionState:
    """Deletes a subscription. Returns the deleted subscription. Its queue stays.

    If it stops
        after the subscription is deleted: the next collection and the sweep delete its deliveries and parks.
        between a park's item and its object: the orphan sweep deletes the object.

    Raises:
        UnknownTopic, UnknownSubscription: there is no topic or subscription of this name.
        ConcurrentModification: others changed the topic's subscriptions under every attempt; try again.
    """
    subscription = _read(storage, topic, name)
    for _ in range(_ATTEMPTS):
        if storage.subscriptions.delete(storage.topic_states.existing(topic), subscription):
            break
        if _read(storage, topic, name).generation != subscription.generation:
            raise UnknownSubscription(topic, name)
    else:
        raise ConcurrentModification("delete subscription", topic, _ATTEMPTS)
    owner = (name, subscription.generation)
    opened = (each.key for each in storage.deliveries.all(topic, {}))
    storage.deliveries.delete([key for key in opened if (key.subscription, key.generation) == owner])
    drop_parks(storage, storage.parks.of(subscription))
    return subscription


def wake_parks(
    storage: Storage, queues: Queues, clock: Clock, subscription: SubscriptionState, but: Collection[ParkKey] = ()
) -> None:
    """Enqueues the parks of a subscription. If the work queue takes no tasks, the next sweep does so.

    Args:
        storage: the service's storage.
        queues: the service's queues.
        clock: the service's clock.
        subscription: the owner.
        but: parks that are not enqueued.
    """
    parks = [park for park in storage.parks.of(subscription) if park.key not in but]
    try:
        queues.enqueue_parks([park.key for park in parks])
    except Exception:
        _check_soon(storage, clock, parks)


def _check_soon(storage: Storage, clock: Clock, parks: Iterable[Park]) -> None:
    """Makes the next sweep check parks."""
    now_ms = clock.now_ms()
    for park in parks:
        storage.parks.set_next_check(park.key, park.next_check_ms, now_ms)


def drop_parks(storage: Storage, parks: Iterable[Park]) -> None:
    """Deletes parks, each item before the object.

    If it stops between the two, the orphan sweep deletes the object.
    """
    for park in parks:
        storage.parks.delete([park.key])
        if park.object_name is not None:
            storage.objects.delete([park.object_name])


def _read(storage: Storage, topic: str, name: str) -> SubscriptionState:
    found = storage.subscriptions.read(topic, name)
    if found is None:
        storage.topic_states.existing(topic)
        raise UnknownSubscription(topic, name)
    return found
