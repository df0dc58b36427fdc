"""Sweeps for work that a crash or a lost schedule left behind, and tries broken queues.

A sweep reads no rows and sends none: it starts functions, enqueues jobs and deletes. So a sweep of thousands of topics
takes seconds, a single topic cannot block it, and its function needs no pyarrow. Late work comes first, cleanup comes
last, and nothing begins after SWEEP_MS: the next sweep sees the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

from tidewheel.flows.administration.delete_topic import finish_deletion
from tidewheel.flows.administration.pause import drop_parks
from tidewheel.flows.delivery.recur import schedule_again
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.checks import Due
from tidewheel.flows.ports.topic_states import AT_ONCE_MS
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.consider_merge import consider_merge
from tidewheel.flows.upkeep.orphans import Orphans, sweep_orphans_daily
from tidewheel.flows.upkeep.payloads import sweep_payloads_daily
from tidewheel.model.park import ParkKey
from tidewheel.model.settings import LEASE_MS
from tidewheel.model.subscription_state import DeliveryKey, State
from tidewheel.model.wheel import fires_at_ms

_Thing = TypeVar("_Thing")
SWEEP_MS = 180_000
"""How long after its beginning a sweep starts new work. Its function has a minute more, for the health check before,
and for the work in progress."""
MOST_DISPATCHES = 500
"""Dispatches that one sweep starts, the longest overdue first. As many concurrent calls, beside ingest's 120 and
deliver's 100, leave some of the 1,000 that Lambda runs for an account. 6,000 topics an hour are healed."""
_DELETIONS_MS = 60_000
"""How long one sweep deletes the rest of deleted topics. The limit leaves time for the daily work, and the next sweep
continues."""


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
        ended: deleted topics, some of which may have left objects or items.
        left: topics, deliveries and parks for which there was no time, and dispatches above MOST_DISPATCHES.
        failures: topic, delivery or park -> the error; the others were handled.
    """

    dispatched: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    merging: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    redriven: int = 0
    drains: int = 0
    tried: set[tuple[str, str]] = field(default_factory=set)
    orphans: Orphans | None = None
    payloads: int = 0
    ended: list[str] = field(default_factory=list)
    left: int = 0
    failures: dict[str, Exception] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)


def sweep(ports: Ports, due: Due | None = None) -> SweepResult:
    """Handles the topics, open deliveries and parks whose next check has come.

    Every action is one of the other flows, or a stamp and an enqueue. If it stops, the next sweep sees the same items
    again. A failure of one topic does not delay the others.

    Args:
        ports: the service.
        due: the index of checks, if the caller just read it. The index may be old: each item is read again before any
            action, and all writes are conditional.
    """
    now_ms = ports.clock.now_ms()
    ends_ms = now_ms + SWEEP_MS
    if due is None:
        due = ports.checks.due(now_ms)
    swept = SweepResult()
    # Deliveries first: deliveries are late already, and few even with many topics.
    _all(ports, swept, due.deliveries, lambda key: _check_delivery(ports, key, swept), ends_ms)
    for park in due.parks:  # one after the other: one park of a broken subscription is tried
        _in_time(ports, swept, park, partial(_check_park, ports, park, swept), ends_ms)
    _all(ports, swept, due.topics, lambda topic: check_topic(ports, topic, swept), ends_ms)
    _finish_deletions(ports, swept, ends_ms)
    _in_time(ports, swept, "orphans", lambda: _sweep_orphans(ports, swept, ends_ms), ends_ms)
    _in_time(ports, swept, "payloads", lambda: _sweep_payloads(ports, swept, ends_ms), ends_ms)
    return swept


def _finish_deletions(ports: Ports, swept: SweepResult, ends_ms: int) -> None:
    """Deletes the rest of deleted topics, as far as the time allows."""
    deletions_end_ms = min(ends_ms, ports.clock.now_ms() + _DELETIONS_MS)

    def delete(topic: str) -> None:
        if finish_deletion(ports, topic, lambda: ports.clock.now_ms() < deletions_end_ms):
            swept.deleted.append(topic)

    _all(ports, swept, swept.ended, delete, deletions_end_ms)


def _sweep_orphans(ports: Ports, swept: SweepResult, ends_ms: int) -> None:
    swept.orphans = sweep_orphans_daily(ports, ends_ms)
    if swept.orphans is not None:
        swept.failures |= {f"orphans of {topic}": error for topic, error in swept.orphans.failures.items()}


def _sweep_payloads(ports: Ports, swept: SweepResult, ends_ms: int) -> None:
    payloads = sweep_payloads_daily(ports, ends_ms)
    if payloads is not None:
        swept.payloads = payloads.objects
        swept.failures |= {f"payloads of {topic}": error for topic, error in payloads.failures.items()}


def _all(
    ports: Ports, swept: SweepResult, things: Sequence[_Thing], look_after: Callable[[_Thing], None], ends_ms: int
) -> None:
    """Calls `look_after` for things side by side.

    `look_after` must not use `parallel` itself, or it would wait for its own turn.
    """

    def one(number: int) -> None:
        thing = things[number]
        _in_time(ports, swept, thing, lambda: look_after(thing), ends_ms)

    for _ in ports.parallel(one, range(len(things))):
        pass


def _in_time(ports: Ports, swept: SweepResult, what: object, action: Callable[[], None], ends_ms: int) -> None:
    """Runs an action if time is left. Notes a failure."""
    if ports.clock.now_ms() >= ends_ms:
        with swept.lock:
            swept.left += 1
        return
    try:
        action()
    except Exception as error:
        swept.failures[str(what)] = error


def check_topic(ports: Ports, topic: str, swept: SweepResult) -> None:
    """Dispatches, collects and merges a topic as due. Notes a topic that has ended.

    The topic is dispatched if its next slot is due, collected if its collection is due, and merged if it has many new
    ledgers.
    """
    state = ports.topic_states.read(topic)
    now_ms = ports.clock.now_ms()
    if state is None:
        swept.ended.append(topic)
        return
    if state.next_check_ms == AT_ONCE_MS:
        schedule_again(ports, topic)
    if state.next_slot is not None and fires_at_ms(state.next_slot, state.settings) <= now_ms:
        _start_dispatch(ports, topic, swept)
    if state.collect_at_ms is not None and state.collect_at_ms <= now_ms:
        collected = collect(ports, topic)
        swept.collected.append(topic)
        if collected is not None and collected.idle_leftovers:
            # Only a dispatch moves the marks of an idle topic past its trash.
            _start_dispatch(ports, topic, swept)
    if state.merge_at_ms is not None and state.merge_at_ms <= now_ms:
        # Read again: the steps above have moved the marks.
        current = ports.topic_states.read(topic)
        if current is not None and current.merge_at_ms is not None and consider_merge(ports, current) is not None:
            swept.merging.append(topic)


def _start_dispatch(ports: Ports, topic: str, swept: SweepResult) -> None:
    """Starts a topic's dispatch, unless already started or the limit is reached."""
    with swept.lock:
        if topic in swept.dispatched:
            return
        if len(swept.dispatched) >= MOST_DISPATCHES:
            swept.left += 1
            return
        swept.dispatched.append(topic)
    try:
        ports.runs.dispatch(topic)
    except Exception:
        with swept.lock:
            swept.dispatched.remove(topic)
        raise


