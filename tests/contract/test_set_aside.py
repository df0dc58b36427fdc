"""Tests the port SetAsideItems, with unreadable items and their tries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store
from tidewheel.model.message import IdSource, id_text
from tidewheel.model.plan import Plan, PlannedSegment, Unindexed
from tidewheel.model.segment import Segment
from tidewheel.model.set_aside import SetAside, SetAsideKey

SEGMENT = Segment(offset=4, length=90, rows=5, raw_bytes=300, first_deliver_at_ms=7, last_deliver_at_ms=9)
LEDGER = Unindexed(object_name="ledgers/orders/2", tail="4,5,6", size_bytes=70, rows=3)


def an_item(id: str = "000000000007.-.0", subscription: str = "billing", **fields: Any) -> SetAside:
    """A suspect with one segment."""
    planned = PlannedSegment(object_name="ledgers/orders/1", segment=SEGMENT, due_rows=3)
    cancelled = frozenset({id_text(IdSource().next(8))})
    plan = Plan(topic="orders", first_slot=7, end_slot=9, segments=(planned,), cancelled=cancelled)
    key = SetAsideKey(topic="orders", subscription=subscription, generation="s1", id=id)
    values: dict[str, Any] = {"start": 7, "reason": "gone", "first_seen_ms": 5000, "next_check_ms": 6000}
    return SetAside(**{"key": key, "plan": plan, "ranges": ((0, 1, 4),), **values, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"filter_policy": '{"a": ["b"]}', "first_ms": 5, "end_ms": 9, "tries": 2, "damage": 1},
        {"next_check_ms": None},
        {"ranges": (), "plan": Plan(topic="orders", first_slot=7, end_slot=9, segments=(), unindexed=(LEDGER,))},
    ],
)
def test_an_item_is_read_as_it_was_put(store: Store, fields: dict[str, Any]) -> None:
    item = an_item(**fields)
    store.set_aside.put(item)
    assert store.set_aside.read(item.key) == item
    assert store.set_aside.all("orders") == [item]
    assert store.set_aside.all("other") == []


def test_an_item_that_is_put_again_stays_as_it_is(store: Store) -> None:
    item = an_item()
    store.set_aside.put(item)
    store.set_aside.put(replace(item, tries=9))
    assert store.set_aside.read(item.key) == item


def test_an_item_is_changed_only_as_it_was_read(store: Store) -> None:
    item = an_item()
    tried, damaged = replace(item, tries=1, next_check_ms=9000), replace(item, tries=1, next_check_ms=None)
    assert not store.set_aside.change(item, tried)
    store.set_aside.put(item)
    assert store.set_aside.change(item, tried)
    assert not store.set_aside.change(item, tried)
    assert not store.set_aside.change(replace(tried, tries=0), damaged)
    assert not store.set_aside.change(replace(tried, next_check_ms=None), damaged)
    assert store.set_aside.change(tried, damaged)
    assert not store.set_aside.change(tried, item)
    assert store.set_aside.read(item.key) == damaged
    assert store.set_aside.change(damaged, tried)
    assert store.set_aside.read(item.key) == tried


def test_suspects_are_checked_and_damaged_items_are_not(store: Store) -> None:
    later, now, never = an_item("b", next_check_ms=7001), an_item("a"), an_item("c", next_check_ms=None)
    for item in (later, now, never):
        store.set_aside.put(item)
    assert store.checks.due(7000).set_aside == [now.key]
    assert store.checks.due(7001).set_aside == [now.key, later.key]


def test_deleted_items_are_gone_and_missing_items_are_ignored(store: Store) -> None:
    item, other = an_item(), an_item(subscription="mail")
    store.set_aside.put(item)
    store.set_aside.put(other)
    store.set_aside.delete([item.key, an_item("z").key])
    assert store.set_aside.all("orders") == [other]
    assert store.set_aside.read(item.key) is None


def test_items_of_several_subscriptions_with_one_time_are_all_due(store: Store) -> None:
    items = [an_item(subscription=name) for name in ("audit", "billing")]
    for item in items:
        store.set_aside.put(item)
    due = store.checks.due(6000).set_aside
    assert sorted(key.subscription for key in due) == ["audit", "billing"]
