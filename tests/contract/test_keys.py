"""Tests the port Keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import SLOT_MS, Store, a_message_id
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import IdSource, id_floor, id_text
from tidewheel.model.tombstone import Tombstone
from tidewheel.storage.keys import NotInLedgers


def an_entry(number: int = 1, sent_ms: int = 10, seq: int = 1, key: str = "k", **changes: Any) -> KeyEntry:
    values: dict[str, Any] = {"key": key, "id": a_message_id(number), "sent_ms": sent_ms, "seq": seq, "ttl_s": 99}
    return KeyEntry(**(values | changes))


def a_tombstone(slot: int = 100, number: int = 1, **changes: Any) -> Tombstone:
    return Tombstone(slot, a_message_id(number), 5)._replace(**changes)


def test_a_key_is_claimed_once(store: Store) -> None:
    store.topic()
    assert store.keys.read("orders", "k") is None
    assert store.keys.claim("orders", an_entry(1)) is None
    assert store.keys.claim("orders", an_entry(2)) == an_entry(1)
    assert store.keys.read("orders", "k") == an_entry(1)
    assert store.keys.claim("orders", an_entry(2, key="other")) is None
    assert store.keys.claim("other", an_entry(2)) is None


@pytest.mark.parametrize("key", ["a", "ä" * 256, "\U0001f600" * 256, "a#b/c d", "T#orders", '"quoted"'])
def test_any_text_that_a_sender_may_give_is_a_key_of_its_own(store: Store, key: str) -> None:
    store.topic()
    entry = an_entry(key=key, replace=True, cancelled=True, floor=(7, 8), tail_ms=12_345)
    assert store.keys.claim("orders", entry) is None
    assert store.keys.read("orders", key) == entry
    assert store.keys.read("orders", key[:-1] + "x") is None


def test_a_key_moves_only_from_the_version_that_was_seen(store: Store) -> None:
    store.topic()
    store.keys.claim("orders", an_entry(1))
    newer = an_entry(2, sent_ms=20)
    for stale in (an_entry(3), an_entry(1, seq=2), an_entry(1, sent_ms=9), an_entry(id=None)):
        assert not store.keys.move("orders", stale, newer, None)
        assert not store.keys.move("orders", stale, newer, a_tombstone())
    assert store.keys.move("orders", an_entry(1), newer, a_tombstone(certain=False))
    assert store.keys.read("orders", "k") == newer
    assert store.tombstones.ids("orders", 100, 101) == {a_message_id(1)}


@pytest.mark.parametrize("floor", [(0, 0), (0, 3), (7, 0), (7, 3)])
def test_a_key_moves_only_from_the_floor_that_was_seen(store: Store, floor: tuple[int, int]) -> None:
    store.topic()
    store.keys.claim("orders", an_entry(floor=floor))
    for stale in {(0, 0), (0, 3), (7, 0), (7, 3), (8, 4)} - {floor}:
        assert not store.keys.move("orders", an_entry(floor=stale), an_entry(2), None)
    assert store.keys.move("orders", an_entry(floor=floor), an_entry(2, floor=(8, 4)), None)
    assert store.keys.read("orders", "k") == an_entry(2, floor=(8, 4))


def test_a_key_that_supersedes_for_certain_moves_only_while_the_slot_is_open(store: Store) -> None:
    store.topic()
    store.keys.claim("orders", an_entry(1))
    store.topic_states.seal(store.current(), 102)
    assert not store.keys.move("orders", an_entry(1), an_entry(2), a_tombstone(101))
    assert store.keys.read("orders", "k") == an_entry(1)
    assert store.keys.move("orders", an_entry(1), an_entry(2), a_tombstone(102))
    assert store.tombstones.read("orders", 102, a_message_id(1)) == a_tombstone(102)


def test_an_entry_without_a_message_can_be_moved(store: Store) -> None:
    store.topic()
    cancelled = an_entry(id=None, cancelled=True, floor=(10, 1))
    store.keys.claim("orders", cancelled)
    assert not store.keys.move("orders", an_entry(1), an_entry(2), None)
    assert store.keys.move("orders", cancelled, an_entry(2, floor=(10, 1)), None)
    assert store.keys.read("orders", "k") == an_entry(2, floor=(10, 1))


def test_a_key_does_not_move_over_a_tombstone_that_came_meanwhile(store: Store) -> None:
    store.topic()
    store.keys.claim("orders", an_entry(1))
    moved = a_tombstone(to=a_message_id(9))
    store.tombstones.cancel("orders", moved)
    assert not store.keys.move("orders", an_entry(1), an_entry(2), a_tombstone(certain=False))
    assert store.keys.read("orders", "k") == an_entry(1)
    assert store.tombstones.read("orders", 100, a_message_id(1)) == moved


def test_an_entry_knows_when_its_message_is_due_and_which_of_two_is_newer() -> None:
    entry = an_entry(id=id_text(IdSource().next(100 * SLOT_MS)))
    assert entry.deliver_at_ms == 100 * SLOT_MS
    assert an_entry(id=None).deliver_at_ms == 0
    assert entry.version < replace(entry, seq=2).version < replace(entry, sent_ms=11, seq=0).version


def wanted(now_ms: int = 0, first: int = 0, end: int = 0, most: int = 100) -> NotInLedgers:
    ids = [id_text(id_floor(each)) for each in (first, end)]
    return NotInLedgers(now_ms=now_ms, first_id=ids[0], end_id=ids[1], most=most)