def _check_delivery(ports: Ports, key: DeliveryKey, swept: SweepResult) -> None:
    """Enqueues the open parts of an old delivery again. Deletes a complete or ownerless delivery.

    The first stamp keeps other sweeps off while this sweep enqueues. If it stops after that, or the queue takes no jobs
    for now, the next sweep tries again. If it stops after the jobs, the jobs are enqueued once more, and leases prevent
    double work. The last stamp leaves the jobs `redrive_s`.
    """
    delivery = ports.deliveries.read(key)
    if delivery is None:
        return
    subscription = ports.subscriptions.read(key.topic, key.subscription)
    if subscription is None or subscription.generation != key.generation or delivery.complete:
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


def _check_park(ports: Ports, key: ParkKey, swept: SweepResult) -> None:
    """Enqueues an old park. Deletes a park without a subscription.

    Of a broken subscription, one park is enqueued. This park shows whether the queue takes messages again, and its
    drain enqueues the others. So its next check is as soon as its drain must be over; the others' is after `redrive_s`.
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
    owner = key.topic, key.subscription
    broken = subscription.state is State.BROKEN
    waits = subscription.state is State.PAUSED or owner in swept.tried
    now_ms = ports.clock.now_ms()
    if park.next_check_ms > now_ms:  # another sweep has it
        return
    settled_ms = now_ms + state.settings.redrive_s * 1000
    enqueued_ms = settled_ms if waits else now_ms + LEASE_MS
    if not ports.parks.set_next_check(key, park.next_check_ms, enqueued_ms) or waits:
        return
    if broken:
        swept.tried.add(owner)
    ports.queues.enqueue_parks([key])
    if not broken:
        ports.parks.set_next_check(key, enqueued_ms, settled_ms)
    swept.drains += 1
