"""Sets aside planned rows that cannot be read.

The item of what could not be read is put before its part is marked done. So the rows are always named by an open
delivery or by an item. `tests/simulation/set_aside_model.py` explores the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidewheel.errors import CorruptLedger, CorruptMetadata, ObjectMissing
from tidewheel.flows.delivery.damage import is_damage
from tidewheel.flows.delivery.due_rows import Unread
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Tail, content_id, due_rows_of
from tidewheel.ledger.ledger import encode_ledger
from tidewheel.ledger.reader import segments_of
from tidewheel.ledger.segment_table import touching
from tidewheel.model.message import id_bytes, id_deliver_at_ms
from tidewheel.model.object_names import park_name
from tidewheel.model.park import ParkKey
from tidewheel.model.plan import Piece, Plan, PlannedSegment, Unindexed, encode_plan
from tidewheel.model.segment import Segment
from tidewheel.model.set_aside import (
    DAMAGED_AFTER_TRIES,
    MAX_MANIFEST_BYTES,
    SetAside,
    SetAsideKey,
    set_aside_key,
    wait_ms,
)
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import Objects


def set_aside(ports: Ports, plan: Plan, delivery: Delivery, unread: Sequence[Unread]) -> list[SetAside]:
    """Puts an item for each part with pieces that could not be read. Returns the items.

    Must come before a part is marked done. If it stops, the part comes again and puts the same items, or others if it
    misses other rows. What both read and put aside comes twice.

    Raises:
        Exception: the plan of the pieces is too large for an item, or the table did not answer.
    """
    errors = {piece: each.error for each in unread for piece in each.pieces}
    put = []
    for pieces in plan.parts():
        mine = [piece for piece in pieces if piece in errors]
        if mine:
            found = [errors[piece] for piece in mine]
            put.append(_put(ports, _item(ports, delivery, plan_of(plan, mine), ranges_of(mine), found), found))
    return put


def set_aside_all(ports: Ports, plan: Plan, delivery: Delivery, error: Exception) -> int:
    """Puts an item for each part of a plan that is not stored, and enqueues the jobs. Returns how many were put.

    A repetition puts the same items, whatever parts it finds.
    """
    slices = [(plan_of(plan, pieces), ranges_of(pieces)) for pieces in plan.parts()]
    slices += [(replace(plan, segments=(), unindexed=(each,)), ()) for each in plan.unindexed]
    items = [_item(ports, delivery, own, ranges, [error]) for own, ranges in slices]
    _put_all(ports, items)
    return len(items)


def set_aside_rows(
    ports: Ports,
    state: TopicState,
    owner: tuple[str, str],
    rows: pa.Table,
    error: Exception,
    filter_policy: str | None = None,
) -> None:
    """Sets aside direct rows of a subscription that cannot be read, or its filter.

    The rows become an object, which the item names. If it stops between the two, the orphan sweep deletes the object. A
    repetition puts the same item.

    Args:
        owner: the subscription's name and generation.
    """
    name_of_owner, generation = owner
    ledger = encode_ledger(rows, topic=state.topic, generation=state.generation, slot_ms=state.slot_ms)
    id, times = content_id(ledger.data), rows.column("deliver_at_ms")
    key = SetAsideKey(topic=state.topic, subscription=name_of_owner, generation=generation, id=id)
    if ports.set_aside.read(key) is not None:
        return
    park = ParkKey(topic=state.topic, subscription=name_of_owner, generation=generation, id=id)
    name = park_name(park, ports.objects.new_attempt())
    ports.objects.put(name, ledger.data)
    segments = tuple(
        PlannedSegment(object_name=name, segment=each, due_rows=each.rows) for each in ledger.summary.segments
    )
    first_slot, end_slot = times[0].as_py() // state.slot_ms, times[-1].as_py() // state.slot_ms + 1
    plan = Plan(topic=state.topic, first_slot=first_slot, end_slot=end_slot, segments=segments)
    ranges = ranges_of([piece for part in plan.parts() for piece in part])
    item = _suspect(ports, key=key, plan=plan, ranges=ranges, start=0, filter_policy=filter_policy, reason=str(error))
    ports.set_aside.put(item)


def deliver_unindexed(
    ports: Ports, state: TopicState, plan: Plan, delivery: Delivery, part: int
) -> tuple[SetAside, Exception] | None:
    """Reads the index of a part's ledger, and leaves the rows to jobs. Without an index, sets the ledger aside.

    Returns the item of the ledger and why it was set aside, or None.

    If it stops before the part is marked done, the part comes again and puts the same items.
    """
    unindexed = plan.unindexed[part - len(plan.parts())]
    own = replace(plan, segments=(), unindexed=(unindexed,), occurrences=None)
    parent = _item(ports, delivery, own, (), [])
    try:
        segments = index_again(ports.objects, unindexed, plan.first_slot, plan.end_slot, state.slot_ms)
    except Exception as error:
        return _put(ports, _item(ports, delivery, own, (), [error]), [error]), error
    put_indexed(ports, parent, segments)
    return None


def _put(ports: Ports, item: SetAside, errors: Sequence[Exception]) -> SetAside:
    """Puts an item, as damaged if its places are known to be. Returns it as put."""
    if all(is_damage(error) for error in errors) and _known(ports, item):
        item = replace(item, next_check_ms=None, damage=DAMAGED_AFTER_TRIES)
    ports.set_aside.put(item)
    return item


def _item(
    ports: Ports, delivery: Delivery, plan: Plan, ranges: tuple[tuple[int, int, int], ...], errors: Sequence[Exception]
) -> SetAside:
    """Returns the item of what could not be read. It is named by that, as another try of a part may miss other rows."""
    manifest = encode_plan(plan)
    if len(manifest) > MAX_MANIFEST_BYTES:
        raise CorruptMetadata(f"a part of {delivery.key} cannot be set aside: too many of its ids were cancelled")
    return _suspect(
        ports,
        key=set_aside_key(delivery.key, content_id(manifest + repr(ranges).encode())),
        plan=plan,
        ranges=ranges,
        start=delivery.start,
        filter_policy=delivery.filter_policy,
        first_ms=delivery.first_ms,
        end_ms=delivery.end_ms,
        reason=str(errors[0]) if errors else "",
    )


def _suspect(ports: Ports, **fields: Any) -> SetAside:
    """Returns an item that is tried soon for the first time."""
    now_ms = ports.clock.now_ms()
    return SetAside(first_seen_ms=now_ms, next_check_ms=now_ms + wait_ms(0), **fields)


def _known(ports: Ports, item: SetAside) -> bool:
    """Whether all of an item's places are damaged in another item, so that more tries would only cost calls."""
    damaged = {place for each in ports.set_aside.all(item.key.topic, {}) if each.damaged for place in _places(each)}
    return _places(item) <= damaged


