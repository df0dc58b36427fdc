"""Topics: what collection raises and deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_message_id, a_state, some_trash
from tidewheel.model.tombstone import Tombstone


def test_the_collected_mark_rises(store: Store) -> None:
    state = store.topic(planned=110)
    assert store.topics.raise_gc(state, 105)
    assert store.current() == replace(state, collected_until=105)


@pytest.mark.parametrize("to", [99, 100])
def test_the_collected_mark_never_falls(store: Store, to: int) -> None:
    state = store.topic()
    assert not store.topics.raise_gc(state, to)
    assert store.current() == state


@pytest.mark.parametrize("moved", [{"subscriptions_version": 1}, {"generation": "g2"}])
def test_the_collected_mark_stays_when_a_subscription_came(store: Store, moved: dict[str, Any]) -> None:
    now = store.topic(**moved)
    assert not store.topics.raise_gc(a_state(), 105)
    assert store.current() == now


@pytest.mark.parametrize(("collect_at_ms", "next_check_ms"), [(8, 7), (None, 7), (None, None)])
@pytest.mark.parametrize("next_slot", [None, 120])
def test_the_time_of_the_next_collection_is_set(
    store: Store, collect_at_ms: int | None, next_check_ms: int | None, next_slot: int | None
) -> None:
    state = store.topic(next_slot=next_slot, collect_at_ms=1, next_check_ms=1)
    assert store.topics.set_collect_at(state, collect_at_ms, next_check_ms)
    assert store.current() == replace(state, collect_at_ms=collect_at_ms, next_check_ms=next_check_ms)
    assert store.topics.due_for_look(100)[0] == ([] if next_check_ms is None else ["orders"])


@pytest.mark.parametrize(
    ("read", "now"),
    [
        ({"work_version": 0}, {"work_version": 1}),
        ({"generation": "g1"}, {"generation": "g2"}),
        ({"next_slot": None}, {"next_slot": 120}),
        ({"next_slot": 120}, {"next_slot": None}),
        ({"next_slot": 120}, {"next_slot": 121}),
    ],
)
def test_the_time_of_the_next_collection_is_not_set_on_an_old_sight(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    state = store.topic(**now)
    assert not store.topics.set_collect_at(a_state(**read), 8, 8)
    assert store.current() == state


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
