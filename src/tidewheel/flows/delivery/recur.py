"""Recurring messages: when the next is due, and what their plans leave. It reads no rows: see `occurrences`."""

from __future__ import annotations

from collections.abc import Collection

from tidewheel.flows.ports import AT_ONCE_MS, Ports
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import fires_at_ms

_ATTEMPTS = 10


def all_recurring(ports: Ports, state: TopicState) -> list[Recurring]:
    """Reads a topic's recurring messages: no request if the topic state counts none.

    The topic state must have been read after the seal: what is made later is due in open slots.
    """
    return ports.topics.all_recurring(state.topic) if state.recurring else []


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
        state = ports.topics.state(topic)
        if state is None or state.next_check_ms != AT_ONCE_MS:
            return
        if state.next_slot is not None:
            ports.wheel.schedule(topic, state.next_slot, fires_at_ms(state.next_slot, state.settings))
        if ports.topics.set_collect_at(
            state, state.collect_at_ms, state.check_at(state.next_slot, state.collect_at_ms)
        ):
            return


def delete_plan(ports: Ports, topic: str, first_slot: int) -> None:
    """Deletes a plan, then the object with what recurring messages added; if it stops between, an orphan is left."""
    occurrences = ports.topics.delete_plan(topic, first_slot)
    if occurrences is not None:
        ports.objects.delete([occurrences])
