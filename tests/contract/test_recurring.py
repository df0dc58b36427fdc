"""Tests recurring messages and their count in the topic state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.builders import SLOT_MS, Store, a_state, raise_next_slot
from tidewheel.model.message import Encoding
from tidewheel.model.recurring import Recurring
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.storage.topic_states import AT_ONCE_MS


def a_recurring(name: str = "tick", generation: str = "r1", first_slot: int = 105) -> Recurring:
    """A recurring message, planned from a slot on."""
    return Recurring(
        topic="orders",
        name=name,
        generation=generation,
        rule='{"every":60}',
        first_ms=first_slot * SLOT_MS,
        text="tick",
        encoding=Encoding.TEXT,
        attributes={"kind": "a"},
        expires_in_ms=7,
        group="tenant-7",
        window_ms=1500,
    )


def lowered(store: Store, next_slot: int) -> TopicState:
    """Puts the next slot at a slot, and returns the topic state."""
    assert raise_next_slot(store, store.current(), NextWork(next_slot=next_slot, next_check_ms=9, collect_at_ms=None))
    return store.current()


def test_a_recurring_message_is_read_as_it_was_put_and_the_sweep_checks_at_once(store: Store) -> None:
    state = store.topic()

    assert store.recurring.put(state, a_recurring(), None, 105)

    assert store.recurring.read("orders", "tick") == a_recurring()
    assert store.current() == replace(state, work_version=1, recurring=1, next_slot=105, next_check_ms=AT_ONCE_MS)


@pytest.mark.parametrize(("sealed", "done"), [(104, True), (105, True), (106, False)])
def test_a_recurring_message_is_refused_when_its_first_slot_was_sealed(store: Store, sealed: int, done: bool) -> None:
    state = store.topic()
    assert store.topic_states.seal(state, sealed)

    assert store.recurring.put(state, a_recurring(first_slot=105), None, 105) is done

    assert (store.recurring.read("orders", "tick") is not None) is done
    assert store.current().recurring == done


@pytest.mark.parametrize(("read", "now"), [(103, 104), (103, None), (None, 103)])
def test_a_recurring_message_is_refused_when_the_next_slot_moved(
    store: Store, read: int | None, now: int | None
) -> None:
    store.topic()
    seen = store.current() if read is None else lowered(store, read)
    next_work = NextWork(next_slot=now, next_check_ms=9, collect_at_ms=None)
    assert raise_next_slot(store, store.current(), next_work)

    assert not store.recurring.put(seen, a_recurring(), None, None)

    assert store.recurring.all("orders") == []


def test_a_recurring_message_is_put_once_by_those_who_saw_none(store: Store) -> None:
    state = store.topic()
    assert store.recurring.put(state, a_recurring(), None, None)

    assert not store.recurring.put(state, a_recurring(generation="r2"), None, None)

    assert store.recurring.read("orders", "tick") == a_recurring()
    assert store.current().recurring == 1


def test_a_recurring_message_is_replaced_only_by_those_who_saw_it(store: Store) -> None:
    state = store.topic()
    first, second = a_recurring(), a_recurring(generation="r2")
    assert store.recurring.put(state, first, None, None)

    assert not store.recurring.put(state, second, a_recurring(generation="r9"), None)
    assert store.recurring.read("orders", "tick") == first
    assert store.recurring.put(state, second, first, None)
    assert store.recurring.read("orders", "tick") == second
    assert store.current().recurring == 1


def test_a_recurring_message_of_an_older_topic_of_the_same_name_is_refused(store: Store) -> None:
    store.topic(generation="g2")

    assert not store.recurring.put(a_state(), a_recurring(), None, None)

    assert store.recurring.all("orders") == []


def test_the_successor_of_a_recurring_message_is_not_ended_in_its_stead(store: Store) -> None:
    state = store.topic()
    assert store.recurring.put(state, a_recurring(generation="r2"), None, None)

    assert not store.recurring.delete(state, "tick", "r1")
    assert not store.recurring.delete(a_state(generation="g9"), "tick", "r2")

    assert store.current().recurring == 1


def test_an_end_knows_what_is_planned_and_refuses_each_plan_that_was_begun_before(store: Store) -> None:
    state = store.topic()
    assert store.recurring.put(state, a_recurring(), None, None)
    before = store.current()
    assert store.plans.commit(before, None, before.planned + 1)
    begun = store.current()

    assert not store.recurring.delete(before, "tick", "r1")
    assert store.recurring.delete(begun, "tick", "r1")

    assert not store.plans.commit(begun, None, begun.planned + 1)
    assert store.plans.commit(store.current(), None, begun.planned + 1)


def test_a_recurring_message_that_cannot_be_read_is_ended_whatever_its_generation(store: Store) -> None:
    state = store.topic()
    assert store.recurring.put(state, a_recurring(), None, None)
    assert not store.recurring.delete(state, "none", None)
    assert store.recurring.delete(state, "tick", None)
    assert store.recurring.read("orders", "tick") is None
    assert store.current().recurring == 0


def test_the_first_slot_that_a_recurring_message_missed_is_kept(store: Store) -> None:
    store.recurring.put(store.topic(), a_recurring(), None, 105)
    for slot in (107, 106, 109):
        store.recurring.note_missed("orders", "tick", slot)
    store.recurring.note_missed("orders", "none", 107)
    assert store.recurring.read("orders", "tick") == replace(a_recurring(), missed_slot=107)
    assert store.recurring.read("orders", "none") is None
