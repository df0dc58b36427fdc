"""Tests the port Notes."""

from __future__ import annotations

from tests.contract.builders import Store
from tidewheel.storage.items import Note


def test_a_note_is_the_last_that_was_put(store: Store) -> None:
    store.topic()
    assert store.notes.read("orders", "m1") is None
    for slot in (0, 105, 107):
        store.notes.put("orders", "m1", slot, 99)
        assert store.notes.read("orders", "m1") == Note(slot)
    assert store.notes.read("orders", "m2") is None
    assert store.notes.read("orders-2", "m1") is None


def test_a_note_keeps_the_messages_that_wait_until_it_is_put_without_them(store: Store) -> None:
    store.topic()
    waiting = frozenset({bytes(range(16)), b"\xff" * 16})
    store.notes.put("orders", "m1", 105, 99, waiting)
    assert store.notes.read("orders", "m1") == Note(105, waiting)
    store.notes.put("orders", "m1", 106, 99)
    assert store.notes.read("orders", "m1") == Note(106)


def test_the_notes_go_with_their_topic(store: Store) -> None:
    store.topic()
    store.notes.put("orders", "m1", 105, 99)
    state = store.current()
    assert store.deletions.mark(state, "g2", 5)
    while not store.deletions.delete_items("orders"):
        pass
    assert store.notes.read("orders", "m1") is None
