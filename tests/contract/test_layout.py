"""A topic with a newer layout is refused by name and stays unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from tidewheel.errors import CorruptMetadata, UnsupportedLayout
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import Encoding
from tidewheel.model.recurring import Recurring
from tidewheel.model.subscription_state import PlainReader
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import LAYOUT, TopicState
from tidewheel.storage.buckets import Commit
from tidewheel.storage.deliveries import Replay
from tidewheel.storage.items import decode_topic_state, encode_topic_state
from tidewheel.storage.storage import Storage

NEWER = LAYOUT + 1
TOMBSTONE = Tombstone(200, a_message_id(), 9_000_000_000)
LATE = a_subscription("late", reader="plain")
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
    """Moves a topic to a newer layout. Returns the topic state read just before the move."""
    state = a_state(layout=NEWER, next_check_ms=50, readers=(PlainReader("late", "s1", declared=True),))
    assert store.topic_states.create(state)
    store.subscriptions.restore(LATE)
    store.recurring.restore(WEEKLY)
    return replace(state, layout=LAYOUT)


READS: dict[str, Callable[[Storage, TopicState], object]] = {
    "state": lambda storage, _: storage.topic_states.read("orders"),
    "topics": lambda storage, _: storage.topic_states.of(["orders"]),
    "deletion": lambda storage, _: storage.deletions.read("orders"),
    "seal": lambda storage, seen: storage.topic_states.seal(seen, 120),
}
CHANGES: dict[str, tuple[Callable[[Storage, TopicState], object], object]] = {
    "commit_bucket": (lambda storage, seen: storage.buckets.commit(seen, a_bucket(150), None), Commit.MOVED),
    "raise_collected_until": (lambda storage, seen: storage.topic_states.raise_collected_until(seen, 101), False),
    "set_collect_at": (lambda storage, seen: storage.topic_states.set_collect_at(seen, 5, 5), False),
    "set_view_at": (lambda storage, seen: storage.topic_states.set_view_at(seen, 5), False),
    "merge_considered": (lambda storage, seen: storage.topic_states.merge_considered(seen, 5), False),
    "commit_plan": (lambda storage, seen: storage.plans.commit(seen, a_plan(), 103), False),
    "plan_again": (
        lambda storage, seen: (
            storage.plans.commit(seen, a_plan(), 103) and storage.plans.again(seen, a_plan(), a_plan())
        ),
        False,
    ),
    "swap": (lambda storage, seen: storage.merges.swap(seen, [], [], some_trash(100)), False),
    "create_subscription": (lambda storage, seen: storage.subscriptions.create(seen, a_subscription("new")), False),
    "delete_subscription": (lambda storage, seen: storage.subscriptions.delete(seen, LATE), False),
    "resume": (lambda storage, seen: storage.subscriptions.resume(seen, LATE), False),
    "put_recurring": (lambda storage, seen: storage.recurring.put(seen, DAILY, None, None), False),
    "delete_recurring": (lambda storage, seen: storage.recurring.delete(seen, WEEKLY.name, WEEKLY.generation), False),
    "set_purges": (lambda storage, seen: storage.topic_states.set_purges(seen, 9, ()), False),
    "open_replay": (lambda storage, seen: storage.deliveries.open_replay(seen, a_delivery(LATE)), Replay.COLLECTED),
    "mark_deleting": (lambda storage, seen: storage.deletions.mark(seen, "g2", 9), False),
    "claim_deletion": (lambda storage, seen: storage.deletions.claim(seen, 60), False),
    "forget_topic": (lambda storage, seen: storage.deletions.forget(seen, 10**10), False),
    "cancel_batch": (lambda storage, _: storage.tombstones.cancel_batch("orders", [TOMBSTONE]), False),
    "put_late": (lambda storage, _: storage.tombstones.put_late("orders", TOMBSTONE), False),
    "cancel": (lambda storage, _: storage.tombstones.cancel("orders", TOMBSTONE).done, False),
}


@pytest.mark.parametrize("name", READS)
def test_whoever_reads_the_topic_state_of_a_newer_layout_is_told_what_to_do(store: Store, name: str) -> None:
    seen = moved_to_a_newer_layout(store)
    with pytest.raises(
        UnsupportedLayout, match=f"topic 'orders' has layout {NEWER}, .*layouts up to {LAYOUT}; .*upgrade"
    ) as raised:
        READS[name](store, seen)
    assert (raised.value.topic, raised.value.layout, raised.value.reads) == ("orders", NEWER, LAYOUT)


def test_a_change_by_a_topic_state_that_was_read_before_the_move_is_refused(store: Store) -> None:
    seen = moved_to_a_newer_layout(store)
    for name, (change, refused) in CHANGES.items():
        assert change(store, seen) == refused, name
    assert not store.buckets.all("orders") and not store.merges.trash("orders")
    assert store.subscriptions.all("orders") == [LATE] and store.recurring.all("orders") == [WEEKLY]
    assert not store.plans.ranges("orders") and not store.tombstones.all("orders")
    assert not store.deliveries.all("orders")
    assert store.checks.due(49).topics == [] and store.checks.due(50).topics == ["orders"]


def test_a_key_is_not_moved_to_a_message_whose_slot_a_newer_layout_may_have_sealed(store: Store) -> None:
    moved_to_a_newer_layout(store)
    assert store.keys.claim("orders", an_entry(1)) is None
    assert not store.keys.move("orders", an_entry(1), an_entry(2), TOMBSTONE)
    assert store.keys.read("orders", "k") == an_entry(1)


def test_a_topic_state_without_a_layout_is_damaged() -> None:
    item = encode_topic_state(a_state())
    assert decode_topic_state(item).layout == LAYOUT
    del item["layout"]
    with pytest.raises(CorruptMetadata, match="layout"):
        decode_topic_state(item)
