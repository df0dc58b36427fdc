"""Stores the due occurrences of recurring messages in an object for each plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidewheel.flows.ports import Ports
from tidewheel.ledger.ledger import encode_for_topic
from tidewheel.ledger.rows import rows_table, sort_rows, version_of
from tidewheel.model import object_names
from tidewheel.model.message import bytes_of_text
from tidewheel.model.plan import PlannedSegment
from tidewheel.model.recurrence import rule_of
from tidewheel.model.recurring import Recurring, occurrence_id
from tidewheel.model.topic_state import TopicState

MOST_OCCURRENCES = 100_000
"""Occurrences of one recurring message in one plan: at one a minute, 69 days without any dispatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """A plan's object with the occurrences of recurring messages, and the object's segments."""

    object_name: str
    segments: tuple[PlannedSegment, ...]


def store_occurrences(ports: Ports, state: TopicState, recurring: Sequence[Recurring]) -> Occurrences | None:
    """Puts the occurrences in [planned, sealed) into an object. Returns None if nothing is due.

    If it stops afterwards, nothing names the object, and the orphan sweep deletes it a day later.
    """
    rows = _rows(recurring, state, ports.clock.now_ms())
    if rows is None:
        return None
    version = version_of(rows)
    if version > state.layout:
        ports.topic_states.raise_layout(state, version)  # before any object that earlier releases cannot read
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
    due = [
        (due_ms, each)
        for each in recurring
        for due_ms in rule_of(each).between(
            max(each.first_ms, state.planned * state.slot_ms), state.sealed * state.slot_ms, MOST_OCCURRENCES
        )
    ]
    if not due:
        return None
    rows = rows_table(
        deliver_at_ms=[due_ms for due_ms, _ in due],
        message_id=[occurrence_id(each.generation, each.name, due_ms) for due_ms, each in due],
        payload=[bytes_of_text(each.text, each.encoding) for _, each in due],
        encoding=[each.encoding for _, each in due],
        sent_at_ms=[now_ms] * len(due),
        key=[each.name for _, each in due],
        attributes=[each.attributes or None for _, each in due],
        expires_at_ms=[None if each.expires_in_ms is None else due_ms + each.expires_in_ms for due_ms, each in due],
        message_group=[each.group for _, each in due],
    )
    return sort_rows(rows)
