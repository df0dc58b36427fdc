"""Enqueues the overdue work of a delivery, or of an owner of parks, again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, itemgetter
from threading import Lock
from typing import TypeVar

from tidewheel.flows.administration.pause import drop_parks
from tidewheel.flows.maintenance.orphans import Orphans
from tidewheel.flows.ports import Ports
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import DeliveryKey, State, wait_ms

_Key = TypeVar("_Key", DeliveryKey, ParkKey)
MOST_PARKS = 20
"""Parks of one subscription that one sweep enqueues or puts off."""
_MOST_TRIED = 3
"""Parks of a broken subscription that one sweep tries."""


@dataclass(slots=True, kw_only=True)
class SweepResult:
    """The work that a sweep started.

    Attributes:
        dispatched: topics whose dispatch was started.
        redriven: parts that were enqueued again.
        drains: parks that were enqueued.
        tried: broken subscriptions of which a park was enqueued.
        orphans: the deletions of the daily orphan sweep in this portion; None if the daily sweep was not due.
        payloads: large bodies that were deleted.
        lock: held while a count is raised, because topics and deliveries are handled side by side.
        large: topics whose next merge is too large for a function.
        ended: deleted topics, some of which may have left objects or items.
        left: actions for which there was no time.
        held: topics of which nothing was collected, because an item of theirs cannot be read -> the error.
        failures: topic, delivery or park -> the error; the others were handled.
    """

    dispatched: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    merging: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    redriven: int = 0
    drains: int = 0
    tried: set[tuple[str, str]] = field(default_factory=set)
    orphans: Orphans | None = None
    payloads: int = 0
    ended: list[str] = field(default_factory=list)
    left: int = 0
    held: dict[str, Exception] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)


def in_turn(keys: Sequence[_Key]) -> list[_Key]:
    """Orders keys so that topics take turns, and the owners of a topic, too. Keeps the order of an owner's keys."""
    ordered = list(keys)
    for group in (attrgetter("owner"), attrgetter("topic")):
        seen: Counter[object] = Counter()
        ranks = []
        for key in ordered:
            ranks.append(seen[group(key)])
            seen[group(key)] += 1
        ordered = [key for _, key in sorted(zip(ranks, ordered, strict=True), key=itemgetter(0))]
    return ordered


def by_owner(keys: Sequence[_Key]) -> list[list[_Key]]:
    """Returns each owner's keys in their order. Topics take turns."""
    owners: dict[object, list[_Key]] = {}
    for key in in_turn(keys):
        owners.setdefault(key.owner, []).append(key)
    return list(owners.values())


def check_delivery(ports: Ports, key: DeliveryKey, swept: SweepResult) -> None:
    """Enqueues the open parts of an old delivery again. Finishes a complete delivery, and deletes an ownerless one.

    The first stamp keeps other sweeps off while this sweep enqueues. If it stops after that, or the queue takes no
    tasks for now, the next sweep tries again. If it stops after the tasks, they are enqueued once more, and leases
    prevent double work. The last stamp leaves the tasks `redrive_s`. A stuck delivery is tried every 5 minutes, and in
    growing intervals while objects are lost.
    """
    subscription = ports.subscriptions.read(key.topic, key.subscription)
    if subscription is None or subscription.generation != key.generation:  # also if the delivery cannot be read
        ports.deliveries.delete([key])
        return
    delivery = ports.deliveries.read(key)
    if delivery is None:
        return
    state = ports.topic_states.read(key.topic)
    now_ms = ports.clock.now_ms()
    if state is None:
        return
    if delivery.complete:
        ports.deliveries.finish(delivery, state.settings.record_ttl_s(now_ms))
        return
    if delivery.next_check_ms > now_ms:  # another sweep has it
        return
    enqueued_ms = now_ms + LEASE_MS
    tries = delivery.tries + (delivery.stuck and delivery.lost)  # parts of a large delivery may wait long for workers
    if ports.deliveries.set_next_check(key, delivery.next_check_ms, enqueued_ms, tries):
        parts = [part for part in range(delivery.parts) if part not in delivery.done]
        ports.queues.enqueue_parts(key, parts)
        later_ms = state.settings.redrive_s * 1000
        if delivery.stuck:
            later_ms = wait_ms(tries if delivery.lost else 0)
        ports.deliveries.set_next_check(key, enqueued_ms, now_ms + later_ms)
        with swept.lock:
            swept.redriven += len(parts)


def check_parks(ports: Ports, keys: Sequence[ParkKey], swept: SweepResult) -> None:
    """Enqueues due parks of one owner, at most MOST_PARKS. Deletes parks without a subscription.

    So a sweep makes the same few requests however many parks an owner has. The parks beyond these stay due. A broken
    subscription's queue is tried with the parks that have waited for the longest: the drain of one enqueues the others.
    More due parks of an active subscription mean that its tasks are lost, so the task of a resume enqueues all.

    If it stops after the stamp of a park, or the queue takes no tasks for now, the next sweep tries again.

    Args:
        ports: the service.
        keys: due parks of one generation of a subscription, the longest overdue first.
        swept: gets the counts.
    """
    topic, name, generation = keys[0].topic, keys[0].subscription, keys[0].generation
    state = ports.topic_states.read(topic)
    if state is None:
        return
    subscription = ports.subscriptions.read(topic, name)
    parks = _readable(ports, keys, swept)
    if subscription is None or subscription.generation != generation:
        drop_parks(ports, parks)
        return
    broken = subscription.state is State.BROKEN
    now_ms = ports.clock.now_ms()
    settled_ms = now_ms + state.settings.redrive_s * 1000
    # Of a park that is no longer due, another sweep has made the check.
    for park in islice((each for each in parks if each.next_check_ms <= now_ms), _MOST_TRIED if broken else MOST_PARKS):
        if subscription.state is State.PAUSED:
            ports.parks.set_next_check(park.key, park.next_check_ms, settled_ms)
        elif _enqueue_park(ports, park, swept) and not broken:
            ports.parks.set_next_check(park.key, now_ms + LEASE_MS, settled_ms)
    if broken:
        swept.tried.add((topic, name))
    elif subscription.state is State.ACTIVE and len(keys) > MOST_PARKS:
        ports.queues.enqueue_catch_up(topic, name, generation)


def _readable(ports: Ports, keys: Sequence[ParkKey], swept: SweepResult) -> Iterator[Park]:
    """Reads parks. Notes those that cannot be read, which stay due."""
    for key in keys:
        try:
            park = ports.parks.read(key)
        except Exception as error:
            swept.failures[str(key)] = error
        else:
            if park is not None:
                yield park


def _enqueue_park(ports: Ports, park: Park, swept: SweepResult) -> bool:
    """Enqueues a park, unless another sweep does. The stamp comes first, so that one sweep does."""
    if not ports.parks.set_next_check(park.key, park.next_check_ms, ports.clock.now_ms() + LEASE_MS):
        return False
    ports.queues.enqueue_parks([park.key])
    with swept.lock:
        swept.drains += 1
    return True
