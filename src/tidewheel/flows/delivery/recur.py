"""Recurring messages: when the next is due, and what their plans leave. It reads no rows: see `occurrences`."""

from __future__ import annotations

from collections.abc import Collection

from tidewheel.flows.ports import AT_ONCE_MS, Ports
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import Fence
from tidewheel.model.wheel import fires_at_ms

_ATTEMPTS = 10


def all_recurring(ports: Ports, fence: Fence) -> list[Recurring]:
    """Reads a topic's recurring messages: no request if the fence counts none.

    The fence must have been read after the seal: what is made later is due in open slots.
    """
    return ports.topics.all_recurring(fence.topic) if fence.recurring else []


def next_occupied_by(recurring: Collection[Recurring], slot_ms: int, at_or_after: int) -> int | None:
    """Returns the first slot at or after one in which a recurring message is due, or None."""
    if not recurring:
        return None
    # With a calendar and time zones: most topics need neither.
    from tidewheel.model.recurrence import Rule

    slots = []
    for each in recurring:
        due_ms = Rule.from_json(each.rule).next_after(max(each.first_ms, at_or_after * slot_ms) - 1)
        if due_ms is not None:
            slots.append(due_ms // slot_ms)
    return min(slots, default=None)


def arm_again(ports: Ports, topic: str) -> None:
    """Arms the wheel for a mark that somebody lowered who may not arm it; the sweep then looks when it should.

    If it stops between the two, the next sweep does both again. A mark that is due is armed, too: the sweep may have no
    dispatch left for it, or fail to start it.
    """
    for _ in range(_ATTEMPTS):
        fence = ports.topics.fence(topic)
        if fence is None or fence.look_at_ms != AT_ONCE_MS:
            return
        if fence.wake_slot is not None:
            ports.wheel.arm(topic, fence.wake_slot, fires_at_ms(fence.wake_slot, fence.settings))
        if ports.topics.set_collect_at(fence, fence.collect_at_ms, fence.look_at(fence.wake_slot, fence.collect_at_ms)):
            return


def delete_plan(ports: Ports, topic: str, a: int) -> None:
    """Deletes a plan, then the object with what recurring messages added; if it stops between, an orphan is left."""
    occurrences = ports.topics.delete_plan(topic, a)
    if occurrences is not None:
        ports.objects.delete([occurrences])
