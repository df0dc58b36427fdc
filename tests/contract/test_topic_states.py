"""Tests the port TopicStates, with marks, settings and purges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_state, raise_next_slot, some_trash
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import NextWork, Purge

LOW = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


OLD_READS = pytest.mark.parametrize(
    ("read", "now"),
    [
        ({"work_version": 0}, {"work_version": 1}),
        ({"generation": "g1"}, {"generation": "g2"}),
        ({"next_slot": None}, {"next_slot": 120}),
        ({"next_slot": 120}, {"next_slot": None}),
        ({"next_slot": 120}, {"next_slot": 121}),
        ({"next_check_ms": None}, {"next_check_ms": 500}),
        ({"next_check_ms": 500}, {"next_check_ms": None}),
        ({"next_check_ms": 500}, {"next_check_ms": 501}),
        ({"view_at_ms": None}, {"view_at_ms": 500}),
        ({"view_at_ms": 500}, {"view_at_ms": 501}),
    ],
)
"""Of a write that is refused: the topic state as read, and as it is now."""
ONE = Purge(first_ms=1, end_ms=2, sent_before_ms=3)
TWO = Purge(first_ms=10, end_ms=20, sent_before_ms=30)


def test_a_topic_that_was_created_again_is_not_sealed_for_its_predecessor(store: Store) -> None:
    state = store.topic()
    assert store.topic_states.seal(replace(state, generation="g0"), 104) is None
    assert store.current() == state


@pytest.mark.parametrize("slot", [99, 100])
def test_sealing_never_lowers_sealed_and_still_returns_the_topic_state(store: Store, slot: int) -> None:
    state = store.topic()
    assert store.topic_states.seal(store.current(), slot) == state
    assert store.current() == state


@pytest.mark.parametrize("moved", [{"work_version": 1}, {"swap_version": 1}, {"generation": "g2"}])
def test_raising_the_next_slot_is_refused_when_a_version_moved(store: Store, moved: dict[str, Any]) -> None:
    now = store.topic(next_slot=100, **moved)
    assert not raise_next_slot(store, a_state(next_slot=100), NextWork(next_slot=9, next_check_ms=1, collect_at_ms=1))
    assert store.current() == now


@pytest.mark.parametrize("to", [99, 100])
def test_the_collected_mark_never_falls(store: Store, to: int) -> None:
    state = store.topic()
    assert not store.topic_states.raise_collected_until(state, to)
    assert store.current() == state


@pytest.mark.parametrize("moved", [{"subscriptions_version": 1}, {"generation": "g2"}])
def test_the_collected_mark_stays_when_a_subscription_came(store: Store, moved: dict[str, Any]) -> None:
    now = store.topic(**moved)
    assert not store.topic_states.raise_collected_until(a_state(), 105)
    assert store.current() == now


@OLD_READS
def test_the_time_of_the_next_collection_is_not_set_on_an_old_read(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    state = store.topic(**now)
    assert not store.topic_states.set_collect_at(a_state(**read), 8, 8)
    assert store.current() == state


def test_a_swap_since_the_topic_state_was_read_does_not_matter_to_the_note(store: Store) -> None:
    state = store.topic(work_version=1)
    store.put_trash(some_trash(100))
    assert store.topic_states.merge_considered(state, None)
    assert store.current().merge_considered_version == 1


@OLD_READS
def test_a_merge_that_was_considered_on_an_old_read_is_not_noted(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    due = {"merge_at_ms": 3, "next_check_ms": 3}
    state = store.topic(**due | now)
    assert not store.topic_states.merge_considered(a_state(**due | read), 8)
    assert store.current() == state


@pytest.mark.parametrize(
    ("read", "now"),
    [
        ({"generation": "g1"}, {"generation": "g2"}),
        ({"purge_ms": 5}, {"purge_ms": 6}),
        ({}, {"purges": (ONE,)}),
        ({"purges": (ONE,)}, {}),
        ({"purges": (ONE,)}, {"purges": (TWO,)}),
        ({"purges": (ONE,)}, {"purges": (ONE, TWO)}),
    ],
)
def test_marks_of_purges_are_not_written_on_an_old_read(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    state = store.topic(**now)
    assert not store.topic_states.set_purges(a_state(**read), 9, [TWO])
    assert store.current() == state


@pytest.mark.parametrize("now", [{"generation": "g2"}, {"settings": TopicSettings(part_rows=7)}])
def test_settings_are_not_written_on_an_old_read(store: Store, now: dict[str, Any]) -> None:
    state = store.topic(**now)
    assert not store.topic_states.update_settings(a_state(), TopicSettings(retention_days=60), 0)
    assert store.current() == state


@pytest.mark.parametrize("live_view", [0, 1])
def test_a_live_view_that_is_to_begin_or_end_is_looked_at_at_once(store: Store, live_view: int) -> None:
    state = store.topic(settings=TopicSettings(live_view=1 - live_view), next_check_ms=9000)
    changed = TopicSettings(live_view=live_view)
    assert store.topic_states.update_settings(state, changed, 7000)
    assert store.current() == replace(state, settings=changed, view_at_ms=7000, next_check_ms=7000)


@OLD_READS
def test_the_time_of_the_next_live_view_is_not_set_on_an_old_read(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    state = store.topic(**now)
    assert not store.topic_states.set_view_at(a_state(**read), 8)
    assert store.current() == state
