"""Stores the due occurrences of recurring messages in an object for each plan.

After an outage, one plan of all missed occurrences may not fit into memory. So they are planned in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING

from tidewheel.flows.ports import Ports
from tidewheel.model import object_names
from tidewheel.model.message import bytes_of_text
from tidewheel.model.plan import PlannedSegment
from tidewheel.model.recurrence import rule_of
from tidewheel.model.recurring import Recurring, occurrence_id
from tidewheel.model.topic_state import TopicState

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PLAN_BYTES = 16 * 1024 * 1024
"""Of occurrences in one plan, unless a single slot has more. Several copies fit into dispatch's memory."""
_ROW_BYTES = 500
"""Approximate memory of an occurrence without its body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """A plan's object with the occurrences of recurring messages, and the object's segments."""

    object_name: str
    segments: tuple[PlannedSegment, ...]


def end_of_part(state: TopicState, recurring: Sequence[Recurring]) -> int:
    """Returns the end of the slots from `planned` on that one plan takes: `sealed`, or an earlier slot."""
    size = 0
    for due_ms, each in _due(recurring, state):
        size += len(each.text) + _ROW_BYTES
        slot = due_ms // state.slot_ms
        if size > MAX_PLAN_BYTES and slot > state.planned:
            return slot
    return state.sealed


def store_occurrences(ports: Ports, state: TopicState, recurring: Sequence[Recurring]) -> Occurrences | None:
    """Puts the occurrences in [planned, sealed) into an object. Returns None if nothing is due.

    If it stops afterwards, nothing names the object, and the orphan sweep deletes it a day later.
    """
    rows = _rows(recurring, state, ports.clock.now_ms())
    if rows is None:
        return None
    from tidewheel.ledger.ledger import encode_for_topic

    ledger = encode_for_topic(state, rows)
    name = object_names.occurrences_name(state.topic, state.planned, ports.objects.new_attempt())
    ports.objects.put(name, ledger.data)
    planned = (
        PlannedSegment(object_name=name, segment=segment, due_rows=segment.rows) for segment in ledger.summary.segments
    )
    return Occurrences(object_name=name, segments=tuple(planned))


def _rows(recurring: Sequence[Recurring], state: TopicState, now_ms: int) -> pa.Table | None:
    """Returns the occurrences in [planned, sealed) as rows, in order.

    Their send time is the time of planning, as for purges.
    """
    due = list(_due(recurring, state))
    if not due:
        return None
    from tidewheel.ledger.rows import rows_table, sort_rows

    bodies = {each.name: bytes_of_text(each.text, each.encoding) for each in recurring}
    rows = rows_table(
        deliver_at_ms=[due_ms for due_ms, _ in due],
        message_id=[occurrence_id(each.generation, each.name, due_ms) for due_ms, each in due],
        payload=[bodies[each.name] for _, each in due],
        encoding=[each.encoding for _, each in due],
        sent_at_ms=[now_ms] * len(due),
        key=[each.name for _, each in due],
        attributes=[each.attributes or None for _, each in due],
        expires_at_ms=[None if each.expires_in_ms is None else due_ms + each.expires_in_ms for due_ms, each in due],
        message_group=[each.group for _, each in due],
    )
    return sort_rows(rows)


def _due(recurring: Sequence[Recurring], state: TopicState) -> Iterator[tuple[int, Recurring]]:
    """Yields the occurrences in [planned, sealed) in order."""
    first_ms, end_ms = state.planned * state.slot_ms, state.sealed * state.slot_ms

    def of_one(each: Recurring) -> Iterator[tuple[int, Recurring]]:
        return ((due_ms, each) for due_ms in rule_of(each).times(max(each.first_ms, first_ms), end_ms))

    return merge(*map(of_one, recurring), key=lambda one: one[0])
