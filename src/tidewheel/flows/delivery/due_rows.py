"""Reads planned rows from ledgers and drops rows that must not be sent."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.flows.ports import Ports
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.message import id_bytes
from tidewheel.model.plan import Piece, Plan, PlannedSegment
from tidewheel.model.topic_state import PurgeMarks, TopicState


def due_rows(ports: Ports, state: TopicState, plan: Plan, pieces: Sequence[Piece]) -> pa.Table:
    """Reads pieces of a plan. The result includes expired rows.

    Each segment is read with one range GET, side by side.

    Raises:
        CorruptLedger: a segment is damaged.
        ObjectMissing: an object is gone.
    """
    by_segment: dict[PlannedSegment, list[Piece]] = {}
    for piece in pieces:
        by_segment.setdefault(piece.planned, []).append(piece)
    wanted = list(by_segment.items())
    found: list[pa.Table | None] = [None] * len(wanted)

    def read(index: int) -> None:
        planned, its_pieces = wanted[index]
        segment = planned.segment
        data = ports.objects.get_range(planned.object_name, segment.offset, segment.length)
        rows = decode_segment(data, object_name=planned.object_name, segment=segment)
        slices = [rows.slice(piece.first_row, piece.end_row - piece.first_row) for piece in its_pieces]
        found[index] = _due(pa.concat_tables(slices), state, plan)

    for _ in ports.parallel(read, range(len(wanted))):
        pass
    rows = pa.concat_tables([each for each in found if each is not None])
    return rows if len(wanted) == 1 else sort_rows(rows.combine_chunks())


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
