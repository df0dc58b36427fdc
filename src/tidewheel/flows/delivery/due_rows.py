"""Reads planned rows from ledgers, and selects the rows that a subscription is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel import deadline
from tidewheel.flows.ports import Ports
from tidewheel.ledger.ledger import SCHEMA, decode_segment
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.filter_policy import FilterPolicy
from tidewheel.model.message import HEADER_ATTRIBUTE, MessageId, id_bytes
from tidewheel.model.plan import Piece, Plan, PlannedSegment
from tidewheel.model.received import TRACES
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import TopicState

_ONLY = '"only":'
"""In a header's extras. JSON escapes quotation marks inside a text, so no text contains this."""


class UnreadSegment(NamedTuple):
    """Pieces of one segment that could not be read, and the error."""

    pieces: list[Piece]
    error: Exception


class DueRows(NamedTuple):
    """The rows that could be read, sorted as a ledger's, and the pieces that could not.

    Attributes:
        purged: how many others were dropped because they are purged.
    """

    rows: pa.Table
    unread: list[UnreadSegment]
    purged: int = 0


def due_rows(ports: Ports, state: TopicState, plan: Plan, pieces: Sequence[Piece]) -> DueRows:
    """Reads pieces of a plan. The result includes expired rows.

    Each segment is read with one range GET, side by side, in half of the time left. A segment that cannot be read does
    not keep the others.
    """
    by_segment: dict[PlannedSegment, list[Piece]] = {}
    for piece in pieces:
        by_segment.setdefault(piece.planned, []).append(piece)
    segments = list(by_segment.items())
    due: list[pa.Table | None] = [None] * len(segments)
    errors: list[Exception | None] = [None] * len(segments)
    purged = [0] * len(segments)

    def read(index: int) -> None:
        planned, its_pieces = segments[index]
        segment = planned.segment
        try:
            data = ports.objects.get_range(planned.object_name, segment.offset, segment.length)
            rows = decode_segment(data, object_name=planned.object_name, segment=segment)
        except Exception as error:  # of any kind: the other segments are on time
            errors[index] = error
            return
        slices = [rows.slice(piece.first_row, piece.end_row - piece.first_row) for piece in its_pieces]
        planned_rows = _due(pa.concat_tables(slices), state, plan)
        kept = without_purged(planned_rows, state)
        due[index], purged[index] = kept, planned_rows.num_rows - kept.num_rows

    with deadline.share(2):
        ports.parallel(read, range(len(segments)))
    unread = [
        UnreadSegment(its_pieces, error)
        for (_, its_pieces), error in zip(segments, errors, strict=True)
        if error is not None
    ]
    tables = [each for each in due if each is not None]
    rows = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return DueRows(rows if len(tables) <= 1 else sort_rows(rows.combine_chunks()), unread, sum(purged))


def _due(rows: pa.Table, state: TopicState, plan: Plan) -> pa.Table:
    """Drops rows that are outside the plan or cancelled."""
    times = rows.column("deliver_at_ms")
    keep = pc.and_(
        pc.greater_equal(times, plan.first_slot * state.slot_ms), pc.less(times, plan.end_slot * state.slot_ms)
    )
    return without_ids(rows.filter(keep), _cancelled(plan.cancelled))


@lru_cache(maxsize=2)  # a plan that is kept has the same set
def _cancelled(ids: frozenset[MessageId]) -> pa.Array:
    return pa.array(map(id_bytes, ids), pa.binary())


def without_ids(rows: pa.Table, ids: pa.Array | Iterable[bytes]) -> pa.Table:
    """Returns the rows whose ids are not among some ids of 16 bytes."""
    left_out = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.binary())
    if not len(left_out):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column("message_id").cast(pa.binary()), left_out)))


