"""Reads planned rows from ledgers and drops rows that must not be sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel import deadline
from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.ports import Ports
from tidewheel.ledger.ledger import SCHEMA, decode_segment
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.message import id_bytes
from tidewheel.model.object_names import LEDGERS
from tidewheel.model.plan import Piece, Plan, PlannedSegment
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import PurgeMarks, TopicState

_OTHERS = 3
"""Other ledgers that are asked whether S3 answers at all, before a fault counts as a ledger's own."""


class Unread(NamedTuple):
    """Pieces of one segment that could not be read, and the error."""

    pieces: list[Piece]
    error: Exception


class DueRows(NamedTuple):
    """The rows that could be read, sorted as a ledger's, and the pieces that could not."""

    rows: pa.Table
    unread: list[Unread]


def is_damage(error: Exception) -> bool:
    """Returns whether an error says that bytes are lost. All others, such as a refused or late answer, may pass."""
    return isinstance(error, (CorruptLedger, ObjectMissing))


def others_read(ports: Ports, topic: str, names: Collection[str]) -> list[bool]:
    """Returns for a few other ledgers whether they can be read. Empty if there is no other.

    They are of the same topic, or of any topic if the topic has no other ledger.
    """
    ledgers = (each.object_name for each in ports.buckets.in_order(topic, {}))
    others = list(islice((name for name in ledgers if name not in names), _OTHERS))
    if not others:
        listed = (each.name for each in ports.objects.list(LEDGERS))
        others = list(islice((name for name in listed if name not in names), _OTHERS))
    found = []
    for name in others:
        try:
            found.append(bool(ports.objects.get_range(name, 0, 4)))
        except Exception:
            found.append(False)
    return found


def due_rows(ports: Ports, state: TopicState, plan: Plan, pieces: Sequence[Piece]) -> DueRows:
    """Reads pieces of a plan. The result includes expired rows.

    Each segment is read with one range GET, side by side, in half of the time left. A segment that cannot be read does
    not keep the others.

    Raises:
        Exception: S3's error, if it gave no bytes of any segment, said of none that it is missing, and gives none of
            another ledger. If there is no other ledger, only if a segment was not refused (403).
    """
    by_segment: dict[PlannedSegment, list[Piece]] = {}
    for piece in pieces:
        by_segment.setdefault(piece.planned, []).append(piece)
    wanted = list(by_segment.items())
    found: list[pa.Table | None] = [None] * len(wanted)
    errors: list[Exception | None] = [None] * len(wanted)

    def read(index: int) -> None:
        planned, its_pieces = wanted[index]
        segment = planned.segment
        try:
            data = ports.objects.get_range(planned.object_name, segment.offset, segment.length)
            rows = decode_segment(data, object_name=planned.object_name, segment=segment)
        except Exception as error:  # of any kind: the other segments are on time
            errors[index] = error
            return
        slices = [rows.slice(piece.first_row, piece.end_row - piece.first_row) for piece in its_pieces]
        found[index] = _due(pa.concat_tables(slices), state, plan)

    with deadline.share(2):
        for _ in ports.parallel(read, range(len(wanted))):
            pass
    unread = [
        Unread(its_pieces, error) for (_, its_pieces), error in zip(wanted, errors, strict=True) if error is not None
    ]
    if unread and len(unread) == len(wanted) and not any(is_damage(each.error) for each in unread):
        others = others_read(ports, plan.topic, {each.object_name for each, _ in wanted})
        refused = all(isinstance(each.error, ObjectRefused) for each in unread)
        if not any(others) and (others or not refused):
            raise unread[0].error
    tables = [each for each in found if each is not None]
    rows = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return DueRows(rows if len(tables) <= 1 else sort_rows(rows.combine_chunks()), unread)


def _due(rows: pa.Table, state: TopicState, plan: Plan) -> pa.Table:
    """Drops rows that are outside the plan, cancelled or purged."""
    times = rows.column("deliver_at_ms")
    keep = pc.and_(
        pc.greater_equal(times, plan.first_slot * state.slot_ms), pc.less(times, plan.end_slot * state.slot_ms)
    )
    if plan.cancelled:
        cancelled = pa.array([id_bytes(each) for each in plan.cancelled], pa.binary())
        keep = pc.and_(keep, pc.invert(pc.is_in(rows.column("message_id").cast(pa.binary()), cancelled)))
    return without_purged(rows.filter(keep), state)


def rows_of(state: TopicState, delivery: Delivery, rows: pa.Table) -> pa.Table:
    """Returns the rows of a plan that are due in a delivery's range. The delivery's filter is not applied."""
    due = rows.column("deliver_at_ms")
    if delivery.start > delivery.key.plan:
        rows = rows.filter(pc.greater_equal(due, delivery.start * state.slot_ms))
    if delivery.first_ms is not None and delivery.end_ms is not None:
        due = rows.column("deliver_at_ms")
        rows = rows.filter(pc.and_(pc.greater_equal(due, delivery.first_ms), pc.less(due, delivery.end_ms)))
    return rows


def without_expired(rows: pa.Table, now_ms: int) -> pa.Table:
    """Returns the rows that have not expired. The caller counts the dropped rows."""
    expires = rows.column("expires_at_ms")
    if expires.null_count == rows.num_rows:
        return rows
    return rows.filter(pc.fill_null(pc.greater_equal(expires, now_ms), True))


def without_purged(rows: pa.Table, marks: PurgeMarks) -> pa.Table:
    """Returns ledger rows without purged rows.

    Every path to a queue, and every merge, calls this.
    """
    if marks.purge_ms:
        rows = rows.filter(pc.greater_equal(rows.column("sent_at_ms"), marks.purge_ms))
    for purge in marks.purges:
        if not rows.num_rows:
            break
        due, sent = rows.column("deliver_at_ms"), rows.column("sent_at_ms")
        outside = pc.or_(pc.less(due, purge.first_ms), pc.greater_equal(due, purge.end_ms))
        rows = rows.filter(pc.or_(outside, pc.greater_equal(sent, purge.sent_before_ms)))
    return rows
