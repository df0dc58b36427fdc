"""Topics: what collection raises and deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_fence, a_message_id, some_trash
from tidewheel.model.tombstone import Tombstone


def test_the_collected_mark_rises(store: Store) -> None:
    fence = store.topic(planned=110)
    assert store.topics.raise_gc(fence, 105)
    assert store.current() == replace(fence, gc_until=105)


@pytest.mark.parametrize("to", [99, 100])
def test_the_collected_mark_never_falls(store: Store, to: int) -> None:
    fence = store.topic()
    assert not store.topics.raise_gc(fence, to)
    assert store.current() == fence


@pytest.mark.parametrize("moved", [{"subs_ver": 1}, {"generation": "g2"}])
def test_the_collected_mark_stays_when_a_subscription_came(store: Store, moved: dict[str, Any]) -> None:
    now = store.topic(**moved)
    assert not store.topics.raise_gc(a_fence(), 105)
    assert store.current() == now


@pytest.mark.parametrize(("collect_at_ms", "look_at_ms"), [(8, 7), (None, 7), (None, None)])
@pytest.mark.parametrize("wake_slot", [None, 120])
def test_the_time_of_the_next_collection_is_set(
    store: Store, collect_at_ms: int | None, look_at_ms: int | None, wake_slot: int | None
) -> None:
    fence = store.topic(wake_slot=wake_slot, collect_at_ms=1, look_at_ms=1)
    assert store.topics.set_collect_at(fence, collect_at_ms, look_at_ms)
    assert store.current() == replace(fence, collect_at_ms=collect_at_ms, look_at_ms=look_at_ms)
    assert store.topics.due_for_look(100)[0] == ([] if look_at_ms is None else ["orders"])


@pytest.mark.parametrize(
    ("read", "now"),
    [
        ({"ver": 0}, {"ver": 1}),
        ({"generation": "g1"}, {"generation": "g2"}),
        ({"wake_slot": None}, {"wake_slot": 120}),
        ({"wake_slot": 120}, {"wake_slot": None}),
        ({"wake_slot": 120}, {"wake_slot": 121}),
    ],
)
def test_the_time_of_the_next_collection_is_not_set_on_an_old_sight(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    fence = store.topic(**now)
    assert not store.topics.set_collect_at(a_fence(**read), 8, 8)
    assert store.current() == fence


def test_tombstones_go_when_their_slot_is_collected_and_their_time_has_passed(store: Store) -> None:
    store.topic()
    for number, (slot, ttl_s) in enumerate([(100, 50), (101, 50), (101, 60), (102, 50), (500, 50)]):
        store.topics.put_tombstone("orders", Tombstone(slot, a_message_id(number), ttl_s))
    store.topics.delete_tombstones("orders", 102, 60)
    assert store.topics.tombstones("orders", 0, 1000) == {a_message_id(number) for number in (2, 3, 4)}
    store.topics.delete_tombstones("orders", 102, 61)
    assert store.topics.tombstones("orders", 0, 1000) == {a_message_id(number) for number in (3, 4)}
    store.topics.delete_tombstones("unknown", 102, 61)


def test_trash_is_read_and_deleted_item_by_item(store: Store) -> None:
    store.topic(planned=5)
    trash = [some_trash(sealed, id) for sealed, id in ((5, "x"), (5, "y"), (100, "x"), (1000, "x"))]
    for each in reversed(trash):
        store.put_trash(each)
    assert store.topics.trash("orders") == trash
    store.topics.delete_trash("orders", trash[1])
    store.topics.delete_trash("orders", trash[1])
    assert store.topics.trash("orders") == [trash[0], *trash[2:]]
    assert store.topics.trash("other") == []
