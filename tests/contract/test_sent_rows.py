"""The port SentRows: how far the rows of a pack were sent."""

from __future__ import annotations

from tests.contract.builders import Store


def test_the_progress_of_a_pack_is_the_last_that_was_put(store: Store) -> None:
    store.topic()
    assert store.sent_rows.read("orders", "m1") is None
    for slot in (0, 105, 107):
        store.sent_rows.put("orders", "m1", slot, 99)
        assert store.sent_rows.read("orders", "m1") == slot
    assert store.sent_rows.read("orders", "m2") is None
    assert store.sent_rows.read("orders-2", "m1") is None


def test_the_progress_of_packs_goes_with_its_topic(store: Store) -> None:
    store.topic()
    store.sent_rows.put("orders", "m1", 105, 99)
    state = store.current()
    assert store.deletions.mark(state, "g2", 5)
    while not store.deletions.delete_items("orders"):
        pass
    assert store.sent_rows.read("orders", "m1") is None
