"""Deliver: what a plan names is read from ledgers and released to one subscription's queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import CorruptMetadata, PartLeased
from tidewheel.fence import Fence
from tidewheel.flows import release
from tidewheel.flows.ports import Ports
from tidewheel.ledger import decode_segment
from tidewheel.ledger_rows import sort_rows
from tidewheel.message import id_bytes
from tidewheel.plan import Piece, Plan, PlannedSegment
from tidewheel.settings import MAX_FUNCTION_S
from tidewheel.subscription import Delivery, DeliveryKey

_MOST_TOO_MANY = 4
LEASE_MS = MAX_FUNCTION_S * 1000
"""A worker's part is its own for this long: longer than any function that delivers may run."""


class Delivered(NamedTuple):
    """What a delivery did: messages sent, segments read, and the failures that were left to the work queue."""

    messages: int
    segments: int
    failures: tuple[Exception, ...] = ()


def deliver_part(ports: Ports, key: DeliveryKey, part: int) -> Delivered | None:
    """Sends one part of a delivery; None if it is done, or nobody's any more.

    If it stops
        after the lease: the next try waits for the lease to end.
        between sends, or before the part is marked: the next try sends copies with the same ids.
        before the delivery is deleted: the sweep deletes it.

    Raises:
        PartLeased: another worker has it, or had it less than LEASE_MS ago and died.
        CorruptLedger: a segment is damaged; nothing of the part was sent.
        ObjectMissing: an object is gone; nothing of the part was sent.
        QueueUnavailable: the queue does not take messages; some may have been sent.
    """
    now_ms = ports.clock.now_ms()
    delivery = ports.topics.lease_part(key, part, now_ms, now_ms - LEASE_MS)
    if delivery is None:
        current = ports.topics.delivery(key)
        if current is None or part in current.done:
            return None
        raise PartLeased(key, part)
    try:
        fence = ports.topics.fence(key.topic)
        plan = ports.topics.plan(key.topic, key.plan)
        if fence is None or plan is None:
            raise CorruptMetadata(f"delivery {key} is open, but its {'topic' if fence is None else 'plan'} is gone")
        pieces = plan.parts()[part]
        sent = _send(ports, fence, delivery, due_rows(ports, fence, plan, pieces))
    except Exception:
        ports.topics.release_part(key, part)
        raise
    after = ports.topics.part_done(key, part)
    if after is not None and after.complete:
        ports.topics.delete_deliveries([key])
    return Delivered(messages=sent, segments=len({piece.planned for piece in pieces}))


def deliver_at_once(ports: Ports, fence: Fence, plan: Plan, deliveries: Sequence[Delivery]) -> Delivered:
    """Sends a small plan to every subscription that it was just handed out to; each segment is read once.

    The caller has leased all parts when it handed the plan out. What fails for one subscription goes to the work
    queue and keeps no other waiting. If it stops, the sweep brings the open deliveries back.
    """
    done: list[DeliveryKey] = []
    failures: list[Exception] = []
    sent = 0
    pieces = [piece for part in plan.parts() for piece in part]
    rows: pa.Table | None = None
    try:
        rows = due_rows(ports, fence, plan, pieces)
        if rows.num_rows * len(deliveries) > _MOST_TOO_MANY * fence.settings.inline_rows:
            rows = None  # a burst that the estimate did not show: parts are bounded
    except Exception as error:  # the work queue retries, and in the end keeps it as a dead letter
        failures.append(error)
    for delivery in deliveries:
        try:
            if rows is not None:
                sent += _send(ports, fence, delivery, rows)
                done.append(delivery.key)
                continue
        except Exception as error:  # likewise, and the other subscriptions get theirs
            failures.append(error)
        for part in range(delivery.parts):
            ports.topics.release_part(delivery.key, part)
        ports.queues.enqueue_parts(delivery.key, range(delivery.parts))
    ports.topics.delete_deliveries(done)
    segments = len({piece.planned for piece in pieces})
    return Delivered(messages=sent, segments=segments, failures=tuple(failures))


def due_rows(ports: Ports, fence: Fence, plan: Plan, pieces: Sequence[Piece]) -> pa.Table:
    """Reads pieces of a plan, each segment with one range GET, side by side, and keeps the rows that are to be sent.

    Raises:
        CorruptLedger: a segment is damaged.
        ObjectMissing: an object is gone.
    """
    by_segment: dict[PlannedSegment, list[Piece]] = {}
    for piece in pieces:
        by_segment.setdefault(piece.planned, []).append(piece)
    wanted = list(by_segment.items())
    found: list[pa.Table | None] = [None] * len(wanted)
    now_ms = ports.clock.now_ms()

    def read(index: int) -> None:
        planned, its_pieces = wanted[index]
        segment = planned.segment
        data = ports.objects.get_range(planned.object_name, segment.offset, segment.length)
        rows = decode_segment(data, object_name=planned.object_name, segment=segment)
        slices = [rows.slice(piece.first_row, piece.end_row - piece.first_row) for piece in its_pieces]
        found[index] = _due(pa.concat_tables(slices), fence, plan, now_ms)

    for _ in ports.parallel(read, range(len(wanted))):
        pass
    rows = pa.concat_tables([each for each in found if each is not None])
    return rows if len(wanted) == 1 else sort_rows(rows.combine_chunks())


def _send(ports: Ports, fence: Fence, delivery: Delivery, rows: pa.Table) -> int:
    if delivery.start > delivery.key.plan:
        rows = rows.filter(pc.greater_equal(rows.column("deliver_at_ms"), delivery.start * fence.slot_ms))
    messages = release.releases(rows)
    release.send(ports, delivery.queue_url, messages)
    return len(messages)


def _due(rows: pa.Table, fence: Fence, plan: Plan, now_ms: int) -> pa.Table:
    """Drops what is outside the plan, cancelled, purged or expired."""
    times = rows.column("deliver_at_ms")
    keep = pc.and_(pc.greater_equal(times, plan.a * fence.slot_ms), pc.less(times, plan.b * fence.slot_ms))
    if fence.purge_ms:
        keep = pc.and_(keep, pc.greater_equal(rows.column("sent_at_ms"), fence.purge_ms))
    expires = rows.column("expires_at_ms")
    if expires.null_count < rows.num_rows:
        keep = pc.and_(keep, pc.fill_null(pc.greater_equal(expires, now_ms), True))
    if plan.cancelled:
        cancelled = pa.array([id_bytes(each) for each in plan.cancelled], pa.binary())
        keep = pc.and_(keep, pc.invert(pc.is_in(rows.column("message_id").cast(pa.binary()), cancelled)))
    return rows.filter(keep)
