"""Finds the next recurring messages, and deletes plans. Reads no rows (see `occurrences`)."""

from __future__ import annotations

from collections.abc import Collection

from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.topic_states import AT_ONCE_MS
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import fires_at_ms

_ATTEMPTS = 10


def all_recurring(ports: Ports, state: TopicState) -> list[Recurring]:
    """Reads a topic's recurring messages. Makes no request if the topic state counts none.

    The topic state must be read after the seal: recurring messages that are made later are due in open slots.
    """
    return ports.recurring.all(state.topic) if state.recurring else []


def next_occupied_by(recurring: Collection[Recurring], slot_ms: int, at_or_after: int) -> int | None:
    """Returns the first slot with a recurring message, at or after a slot, or None."""
    if not recurring:
        return None
    # Imports a calendar and time zones, which most topics do not need.
    from tidewheel.model.recurrence import Rule

    slots = []
    for each in recurring:
        due_ms = Rule.from_json(each.rule).next_after(max(each.first_ms, at_or_after * slot_ms) - 1)
        if due_ms is not None:
            slots.append(due_ms // slot_ms)
    return min(slots, default=None)


def schedule_again(ports: Ports, topic: str) -> None:
    """Creates the missing schedule of a next slot, and sets the next check.

    A caller without access to schedules lowered the next slot. If it stops between the two, the next sweep does both
    again. The schedule is created even for a next slot that is due, because the sweep may have no dispatch left for the
    topic, or fail to start the dispatch.
    """
    for _ in range(_ATTEMPTS):
        state = ports.topic_states.read(topic)
        if state is None or state.next_check_ms != AT_ONCE_MS:
            return
        if state.next_slot is not None:
            ports.wheel.schedule(topic, state.next_slot, fires_at_ms(state.next_slot, state.settings))
        if ports.topic_states.set_collect_at(
            state, state.collect_at_ms, state.check_at(state.next_slot, state.collect_at_ms)
        ):
            return


def delete_plan(ports: Ports, topic: str, first_slot: int) -> None:
    """Deletes a plan, then the plan's object with occurrences.

    If it stops between the two, the object is an orphan.
    """
    occurrences = ports.plans.delete(topic, first_slot)
    if occurrences is not None:
        ports.objects.delete([occurrences])
