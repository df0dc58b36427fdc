"""Tests the port Tombstones, and the cancels behind the tombstones."""

from __future__ import annotations

from typing import Any

from tests.contract.builders import Store, a_message_id
from tidewheel.model.tombstone import Tombstone


def tombstones(*slots: int) -> list[Tombstone]:
    return [Tombstone(slot, a_message_id(number), 50 + number) for number, slot in enumerate(slots)]


def a_tombstone(slot: int = 100, number: int = 1, **changes: Any) -> Tombstone:
    return Tombstone(slot, a_message_id(number), 5)._replace(**changes)


def test_tombstones_are_read_by_the_slots_asked_for(store: Store) -> None:
    store.topic()
    for slot in (100, 101, 102, 103, 999, 1000):
        assert store.tombstones.cancel("orders", a_tombstone(slot, slot)).done
    assert store.tombstones.ids("orders", 100, 103) == {a_message_id(slot) for slot in (100, 101, 102)}
    assert store.tombstones.ids("orders", 0, 10**9) == {a_message_id(s) for s in (100, 101, 102, 103, 999, 1000)}
    assert store.tombstones.ids("orders", 101, 101) == frozenset()
    assert store.tombstones.ids("order", 0, 10**9) == frozenset()


def test_a_second_cancel_finds_the_first_ones_tombstone_even_after_the_seal(store: Store) -> None:
    store.topic()
    assert store.tombstones.cancel("orders", a_tombstone()).done
    store.topic_states.seal(store.current(), 102)
    again = store.tombstones.cancel("orders", a_tombstone(ttl_s=6))
    assert not again.done
    assert again.found == a_tombstone()


def test_a_cancel_is_too_late_once_its_slot_is_sealed(store: Store) -> None:
    store.topic()
    store.topic_states.seal(store.current(), 102)
    late = store.tombstones.cancel("orders", a_tombstone(101))
    assert (late.done, late.found) == (False, None)
    assert store.tombstones.cancel("orders", a_tombstone(102, 2)).done
    assert not store.tombstones.cancel("unknown", a_tombstone(102, 2)).done
    assert store.tombstones.ids("orders", 0, 10**9) == {a_message_id(2)}


def test_a_tombstone_that_is_not_certain_becomes_so_only_before_the_seal(store: Store) -> None:
    store.topic()
    for number in (1, 2):
        store.tombstones.put("orders", a_tombstone(100, number, certain=False))
    assert store.tombstones.cancel("orders", a_tombstone(100, 1)).done
    store.topic_states.seal(store.current(), 102)
    late = store.tombstones.cancel("orders", a_tombstone(100, 2))
    assert (late.done, late.found) == (False, None)
    assert store.tombstones.read("orders", 100, a_message_id(1)) == a_tombstone(100, 1)
    assert store.tombstones.read("orders", 100, a_message_id(2)) == a_tombstone(100, 2, certain=False)


def test_a_tombstone_that_names_a_successor_is_never_written_over(store: Store) -> None:
    store.topic()
    moved = a_tombstone(to=a_message_id(9))
    assert store.tombstones.cancel("orders", moved).done
    store.tombstones.put("orders", a_tombstone(certain=False))
    assert store.tombstones.cancel("orders", a_tombstone()).found == moved
    assert not store.tombstones.cancel_batch("orders", [a_tombstone()])
    assert store.tombstones.read("orders", 100, a_message_id(1)) == moved


def test_a_message_that_is_cancelled_or_superseded_cannot_be_moved(store: Store) -> None:
    store.topic()
    store.tombstones.put("orders", a_tombstone(certain=False))
    outcome = store.tombstones.cancel("orders", a_tombstone(to=a_message_id(9)))
    assert (outcome.done, outcome.found) == (False, a_tombstone(certain=False))


def test_a_batch_is_cancelled_as_a_whole_or_not_at_all(store: Store) -> None:
    store.topic()
    assert store.tombstones.cancel_batch("orders", [a_tombstone(100 + i, i) for i in range(12)])
    assert len(store.tombstones.all("orders")) == 12
    store.topic_states.seal(store.current(), 102)
    assert not store.tombstones.cancel_batch("orders", [a_tombstone(101, 500), a_tombstone(300, 501)])
    assert len(store.tombstones.all("orders")) == 12
