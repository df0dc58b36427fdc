"""Keys and tombstones: what the port promises, for both implementations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import SLOT_MS, Store, a_message_id
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import IdSource, id_text
from tidewheel.model.tombstone import Tombstone


def a_tombstone(slot: int = 100, number: int = 1, **changes: Any) -> Tombstone:
    return Tombstone(slot, a_message_id(number), 5)._replace(**changes)


def an_entry(number: int = 1, sent_ms: int = 10, seq: int = 1, key: str = "k", **changes: Any) -> KeyEntry:
    values: dict[str, Any] = {"key": key, "id": a_message_id(number), "sent_ms": sent_ms, "seq": seq, "ttl_s": 99}
    return KeyEntry(**(values | changes))


# ---- tombstones
def test_tombstones_are_read_by_the_slots_asked_for(store: Store) -> None:
    store.topic()
    for slot in (100, 101, 102, 103, 999, 1000):
        assert store.topics.cancel("orders", a_tombstone(slot, slot)).done
    assert store.topics.tombstones("orders", 100, 103) == {a_message_id(slot) for slot in (100, 101, 102)}
    assert store.topics.tombstones("orders", 0, 10**9) == {a_message_id(s) for s in (100, 101, 102, 103, 999, 1000)}
    assert store.topics.tombstones("orders", 101, 101) == frozenset()
    assert store.topics.tombstones("order", 0, 10**9) == frozenset()


def test_a_second_cancel_finds_the_first_ones_tombstone_even_after_the_seal(store: Store) -> None:
    store.topic()
    assert store.topics.cancel("orders", a_tombstone()).done
    store.topics.seal(store.current(), 102)
    again = store.topics.cancel("orders", a_tombstone(ttl_s=6))
    assert not again.done
    assert again.found == a_tombstone()


def test_a_cancel_is_too_late_once_its_slot_is_sealed(store: Store) -> None:
    store.topic()
    store.topics.seal(store.current(), 102)
    late = store.topics.cancel("orders", a_tombstone(101))
    assert (late.done, late.found) == (False, None)
    assert store.topics.cancel("orders", a_tombstone(102, 2)).done
    assert not store.topics.cancel("unknown", a_tombstone(102, 2)).done
    assert store.topics.tombstones("orders", 0, 10**9) == {a_message_id(2)}


def test_a_tombstone_that_is_not_certain_becomes_so_only_before_the_seal(store: Store) -> None:
    store.topic()
    for number in (1, 2):
        store.topics.put_tombstone("orders", a_tombstone(100, number, certain=False))
    assert store.topics.cancel("orders", a_tombstone(100, 1)).done
    store.topics.seal(store.current(), 102)
    late = store.topics.cancel("orders", a_tombstone(100, 2))
    assert (late.done, late.found) == (False, None)
    assert store.topics.tombstone("orders", 100, a_message_id(1)) == a_tombstone(100, 1)
    assert store.topics.tombstone("orders", 100, a_message_id(2)) == a_tombstone(100, 2, certain=False)


def test_a_tombstone_that_names_a_successor_is_never_written_over(store: Store) -> None:
    store.topic()
    moved = a_tombstone(to=a_message_id(9))
    assert store.topics.cancel("orders", moved).done
    store.topics.put_tombstone("orders", a_tombstone(certain=False))
    assert store.topics.cancel("orders", a_tombstone()).found == moved
    assert not store.topics.cancel_batch("orders", [a_tombstone()])
    assert store.topics.tombstone("orders", 100, a_message_id(1)) == moved


def test_a_message_that_is_cancelled_or_superseded_cannot_be_moved(store: Store) -> None:
    store.topic()
    store.topics.put_tombstone("orders", a_tombstone(certain=False))
    outcome = store.topics.cancel("orders", a_tombstone(to=a_message_id(9)))
    assert (outcome.done, outcome.found) == (False, a_tombstone(certain=False))


def test_a_batch_is_cancelled_as_a_whole_or_not_at_all(store: Store) -> None:
    store.topic()
    assert store.topics.cancel_batch("orders", [a_tombstone(100 + i, i) for i in range(90)])
    assert len(store.topics.all_tombstones("orders")) == 90
    store.topics.seal(store.current(), 102)
    assert not store.topics.cancel_batch("orders", [a_tombstone(101, 500), a_tombstone(300, 501)])
    assert len(store.topics.all_tombstones("orders")) == 90


def test_all_that_a_tombstone_says_comes_back(store: Store) -> None:
    store.topic()
    written = [a_tombstone(100, 1), a_tombstone(100, 2, to=a_message_id(7)), a_tombstone(101, 3, certain=False)]
    for each in written:
        store.topics.restore_tombstone("orders", each)
    assert sorted(store.topics.all_tombstones("orders"), key=lambda t: t[:2]) == sorted(written, key=lambda t: t[:2])


# ---- keys
def test_a_key_is_claimed_once(store: Store) -> None:
    store.topic()
    assert store.topics.key("orders", "k") is None
    assert store.topics.claim_key("orders", an_entry(1)) is None
    assert store.topics.claim_key("orders", an_entry(2)) == an_entry(1)
    assert store.topics.key("orders", "k") == an_entry(1)
    assert store.topics.claim_key("orders", an_entry(2, key="other")) is None
    assert store.topics.claim_key("other", an_entry(2)) is None


@pytest.mark.parametrize("key", ["a", "ä" * 256, "\U0001f600" * 256, "a#b/c d", "T#orders", '"quoted"'])
def test_any_text_that_a_sender_may_give_is_a_key_of_its_own(store: Store, key: str) -> None:
    store.topic()
    entry = an_entry(key=key, replace=True, cancelled=True, floor=(7, 8), tail_ms=12_345)
    assert store.topics.claim_key("orders", entry) is None
    assert store.topics.key("orders", key) == entry
    assert store.topics.key("orders", key[:-1] + "x") is None


def test_a_key_moves_only_from_the_version_that_was_seen(store: Store) -> None:
    store.topic()
    store.topics.claim_key("orders", an_entry(1))
    newer = an_entry(2, sent_ms=20)
    for stale in (an_entry(3), an_entry(1, seq=2), an_entry(1, sent_ms=9), an_entry(id=None)):
        assert not store.topics.move_key("orders", stale, newer, None)
        assert not store.topics.move_key("orders", stale, newer, a_tombstone())
    assert store.topics.move_key("orders", an_entry(1), newer, a_tombstone(certain=False))
    assert store.topics.key("orders", "k") == newer
    assert store.topics.tombstones("orders", 100, 101) == {a_message_id(1)}


def test_a_key_that_supersedes_for_certain_moves_only_while_the_slot_is_open(store: Store) -> None:
    store.topic()
    store.topics.claim_key("orders", an_entry(1))
    store.topics.seal(store.current(), 102)
    assert not store.topics.move_key("orders", an_entry(1), an_entry(2), a_tombstone(101))
    assert store.topics.key("orders", "k") == an_entry(1)
    assert store.topics.move_key("orders", an_entry(1), an_entry(2), a_tombstone(102))
    assert store.topics.tombstone("orders", 102, a_message_id(1)) == a_tombstone(102)


def test_an_entry_without_a_message_can_be_moved(store: Store) -> None:
    store.topic()
    cancelled = an_entry(id=None, cancelled=True, floor=(10, 1))
    store.topics.claim_key("orders", cancelled)
    assert not store.topics.move_key("orders", an_entry(1), an_entry(2), None)
    assert store.topics.move_key("orders", cancelled, an_entry(2, floor=(10, 1)), None)
    assert store.topics.key("orders", "k") == an_entry(2, floor=(10, 1))


def test_a_key_does_not_move_over_a_tombstone_that_came_meanwhile(store: Store) -> None:
    store.topic()
    store.topics.claim_key("orders", an_entry(1))
    moved = a_tombstone(to=a_message_id(9))
    store.topics.cancel("orders", moved)
    assert not store.topics.move_key("orders", an_entry(1), an_entry(2), a_tombstone(certain=False))
    assert store.topics.key("orders", "k") == an_entry(1)
    assert store.topics.tombstone("orders", 100, a_message_id(1)) == moved


def test_an_entry_knows_when_its_message_is_due_and_which_of_two_is_newer() -> None:
    entry = an_entry(id=id_text(IdSource().next(100 * SLOT_MS)))
    assert entry.deliver_at_ms == 100 * SLOT_MS
    assert an_entry(id=None).deliver_at_ms == 0
    assert entry.version < replace(entry, seq=2).version < replace(entry, sent_ms=11, seq=0).version