def rows_of(state: TopicState, delivery: Delivery, rows: pa.Table) -> pa.Table:
    """Returns the rows of a plan that are due in a delivery's range. The delivery's filter is not applied."""
    due = rows.column("deliver_at_ms")
    if delivery.start > delivery.key.plan:
        rows = rows.filter(pc.greater_equal(due, delivery.start * state.slot_ms))
    if delivery.first_ms is not None and delivery.end_ms is not None:
        due = rows.column("deliver_at_ms")
        rows = rows.filter(pc.and_(pc.greater_equal(due, delivery.first_ms), pc.less(due, delivery.end_ms)))
    return rows


def rows_for(rows: pa.Table, subscription: str, filter_policy: str | None) -> pa.Table:
    """Returns the rows for a subscription, sorted as given.

    These are the rows that match its filter, and the rows addressed to it alone. A message that a consumer sends again
    is addressed to the consumer's own subscription, because the others have received it before. The filter is not
    applied again.

    Args:
        rows: in a ledger's columns.
        filter_policy: JSON, as a subscription and a delivery hold it.

    Raises:
        InvalidValue: the filter cannot be read.
    """
    addressed = has_addressed(rows)
    if not addressed and (filter_policy is None or not rows.num_rows):
        return rows
    policy = None if filter_policy is None else _parsed(filter_policy)
    attributes, groups = rows.column("attributes"), rows.column("message_group")
    tested = [attributes, groups] if policy is not None and policy.tests_group else [attributes]
    if policy is not None and all(column.null_count == rows.num_rows for column in tested):
        return rows if policy.matches(None) else rows.slice(0, 0)
    keep = []
    for pairs, group in zip(attributes.to_pylist(), groups.to_pylist(), strict=True):
        sent = dict(pairs or ())
        extras = sent.pop(HEADER_ATTRIBUTE, None)
        only = json.loads(extras).get("only") if addressed and extras is not None else None
        keep.append(only == subscription if only is not None else _takes(policy, sent, group))
    return rows.filter(pa.array(keep))


def is_taken(filter_policy: str | None, attributes: Mapping[str, str], group: str | None) -> bool:
    """Whether a subscription's filter takes a message with these attributes."""
    return _takes(None if filter_policy is None else _parsed(filter_policy), attributes, group)


def _takes(policy: FilterPolicy | None, attributes: Mapping[str, str], group: str | None) -> bool:
    """Whether a filter takes a message. A trace must not decide who gets a message."""
    return policy is None or policy.matches(
        {name: attributes[name] for name in attributes if name not in TRACES}, group
    )


def has_addressed(rows: pa.Table) -> bool:
    """Whether any row is for a single subscription.

    Checks whole columns, since mostly there is no such row.
    """
    attributes = rows.column("attributes")
    if attributes.null_count == rows.num_rows:
        return False
    for chunk in attributes.chunks:
        extras = chunk.items.filter(pc.equal(chunk.keys, HEADER_ATTRIBUTE))
        if pc.any(pc.match_substring(extras, _ONLY)).as_py():
            return True
    return False


@lru_cache(maxsize=256)
def _parsed(filter_policy: str) -> FilterPolicy:
    return FilterPolicy.parse(filter_policy)


def without_expired(rows: pa.Table, now_ms: int) -> pa.Table:
    """Returns the rows that have not expired. The caller counts the dropped rows."""
    expires = rows.column("expires_at_ms")
    if expires.null_count == rows.num_rows:
        return rows
    return rows.filter(pc.fill_null(pc.greater_equal(expires, now_ms), True))


def without_purged(rows: pa.Table, state: TopicState) -> pa.Table:
    """Returns ledger rows without purged rows.

    Every path to a queue, and every merge, calls this.
    """
    if state.purge_ms:
        rows = rows.filter(pc.greater_equal(rows.column("sent_at_ms"), state.purge_ms))
    for purge in state.purges:
        if not rows.num_rows:
            break
        due, sent = rows.column("deliver_at_ms"), rows.column("sent_at_ms")
        outside = pc.or_(pc.less(due, purge.first_ms), pc.greater_equal(due, purge.end_ms))
        rows = rows.filter(pc.or_(outside, pc.greater_equal(sent, purge.sent_before_ms)))
    return rows
