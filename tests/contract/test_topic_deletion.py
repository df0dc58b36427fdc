"""Topics: what deletion marks, hides and deletes."""

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
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_administration import MAX_DELETED_ITEMS
from tidewheel.aws.dynamodb_topics import DynamoTopics
from tidewheel.flows.ports import Commit
from tidewheel.flows.ports.administration import Replay
from tidewheel.memory import MemoryObjects
from tidewheel.model.key import KeyEntry
from tidewheel.model.settings import TopicSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import ALL_SEALED, TopicState


def marked(store: Store, **marks: Any) -> TopicState:
    """Marks a new topic as one that is being deleted; returns the mark."""
    state = store.topic(**marks)
    assert store.topics.mark_deleting(state, "g2", 5000)
    found = store.topics.deletion("orders")
    assert found is not None
    return found


def fill(store: Store, topic: str = "orders") -> None:
    """Puts something of everything."""
    state = store.topics.state(topic)
    assert state is not None
    for number in range(3):
        name = f"s{number}"
        store.topics.restore_subscription(replace(a_subscription(name), topic=topic))
        store.topics.restore_bucket(topic, a_bucket(105 + number, id=f"b{number}"))
        store.topics.restore_tombstone(topic, Tombstone(105 + number, a_message_id(number), 10**10))
        entry = KeyEntry(key=f"k{number}", id=a_message_id(number), sent_ms=1, seq=0, ttl_s=10**10)
        assert store.topics.claim_key(topic, entry) is None
    assert store.topics.commit_plan(state, replace(a_plan(100, 101), topic=topic), 101)
    assert store.topics.swap(state, [], [], some_trash(101, "x"))
    assert store.topics.lease_merge(topic, 0, 10)
    assert store.topics.commit_bucket(state, a_bucket(110, id="imported"), None, once="i#1") is Commit.COMMITTED


def test_a_topic_that_is_being_deleted_is_hidden_and_its_mark_is_not(store: Store) -> None:
    state = store.topic(next_check_ms=9000, next_slot=110)
    assert store.topics.deletion("orders") is None
    assert store.topics.mark_deleting(state, "g2", 5000)
    assert store.topics.state("orders") is None and store.topics.topics() == []
    assert store.topics.deletion("orders") == replace(
        state, generation="g2", sealed=ALL_SEALED, deleting_at_ms=5000, next_check_ms=5000
    )
    assert store.topics.due_for_look(5000).topics == ["orders"]
    assert not store.topics.create_topic(a_state(generation="g3"))


def test_only_the_topic_that_was_read_is_marked(store: Store) -> None:
    state = store.topic(generation="g2")
    assert not store.topics.mark_deleting(a_state(), "g3", 5000)
    assert store.current() == state
    assert store.topics.deletion("unknown") is None
    assert not store.topics.mark_deleting(a_state("unknown"), "g3", 5000)


def test_whatever_is_conditional_on_the_topic_is_refused_once_it_is_marked(store: Store) -> None:
    state = store.topic(next_slot=90)
    [subscription] = store.subscribed()
    state = store.current()
    assert store.topics.mark_deleting(state, "g2", 5000)
    topics = store.topics
    assert topics.seal(state, 105) is None
    assert topics.commit_bucket(state, a_bucket(105), None) is Commit.MOVED
    assert not topics.commit_plan(state, a_plan(), 103)
    assert not topics.create_subscription(state, a_subscription("audit"))
    assert not topics.swap(state, [], [], some_trash(10**6, "x"))
    assert not topics.raise_gc(state, 200)
    assert not topics.set_purges(state, 1, [])
    assert not topics.update_settings(state, TopicSettings(part_rows=7))
    assert not topics.set_collect_at(state, 1, 1)
    assert not topics.resume(state, subscription)
    assert not topics.cancel("orders", Tombstone(10**6, a_message_id(), 10**10)).done
    assert not topics.cancel_batch("orders", [Tombstone(10**6, a_message_id(), 10**10)])
    assert topics.open_replay(state, a_delivery(subscription, plan=200)) is Replay.COLLECTED


def test_one_sweep_claims_a_deletion_at_a_time(store: Store) -> None:
    seen = marked(store)
    assert store.topics.claim_deletion(seen, 9000)
    assert store.topics.deletion("orders") == replace(seen, next_check_ms=9000)
    assert not store.topics.claim_deletion(seen, 9001)
    assert not store.topics.claim_deletion(replace(seen, generation="g9", next_check_ms=9000), 9001)
    assert store.topics.due_for_look(8999).topics == []
    assert store.topics.claim_deletion(replace(seen, next_check_ms=9000), 6000)


def test_everything_but_the_topic_state_is_deleted_and_other_topics_are_left_alone(store: Store) -> None:
    others = ("order", "orders-2")
    for name in (*others, "orders"):
        store.topic(topic=name)
        fill(store, name)
    state = store.current()
    assert store.topics.mark_deleting(state, "g2", 5000)
    calls = 0
    while not store.topics.delete_items("orders"):
        calls += 1
    assert calls == 1
    topics = store.topics
    for read in (topics.buckets, topics.subscriptions, topics.open_deliveries, topics.plan_ranges, topics.trash):
        assert not read("orders")
        assert all(read(name) for name in others) or read == topics.open_deliveries
    assert not topics.all_tombstones("orders") and topics.key("orders", "k1") is None
    assert topics.imported("orders", "i") == frozenset()
    for name in others:
        assert len(topics.all_tombstones(name)) == 3 and topics.key(name, "k1") is not None
    assert topics.deletion("orders") is not None
    assert topics.delete_items("unknown")


def test_a_deleted_topic_is_forgotten_only_by_who_has_read_its_mark(store: Store) -> None:
    seen = marked(store)
    assert not store.topics.forget_topic(replace(seen, generation="g1"))
    assert store.topics.deletion("orders") == seen
    assert store.topics.forget_topic(seen)
    assert store.topics.deletion("orders") is None
    assert store.topics.create_topic(a_state(generation="g3"))
    assert not store.topics.forget_topic(seen)
    assert store.current().generation == "g3"


def test_no_item_is_left_in_the_table_and_a_call_deletes_a_bounded_number(dynamodb: Any) -> None:
    table = make_table(dynamodb)
    topics = DynamoTopics(dynamodb, table=table, objects=MemoryObjects())
    store = Store(topics=topics, objects=MemoryObjects(), object_names=None)
    store.topic()
    fill(store)
    for number in range(MAX_DELETED_ITEMS):
        topics.restore_tombstone("orders", Tombstone(10**6, a_message_id(number), 10**10))
    items = dynamodb.scan(TableName=table)["Items"]
    assert topics.mark_deleting(store.current(), "g2", 5000)
    assert not topics.delete_items("orders")
    left = dynamodb.scan(TableName=table)["Items"]
    assert len(left) == len(items) - MAX_DELETED_ITEMS
    assert not [each for each in left if each["sk"]["S"].startswith(layout.SUBSCRIPTIONS)]
    assert not topics.delete_items("orders")
    assert topics.delete_items("orders")
    [state] = dynamodb.scan(TableName=table)["Items"]
    assert state["sk"]["S"] == layout.STATE
    seen = topics.deletion("orders")
    assert seen is not None and topics.forget_topic(seen)
    assert dynamodb.scan(TableName=table)["Items"] == []
