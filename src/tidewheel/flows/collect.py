"""Collect: what every subscription has behind it is deleted, metadata first, then objects."""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.fence import Fence
from tidewheel.flows.checkpoint import write_checkpoint
from tidewheel.flows.ports import Ports
from tidewheel.subscription import DeliveryKey

_ATTEMPTS = 5


@dataclass(slots=True, kw_only=True)
class Collected:
    """What was deleted.

    Attributes:
        idle_leftovers: something can go only after the topic is dispatched once more.
    """

    buckets: int = 0
    plans: int = 0
    objects: int = 0
    idle_leftovers: bool = False


def collect(ports: Ports, topic: str) -> Collected | None:
    """Deletes all of a topic that lies below the least cursor; None if there is no such topic.

    First a checkpoint is written, if anything changed since the last. `gc_until` is then raised, under a condition,
    and everything is deleted by the stored mark, so that what an earlier run left behind goes too.

    If it stops
        after the checkpoint: nothing was deleted; the next run goes on.
        between an item and its object: nothing refers to the object, and the orphan sweep deletes it.
        elsewhere: the next run goes on.
    """
    now_ms = ports.clock.now_ms()
    fence = ports.topics.fence(topic)
    if fence is None:
        return None
    # Cursors before deliveries: a delivery that was handed out meanwhile is then seen.
    subscriptions = ports.topics.subscriptions(topic)
    opened = ports.topics.open_deliveries(topic)
    # Before anything goes: a rebuild from an older checkpoint would look for what was delivered since.
    write_checkpoint(ports, fence, subscriptions, opened, now_ms)
    alive = {(s.name, s.generation) for s in subscriptions}
    until = min([fence.planned] + [s.cursor for s in subscriptions] + [d.key.plan for d in opened])
    if until > fence.gc_until:
        ports.topics.raise_gc(fence, until)
    fence = ports.topics.fence(topic)
    if fence is None:
        return None
    done = Collected()
    _delete(ports, fence, done)
    orphans: list[DeliveryKey] = [d.key for d in opened if (d.key.subscription, d.key.generation) not in alive]
    ports.topics.delete_deliveries(orphans)
    _set_next(ports, fence, done)
    return done


def _delete(ports: Ports, fence: Fence, done: Collected) -> None:
    topic, until = fence.topic, fence.gc_until
    for trash in ports.topics.trash(topic):
        if trash.sealed <= until:
            ports.objects.delete(trash.objects)
            ports.topics.delete_trash(topic, trash)
            done.objects += len(trash.objects)
        else:
            done.idle_leftovers = True
    for a, b in ports.topics.plan_ranges(topic):
        if b <= until:
            ports.topics.delete_plan(topic, a)
            done.plans += 1
    for bucket in ports.topics.buckets(topic):
        if bucket.last_slot < until:
            ports.topics.delete_bucket(topic, bucket.id)
            ports.objects.delete([bucket.object_name])
            done.buckets += 1
            done.objects += 1
    if ports.topics.delete_tombstones(topic, until, ports.clock.now_ms() // 1000):
        done.idle_leftovers = True


def _set_next(ports: Ports, fence: Fence, done: Collected) -> None:
    """Sets when to collect next: never, if nothing is left that a later collection could delete."""
    for _ in range(_ATTEMPTS):
        left = done.idle_leftovers or fence.gc_until < fence.planned
        at_ms = ports.clock.now_ms() + fence.settings.collect_interval_s * 1000 if left else None
        if ports.topics.set_collect_at(fence, at_ms, fence.look_at(fence.wake_slot, at_ms)):
            return
        current = ports.topics.fence(fence.topic)
        if current is None:
            return
        fence = current
