"""A topic whose data has a newer layout: it is refused by name, and nothing of it is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import (
    Store,
    a_bucket,
    a_delivery,
    a_message_id,
    a_plan,
    a_state,
    a_subscription,
    some_trash,
)
from tidewheel.errors import UnsupportedLayout
from tidewheel.flows.ports import Commit, NextWork, Topics
from tidewheel.flows.ports.administration import Replay
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import LAYOUT, TopicState

NEWER = LAYOUT + 1
TOMBSTONE = Tombstone(200, a_message_id(), 9_000_000_000)
LATE = a_subscription("late")
DAILY = Recurring(
    topic="orders",
    name="daily",
    generation="r1",
    rule="{}",
    first_ms=200 * 300_000,
    text="x",
    encoding=Encoding.TEXT,
    attributes={},
    expires_in_ms=None,
)


WEEKLY = replace(DAILY, name="weekly")


def an_entry(number: int) -> KeyEntry:
    return KeyEntry(key="k", id=a_message_id(number), sent_ms=number, seq=0, ttl_s=9_000_000_000)


def moved_to_a_newer_layout(store: Store) -> TopicState:
    """Returns a topic state as it was read just before its topic was moved to a newer layout."""
    state = a_state(layout=NEWER, next_check_ms=50)
    assert store.topics.create_topic(state)
    store.topics.restore_subscription(LATE)
    store.topics.restore_recurring(WEEKLY)
    return replace(state, layout=LAYOUT)


READS: dict[str, Callable[[Topics, TopicState], object]] = {
    "state": lambda topics, _: topics.state("orders"),
    "topics": lambda topics, _: topics.topics(),
    "deletion": lambda topics, _: topics.deletion("orders"),
    "seal": lambda topics, seen: topics.seal(seen, 120),
}
CHANGES: dict[str, tuple[Callable[[Topics, TopicState], object], object]] = {
    "commit_bucket": (lambda topics, seen: topics.commit_bucket(seen, a_bucket(150), None), Commit.MOVED),
    "raise_next_slot": (
        lambda topics, seen: topics.raise_next_slot(seen, NextWork(next_slot=130, next_check_ms=7, collect_at_ms=None)),
        False,
    ),
    "raise_gc": (lambda topics, seen: topics.raise_gc(seen, 101), False),
    "set_collect_at": (lambda topics, seen: topics.set_collect_at(seen, 5, 5), False),
    "merge_considered": (lambda topics, seen: topics.merge_considered(seen, 5), False),
    "commit_plan": (lambda topics, seen: topics.commit_plan(seen, a_plan(), 103), False),
    "swap": (lambda topics, seen: topics.swap(seen, [], [], some_trash(100)), False),
    "create_subscription": (lambda topics, seen: topics.create_subscription(seen, a_subscription("new")), False),
    "resume": (lambda topics, seen: topics.resume(seen, LATE), False),
    "put_recurring": (lambda topics, seen: topics.put_recurring(seen, DAILY, None, None), False),
    "delete_recurring": (lambda topics, seen: topics.delete_recurring(seen, WEEKLY), False),
    "set_purges": (lambda topics, seen: topics.set_purges(seen, 9, ()), False),
    "open_replay": (lambda topics, seen: topics.open_replay(seen, a_delivery(LATE)), Replay.COLLECTED),
    "mark_deleting": (lambda topics, seen: topics.mark_deleting(seen, "g2", 9), False),
    "claim_deletion": (lambda topics, seen: topics.claim_deletion(seen, 60), False),
    "forget_topic": (lambda topics, seen: topics.forget_topic(seen), False),
    "cancel_batch": (lambda topics, _: topics.cancel_batch("orders", [TOMBSTONE]), False),
    "cancel": (lambda topics, _: topics.cancel("orders", TOMBSTONE).done, False),
}


@pytest.mark.parametrize("name", READS)
def test_whoever_reads_the_topic_state_of_a_newer_layout_is_told_what_to_do(store: Store, name: str) -> None:
    seen = moved_to_a_newer_layout(store)
    with pytest.raises(
        UnsupportedLayout, match=f"topic 'orders' has layout {NEWER}, .*layouts up to {LAYOUT}; .*upgrade"
    ) as raised:
        READS[name](store.topics, seen)
    assert (raised.value.topic, raised.value.layout, raised.value.reads) == ("orders", NEWER, LAYOUT)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_by_a_topic_state_that_was_read_before_the_move_is_refused(store: Store, name: str) -> None:
    seen = moved_to_a_newer_layout(store)
    change, refused = CHANGES[name]
    assert change(store.topics, seen) == refused
    topics = store.topics
    assert not topics.buckets("orders") and not topics.trash("orders")
    assert topics.subscriptions("orders") == [LATE] and topics.all_recurring("orders") == [WEEKLY]
    assert not topics.plan_ranges("orders") and not topics.all_tombstones("orders")
    assert not topics.open_deliveries("orders")
    assert topics.due_for_look(49).topics == [] and topics.due_for_look(50).topics == ["orders"]


@pytest.mark.parametrize("name", CHANGES)
def test_each_of_these_changes_is_made_where_the_layout_is_this_release_s(store: Store, name: str) -> None:
    change, refused = CHANGES[name]
    deleting: dict[str, Any] = {"deleting_at_ms": 40} if name in ("claim_deletion", "forget_topic") else {}
    state = store.topic(next_check_ms=50, **deleting)
    store.topics.restore_subscription(LATE)
    store.topics.restore_recurring(WEEKLY)
    assert change(store.topics, state) != refused


def test_a_key_is_not_moved_to_a_message_whose_slot_a_newer_layout_may_have_sealed(store: Store) -> None:
    moved_to_a_newer_layout(store)
    assert store.topics.claim_key("orders", an_entry(1)) is None
    assert not store.topics.move_key("orders", an_entry(1), an_entry(2), TOMBSTONE)
    assert store.topics.key("orders", "k") == an_entry(1)


def test_a_setting_of_a_newer_release_stays_when_another_is_changed() -> None:
    newer = TopicSettings().to_json()[:-1] + ', "newer_setting": [1, 2]}'
    changed = TopicSettings(retention_s=60).to_json(keeping=newer)
    assert '"newer_setting": [1, 2]' in changed and TopicSettings.from_json(changed) == TopicSettings(retention_s=60)
    assert "max_waiting" not in TopicSettings().to_json(keeping=TopicSettings(max_waiting=5).to_json())
