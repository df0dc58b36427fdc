"""Tests the port Deletions, which marks, hides and deletes a topic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.contract.aws_resources import make_table
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
from tidewheel.memory import MemoryObjects
from tidewheel.model.key import KeyEntry
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import ALL_SEALED, TopicState
from tidewheel.storage import table_keys
from tidewheel.storage.buckets import Commit
from tidewheel.storage.deliveries import Replay
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table
from tidewheel.storage.topic_states import MAX_DELETED_ITEMS

TTL_S = 10**10


def marked(store: Store, **marks: Any) -> TopicState:
    """Marks a new topic for deletion. Returns the mark."""
    state = store.topic(**marks)
    assert store.deletions.mark(state, "g2", 5000)
    found = store.deletions.read("orders")
    assert found is not None
    return found


def fill(store: Store, topic: str = "orders") -> None:
    """Puts items of every kind."""
    state = store.topic_states.read(topic)
    assert state is not None
    for number in range(3):
        name = f"s{number}"
        store.subscriptions.restore(replace(a_subscription(name), topic=topic))
        store.buckets.restore(topic, a_bucket(105 + number, id=f"b{number}"))
        store.tombstones.restore(topic, Tombstone(105 + number, a_message_id(number), 10**10))
        entry = KeyEntry(key=f"k{number}", id=a_message_id(number), sent_ms=1, seq=0, ttl_s=10**10)
        assert store.keys.claim(topic, entry) is None
    assert store.plans.commit(state, replace(a_plan(100, 101), topic=topic), 101)
    assert store.merges.swap(state, [], [], some_trash(101, "x"))
    assert store.merges.lease(topic, 0, 10)
    assert store.buckets.commit(state, a_bucket(110, id="imported"), None, once="i#1") is Commit.COMMITTED


def test_a_topic_that_is_being_deleted_is_hidden_and_its_mark_is_not(store: Store) -> None:
    state = store.topic(next_check_ms=9000, next_slot=110)
    assert store.deletions.read("orders") is None
    assert store.deletions.mark(state, "g2", 5000)
    assert store.topic_states.read("orders") is None and store.topic_states.of(["orders"]) == []
    assert store.deletions.read("orders") == replace(
        state, generation="g2", sealed=ALL_SEALED, deleting_at_ms=5000, next_check_ms=5000
    )
    assert store.checks.due(5000).topics == ["orders"]
    assert not store.topic_states.create(a_state(generation="g3"))


def test_only_the_topic_that_was_read_is_marked(store: Store) -> None:
    state = store.topic(generation="g2")
    assert not store.deletions.mark(a_state(), "g3", 5000)
    assert store.current() == state
    assert store.deletions.read("unknown") is None
    assert not store.deletions.mark(a_state("unknown"), "g3", 5000)


def test_whatever_is_conditional_on_the_topic_is_refused_once_it_is_marked(store: Store) -> None:
    state = store.topic(next_slot=90)
    [subscription] = store.subscribed()
    state = store.current()
    assert store.deletions.mark(state, "g2", 5000)
    storage = store
    assert storage.topic_states.seal(state, 105) is None
    assert storage.buckets.commit(state, a_bucket(105), None) is Commit.MOVED
    assert not storage.plans.commit(state, a_plan(), 103)
    assert not storage.subscriptions.create(state, a_subscription("audit"))
    assert not storage.merges.swap(state, [], [], some_trash(10**6, "x"))
    assert not storage.topic_states.raise_collected_until(state, 200)
    assert not storage.topic_states.set_purges(state, 1, [])
    assert not storage.topic_states.update_settings(state, TopicSettings(part_rows=7), 0)
    assert not storage.topic_states.set_collect_at(state, 1, 1)
    assert not storage.tombstones.put_late("orders", Tombstone(110, a_message_id(), 10**10))
    assert not storage.subscriptions.resume(state, subscription)
    assert not storage.tombstones.cancel("orders", Tombstone(10**6, a_message_id(), 10**10)).done
    assert not storage.tombstones.cancel_batch("orders", [Tombstone(10**6, a_message_id(), 10**10)])
    assert storage.deliveries.open_replay(state, a_delivery(subscription, plan=200)) is Replay.COLLECTED


def test_one_sweep_claims_a_deletion_at_a_time(store: Store) -> None:
    seen = marked(store)
    assert store.deletions.claim(seen, 9000)
    assert store.deletions.read("orders") == replace(seen, next_check_ms=9000)
    assert not store.deletions.claim(seen, 9001)
    assert not store.deletions.claim(replace(seen, generation="g9", next_check_ms=9000), 9001)
    assert store.checks.due(8999).topics == []
    assert store.deletions.claim(replace(seen, next_check_ms=9000), 6000)


def test_a_deleted_topic_is_forgotten_only_by_who_has_read_its_mark(store: Store) -> None:
    seen = marked(store)
    assert not store.deletions.forget(replace(seen, generation="g1"), TTL_S)
    assert store.deletions.read("orders") == seen
    assert store.deletions.forget(seen, TTL_S)
    assert store.deletions.read("orders") is None
    assert store.topic_states.create(a_state(generation="g3"))
    assert not store.deletions.forget(seen, TTL_S)
    assert store.current().generation == "g3"


def test_when_a_topic_was_deleted_is_known_also_of_its_successor_and_of_no_other(store: Store) -> None:
    assert store.deletions.forget(marked(store), TTL_S)
    assert store.topic_states.create(a_state(generation="g3"))
    assert store.deletions.deleted_at_ms("orders") == 5000
    assert store.deletions.deleted_at_ms("order") == store.deletions.deleted_at_ms("orders-2") == 0


def test_no_item_of_the_topic_is_left_none_of_another_goes_and_a_call_deletes_a_bounded_number(dynamodb: Any) -> None:
    table = make_table(dynamodb)
    storage = Storage(Table(dynamodb, table), MemoryObjects())
    store = Store(storage, object_names=None)

    def items() -> tuple[list[Any], list[Any]]:
        """Returns the items of the topic, and of the others."""
        own, others = list[Any](), list[Any]()
        for each in dynamodb.scan(TableName=table)["Items"]:
            (own if each["pk"]["S"] in table_keys.partitions("orders") else others).append(each)
        return own, others

    for name in ("order", "orders-2", "orders"):
        store.topic(topic=name)
        fill(store, name)
    for number in range(MAX_DELETED_ITEMS):
        storage.tombstones.restore("orders", Tombstone(10**6, a_message_id(number), 10**10))
    own, others = items()
    assert storage.deletions.mark(store.current(), "g2", 5000)
    assert not storage.deletions.delete_items("orders")
    left, _ = items()
    assert len(left) == len(own) - MAX_DELETED_ITEMS
    assert not [each for each in left if each["sk"]["S"].startswith(table_keys.SUBSCRIPTIONS)]
    assert not storage.deletions.delete_items("orders")
    assert storage.deletions.delete_items("orders") and storage.deletions.delete_items("unknown")
    [state], rest = items()
    assert (state["sk"]["S"], rest) == (table_keys.STATE, others)
    seen = storage.deletions.read("orders")
    assert seen is not None and storage.deletions.forget(seen, TTL_S)
    [note], rest = items()
    assert (note["ttl"], rest) == ({"N": str(TTL_S)}, others)
