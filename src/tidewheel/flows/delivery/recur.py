"""Finds the next recurring messages, and deletes plans. Reads no rows (see `occurrences`)."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from tidewheel.errors import TidewheelError
from tidewheel.flows.ports import Ports
from tidewheel.model.message import bytes_of_text
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import TopicState


def all_recurring(ports: Ports, state: TopicState, unreadable: dict[str, Exception]) -> list[Recurring]:
    """Reads a topic's recurring messages. Callers skip this if the topic state counts none.

    The topic state must be read after the seal: recurring messages that are made later are due in open slots. What
    cannot be read is left out, and its name is put into `unreadable` with the error.
    """
    # Imports a calendar and time zones, which most topics do not need.
    from tidewheel.model.recurrence import rule_of

    readable = []
    for each in ports.recurring.all(state.topic, unreadable):
        try:
            rule_of(each)
            bytes_of_text(each.text, each.encoding)
        except (TidewheelError, ValueError) as error:
            unreadable[each.name] = error
        else:
            readable.append(each)
    return readable


def note_missed(ports: Ports, state: TopicState, unreadable: Collection[str]) -> None:
    """Notes on recurring messages that could not be read from which slot they were missed.

    If it stops before the note, the next dispatch notes its own slot.
    """
    for name in unreadable:
        with suppress(Exception):  # only a note, and the plan is committed
            ports.recurring.note_missed(state.topic, name, state.planned)


def next_occupied_by(recurring: Collection[Recurring], slot_ms: int, at_or_after: int) -> int | None:
    """Returns the first slot with a recurring message, at or after a slot, or None."""
    if not recurring:
        return None
    # Imports a calendar and time zones, which most topics do not need.
    from tidewheel.model.recurrence import rule_of

    slots = []
    for each in recurring:
        due_ms = rule_of(each).next_after(max(each.first_ms, at_or_after * slot_ms) - 1)
        if due_ms is not None:
            slots.append(due_ms // slot_ms)
    return min(slots, default=None)


def delete_plan(ports: Ports, topic: str, first_slot: int, kept: Collection[str] = ()) -> None:
    """Deletes a plan, then the plan's object with occurrences.

    If it stops between the two, the object is an orphan.
    """
    occurrences = ports.plans.delete(topic, first_slot)
    if occurrences is not None and occurrences not in kept:
        ports.objects.delete([occurrences])
