"""Tries set-aside rows again, and gives up on damaged bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from tidewheel.errors import CorruptMetadata, InvalidValue, ObjectMissing, ObjectRefused
from tidewheel.flows.delivery.damage import is_damage, others_read
from tidewheel.flows.delivery.deliver import Delivered
from tidewheel.flows.delivery.direct import send_or_park
from tidewheel.flows.delivery.due_rows import due_rows, rows_for, rows_of, without_expired
from tidewheel.flows.delivery.set_aside import index_again, plan_of, put_indexed, ranges_of
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.parallel import persistently
from tidewheel.model.object_names import copy_name
from tidewheel.model.set_aside import (
    DAMAGED_AFTER_MS,
    DAMAGED_AFTER_TRIES,
    REFUSED_AFTER_MS,
    UNKNOWN_GENERATION,
    SetAside,
    SetAsideKey,
    wait_ms,
)
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic_state import TopicState


def try_again(ports: Ports, key: SetAsideKey, tries: int) -> Delivered | None:
    """Reads a set-aside item again. Its readable rows go to the queue or a park.

    Returns None if the item is gone, somebody else has tried since, or the topic or subscription is gone.

    If it stops
        after the try is counted: the sweep tries again.
        after rows were sent: the sweep tries again, and sends copies with the same ids.
        after the rows that are left are noted: the sweep tries these again.
        after bytes were copied: likewise; the copies have the same names.
    """
    item = ports.set_aside.read(key)
    state = ports.topic_states.read(key.topic)
    if item is None or item.tries != tries or state is None:
        return None
    unknown: Exception | None = None
    subscription: SubscriptionState | None = None
    try:
        subscription = ports.subscriptions.read(key.topic, key.subscription)
    except CorruptMetadata as error:
        unknown = error
    if unknown is None and not key.is_of(subscription):
        ports.set_aside.delete([key])
        return None
    now_ms = ports.clock.now_ms()
    claimed = replace(item, tries=tries + 1, next_check_ms=now_ms + wait_ms(tries + 1))
    if not ports.set_aside.change(item, claimed):
        return None
    if subscription is None:
        assert unknown is not None
        _failed(ports, claimed, claimed, [unknown])
        return Delivered(failures=(unknown,))
    if claimed.plan.unindexed:
        return _index_again(ports, state, claimed)
    return _read_again(ports, state, subscription, claimed)


def _index_again(ports: Ports, state: TopicState, item: SetAside) -> Delivered | None:
    [unindexed] = item.plan.unindexed
    try:
        segments = index_again(ports.objects, unindexed, item.plan.first_slot, item.plan.end_slot, state.slot_ms)
    except Exception as error:
        damaged = _failed(ports, item, item, [error])
        return Delivered(failures=(error,), damaged=damaged)
    put_indexed(ports, item, segments)
    ports.set_aside.delete([item.key])
    return Delivered(segments=len(segments))


def _read_again(ports: Ports, state: TopicState, subscription: SubscriptionState, item: SetAside) -> Delivered | None:
    pieces = item.pieces
    try:
        found = due_rows(ports, state, item.plan, pieces)
        wanted = _filtered(subscription, item, rows_of(state, item.delivery, found.rows))
    except Exception as error:
        damaged = _failed(ports, item, item, [error])
        return Delivered(failures=(error,), damaged=damaged)
    rows = without_expired(wanted, ports.clock.now_ms())
    if rows.num_rows:
        send_or_park(ports, state, subscription, rows)
    unread = {piece: each.error for each in found.unread for piece in each.pieces}
    left = [piece for piece in pieces if piece in unread]
    damaged = 0
    if left:
        smaller = replace(item, plan=plan_of(item.plan, left), ranges=ranges_of(left))
        damaged = _failed(ports, item, smaller, [unread[piece] for piece in left])
    else:
        persistently(lambda: ports.set_aside.delete([item.key]))
    segments = len({piece.planned for piece in pieces}) - len(found.unread)
    expired = wanted.num_rows - rows.num_rows
    failures = tuple(each.error for each in found.unread)
    return Delivered(messages=rows.num_rows, segments=segments, failures=failures, expired=expired, damaged=damaged)


def _filtered(subscription: SubscriptionState, item: SetAside, rows: pa.Table) -> pa.Table:
    """Returns the rows that match the item's filter, or the subscription's present filter if that is not readable."""
    if item.key.generation == UNKNOWN_GENERATION:
        return rows_for(rows, subscription.name, subscription.filter_policy)
    try:
        return rows_for(rows, subscription.name, item.filter_policy)
    except InvalidValue:
        return rows_for(rows, subscription.name, subscription.filter_policy)


def _failed(ports: Ports, seen: SetAside, item: SetAside, errors: Sequence[Exception]) -> int:
    """Notes a failed try. Returns 1 if the item is damaged from then on, because damage was found often enough.

    The item is noted before its bytes are copied: if that fails, the next try copies them, and sends no copies of rows.
    """
    refused = any(isinstance(error, ObjectRefused) for error in errors)
    damage = item.damage + all(is_damage(error) or isinstance(error, ObjectRefused) for error in errors)
    after = replace(item, damage=damage, reason=str(errors[0]))
    if not all(is_damage(error) or isinstance(error, CorruptMetadata | InvalidValue) for error in errors):
        # S3's trouble may end at any time. Damage lasts until somebody restores what is damaged.
        after = replace(after, next_check_ms=ports.clock.now_ms() + wait_ms(0))
    if not persistently(lambda: ports.set_aside.change(seen, after)):
        return 0
    age_ms = ports.clock.now_ms() - item.first_seen_ms
    old = age_ms >= (REFUSED_AFTER_MS if refused else DAMAGED_AFTER_MS)
    lost = not refused and age_ms >= REFUSED_AFTER_MS  # whatever else is lost, too
    if damage > item.damage and damage >= DAMAGED_AFTER_TRIES and old and (lost or _alone(ports, item)):
        _copy_bytes(ports, item)
        return int(ports.set_aside.change(after, replace(after, next_check_ms=None)))
    return 0


def _alone(ports: Ports, item: SetAside) -> bool:
    """Whether another ledger can be read, or there is no other. If S3 gives none of the others, all are tried again."""
    others = others_read(ports, item.key.topic, item.objects)
    return any(others) or not others


def _copy_bytes(ports: Ports, item: SetAside) -> None:
    """Copies what can be read of an item's bytes, because the item holds no collection any more."""
    for each in item.plan.segments:
        offset = each.segment.offset
        with suppress(ObjectMissing, ObjectRefused):
            data = ports.objects.get_range(each.object_name, offset, each.segment.length)
            ports.objects.put(copy_name(each.object_name, offset), data)
    for unindexed in item.plan.unindexed:
        with suppress(ObjectMissing, ObjectRefused):
            ports.objects.copy(unindexed.object_name, copy_name(unindexed.object_name))
