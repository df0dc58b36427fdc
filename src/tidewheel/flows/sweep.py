"""Sweep: from time to time, whatever a crash or a lost schedule left behind is started again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidewheel.flows.collect import collect
from tidewheel.flows.dispatch import dispatch
from tidewheel.flows.merge import consider_merge
from tidewheel.flows.orphans import Orphans, sweep_orphans_daily
from tidewheel.flows.ports import Ports
from tidewheel.subscription import DeliveryKey
from tidewheel.wheel import fires_at_ms


@dataclass(slots=True, kw_only=True)
class Swept:
    """What a sweep started.

    Attributes:
        orphans: what the daily sweep of orphans deleted; None if it was not its time.
        failures: topic or delivery -> why it could not be looked after; the others were.
    """

    dispatched: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    merging: list[str] = field(default_factory=list)
    redriven: int = 0
    orphans: Orphans | None = None
    failures: dict[str, Exception] = field(default_factory=dict)


def sweep(ports: Ports) -> Swept:
    """Looks after the topics and open deliveries whose time to be looked at has come.

    Every action is one of the other flows, or a stamp and an enqueue: if it stops, the next sweep sees the same
    items again. One topic's failure keeps no other waiting.
    """
    now_ms = ports.clock.now_ms()
    topics, deliveries = ports.topics.due_for_look(now_ms)
    swept = Swept()
    for topic in topics:
        _guarded(swept, topic, lambda topic=topic: look_after_topic(ports, topic, swept))  # type: ignore[misc]
    for key in deliveries:
        _guarded(swept, str(key), lambda key=key: _look_after_delivery(ports, key, swept))  # type: ignore[misc]
    _guarded(swept, "orphans", lambda: _sweep_orphans(ports, swept))
    return swept


def _sweep_orphans(ports: Ports, swept: Swept) -> None:
    swept.orphans = sweep_orphans_daily(ports)


def _guarded(swept: Swept, what: str, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        swept.failures[what] = error


def look_after_topic(ports: Ports, topic: str, swept: Swept) -> None:
    """Dispatches a topic whose wake is due, collects one whose collection is, merges one with many new ledgers."""
    fence = ports.topics.fence(topic)
    if fence is None:
        return
    now_ms = ports.clock.now_ms()
    if fence.wake_slot is not None and fires_at_ms(fence.wake_slot, fence.settings) <= now_ms:
        done = dispatch(ports, topic)
        swept.dispatched.append(topic)
        if done is not None and done.failures:
            swept.failures[topic] = done.failures[0]
    if fence.collect_at_ms is not None and fence.collect_at_ms <= now_ms:
        collected = collect(ports, topic)
        swept.collected.append(topic)
        if collected is not None and collected.idle_leftovers:
            # Nothing else would move the marks of an idle topic past its trash and tombstones.
            dispatch(ports, topic)
    if fence.merge_at_ms is not None and fence.merge_at_ms <= now_ms:
        # Read again: what was done above has moved the marks.
        current = ports.topics.fence(topic)
        if current is not None and current.merge_at_ms is not None and consider_merge(ports, current) is not None:
            swept.merging.append(topic)


def _look_after_delivery(ports: Ports, key: DeliveryKey, swept: Swept) -> None:
    """Enqueues the open parts of an old delivery again, or deletes one that is complete or nobody's any more."""
    delivery = ports.topics.delivery(key)
    if delivery is None:
        return
    subscription = ports.topics.subscription(key.topic, key.subscription)
    if subscription is None or subscription.generation != key.generation or delivery.complete:
        ports.topics.delete_deliveries([key])
        return
    fence = ports.topics.fence(key.topic)
    if fence is None:
        return
    now_ms = ports.clock.now_ms()
    if ports.topics.stamp_delivery(key, delivery.look_at_ms, now_ms + fence.settings.redrive_s * 1000):
        parts = [part for part in range(delivery.parts) if part not in delivery.done]
        ports.queues.enqueue_parts(key, parts)
        swept.redriven += len(parts)
