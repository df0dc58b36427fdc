"""Topics: settings and the marks of purges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_bucket, a_state, some_trash
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import Purge

ONE = Purge(first_ms=1, end_ms=2, sent_before_ms=3)
TWO = Purge(first_ms=10, end_ms=20, sent_before_ms=30)


@pytest.mark.parametrize("before", [(), (ONE,), (ONE, TWO)])
@pytest.mark.parametrize("after", [(), (TWO,), (TWO, ONE)])
def test_marks_of_purges_are_written_over_those_that_were_read(
    store: Store, before: tuple[Purge, ...], after: tuple[Purge, ...]
) -> None:
    state = store.topic(purge_ms=5, purges=before)
    assert store.current() == state
    assert store.topics.set_purges(state, 7, after)
    assert store.current() == replace(state, purge_ms=7, purges=after)


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
def test_marks_of_purges_are_not_written_on_an_old_sight(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    state = store.topic(**now)
    assert not store.topics.set_purges(a_state(**read), 9, [TWO])
    assert store.current() == state


def test_marks_of_a_topic_that_is_gone_are_not_written(store: Store) -> None:
    assert not store.topics.set_purges(a_state(), 9, [TWO])
    assert store.topics.state("orders") is None


def test_ledgers_that_are_swapped_for_nothing_wait_no_more(store: Store) -> None:
    store.topic(waiting=100)
    bucket = a_bucket(105)
    store.topics.restore_bucket("orders", bucket)
    assert store.topics.swap(store.current(), [bucket], [], some_trash(100, "x"), 40)
    assert (store.current().waiting, store.current().swap_version) == (60, 1)
    assert store.topics.buckets("orders") == []


def test_other_settings_are_written_over_those_that_were_read(store: Store) -> None:
    state = store.topic()
    changed = TopicSettings(retention_s=60, delay_levels=(1, 5), max_waiting=7)
    assert store.topics.update_settings(state, changed)
    assert store.current() == replace(state, settings=changed)


@pytest.mark.parametrize("now", [{"generation": "g2"}, {"settings": TopicSettings(part_rows=7)}])
def test_settings_are_not_written_on_an_old_sight(store: Store, now: dict[str, Any]) -> None:
    state = store.topic(**now)
    assert not store.topics.update_settings(a_state(), TopicSettings(retention_s=60))
    assert store.current() == state


def test_settings_of_a_topic_that_is_gone_are_not_written(store: Store) -> None:
    assert not store.topics.update_settings(a_state(), TopicSettings(retention_s=60))
    assert store.topics.state("orders") is None