def _places(item: SetAside) -> set[tuple[str, int]]:
    segments = {(each.object_name, each.segment.offset) for each in item.plan.segments}
    return segments | {(each.object_name, -1) for each in item.plan.unindexed}


def put_indexed(ports: Ports, parent: SetAside, segments: Sequence[PlannedSegment]) -> None:
    """Puts an item for each part of a ledger whose index was read, and enqueues the jobs. The sweep enqueues again."""
    plan = replace(parent.plan, segments=tuple(segments), unindexed=())
    items = [
        replace(
            parent,
            key=replace(parent.key, id=f"{parent.key.id}.{number}"),
            plan=plan_of(plan, pieces),
            ranges=ranges_of(pieces),
            reason="its ledger's index could not be read",
            tries=0,
            damage=0,
            next_check_ms=ports.clock.now_ms() + wait_ms(0),
        )
        for number, pieces in enumerate(plan.parts())
    ]
    _put_all(ports, items)


def _put_all(ports: Ports, items: Sequence[SetAside]) -> None:
    """Puts items and enqueues their jobs. If the work queue takes none, the sweep enqueues them."""
    ports.parallel(ports.set_aside.put, items)
    with suppress(Exception):
        ports.queues.enqueue_set_aside(items)


def plan_of(plan: Plan, pieces: Sequence[Piece]) -> Plan:
    """Returns a plan of some pieces' segments, with the cancelled ids that may be in them."""
    segments = tuple(dict.fromkeys(piece.planned for piece in pieces))
    spans = [(each.segment.first_deliver_at_ms, each.segment.last_deliver_at_ms) for each in segments]
    cancelled = frozenset(
        each
        for each in plan.cancelled
        if any(first <= id_deliver_at_ms(id_bytes(each)) <= last for first, last in spans)
    )
    return replace(plan, segments=segments, unindexed=(), cancelled=cancelled, occurrences=None)


def ranges_of(pieces: Sequence[Piece]) -> tuple[tuple[int, int, int], ...]:
    """Returns the ranges of pieces in their `plan_of`."""
    numbers = {planned: number for number, planned in enumerate(dict.fromkeys(piece.planned for piece in pieces))}
    return tuple((numbers[piece.planned], piece.first_row, piece.end_row) for piece in pieces)


def index_again(
    objects: Objects, unindexed: Unindexed, first_slot: int, end_slot: int, slot_ms: int
) -> list[PlannedSegment]:
    """Returns the segments of a ledger that may hold rows of slots [first_slot, end_slot), if its tail was not read.

    Reads the tail, and if that is damaged, the ledger's footer, which names the same segments.

    Raises:
        ObjectMissing: the ledger is gone.
        CorruptLedger: both are damaged.
    """
    first_ms, end_ms = first_slot * slot_ms, end_slot * slot_ms
    found = touching(_segments(objects, unindexed), first_ms, end_ms)
    return [
        PlannedSegment(object_name=unindexed.object_name, segment=each, due_rows=due_rows_of(each, first_ms, end_ms))
        for each in found
    ]


def _segments(objects: Objects, unindexed: Unindexed) -> Sequence[Segment]:
    name = unindexed.object_name
    try:
        tail = Tail.of_tag(unindexed.tail)
        return tail.index(objects.get_range(name, tail.offset, tail.length), name)[1]
    except (CorruptLedger, ValueError):
        size_bytes = unindexed.size_bytes or sum(each.size_bytes for each in objects.list(name))
        if not size_bytes:
            raise ObjectMissing(name) from None
        return segments_of(lambda offset, length: objects.get_range(name, offset, length), size_bytes, name)
