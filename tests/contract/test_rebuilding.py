"""Topics: what checkpoints read, what a rebuild puts, and the service's daily work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.contract.builders import Store, a_bucket, a_message_id, a_plan, a_subscription
from tests.contract.conftest import aws_store
from tidewheel.flows.ports import DailyClaim
from tidewheel.model.subscription_state import State
from tidewheel.model.tombstone import Tombstone


def tombstones(*slots: int) -> list[Tombstone]:
    return [Tombstone(slot, a_message_id(number), 50 + number) for number, slot in enumerate(slots)]


def test_all_tombstones_are_read_with_their_time(store: Store) -> None:
    assert store.topics.all_tombstones("orders") == []
    store.topic()
    expected = tombstones(100, 101, 101, 5000)
    for each in expected:
        store.topics.put_tombstone("orders", each)
    assert store.topics.all_tombstones("orders") == sorted(expected)
    assert store.topics.all_tombstones("orders-2") == []


def test_the_topic_state_alone_is_deleted_and_may_be_gone(store: Store) -> None:
    state = store.topic()
    store.topics.restore_bucket("orders", a_bucket(105))
    store.topics.delete_topic_state("orders")
    store.topics.delete_topic_state("orders")
    assert store.topics.state("orders") is None
    assert store.topics.buckets("orders") == [a_bucket(105)]
    assert store.topics.create_topic(replace(state, work_version=7))


def test_a_bucket_is_put_without_a_topic_state_and_over_another(store: Store) -> None:
    store.topics.restore_bucket("orders", a_bucket(105))
    again = a_bucket(106, 107)
    store.topics.restore_bucket("orders", again)
    other = a_bucket(108, id="b2")
    store.topics.restore_bucket("orders", other)
    assert store.topics.buckets("orders") == [again, other]
    assert store.topics.state("orders") is None


def test_a_subscription_is_put_without_a_topic_state_and_over_another(store: Store) -> None:
    store.topics.restore_subscription(a_subscription())
    again = a_subscription(cursor=90, start=95, generation="s9", state=State.PAUSED)
    store.topics.restore_subscription(again)
    assert store.topics.subscriptions("orders") == [again]


def test_a_tombstone_is_put_whatever_is_sealed_and_over_another(store: Store) -> None:
    store.topic(sealed=500)
    [tombstone] = tombstones(100)
    store.topics.restore_tombstone("orders", tombstone)
    store.topics.restore_tombstone("orders", tombstone._replace(ttl_s=99))
    assert store.topics.all_tombstones("orders") == [tombstone._replace(ttl_s=99)]
    assert store.topics.tombstones("orders", 100, 101) == {tombstone.id}


def test_manifests_that_are_objects_are_named(store: Store) -> None:
    state = store.topic()
    assert store.topics.plan_objects("orders") == frozenset()
    assert store.topics.commit_plan(state, a_plan(100, 103), 103)
    large = a_plan(103, 104, segments=1, objects=1, cancelled=40_000)
    assert store.topics.commit_plan(store.current(), large, 104)
    assert store.topics.plan_objects("orders") == set(store.object_names("plans/"))


def test_daily_work_is_one_callers_until_its_time(store: Store) -> None:
    topics = store.topics
    assert topics.claim_daily("ORPHANS", 100, 200)
    assert not topics.claim_daily("ORPHANS", 199, 300)
    assert topics.claim_daily("OTHER", 100, 200)
    assert topics.claim_daily("ORPHANS", 200, 300) == DailyClaim(after=None)
    assert topics.topics() == []


def test_daily_work_goes_on_where_it_was_put_off(store: Store) -> None:
    topics = store.topics
    assert topics.claim_daily("ORPHANS", 100, 900) == DailyClaim(after=None)
    topics.put_off_daily("ORPHANS", 200, "ledgers/orders0")
    assert topics.claim_daily("ORPHANS", 199, 900) is None
    assert topics.claim_daily("ORPHANS", 200, 950) == DailyClaim(after="ledgers/orders0")
    topics.put_off_daily("ORPHANS", 300, None)
    assert topics.claim_daily("ORPHANS", 300, 999) == DailyClaim(after=None)


def test_daily_work_that_another_process_has_done_is_remembered(dynamodb: Any) -> None:
    first = aws_store(dynamodb).topics
    table = first._table  # type: ignore[attr-defined]
    second = aws_store(dynamodb).topics
    second._table = table  # type: ignore[attr-defined]
    assert first.claim_daily("ORPHANS", 100, 200)
    assert not second.claim_daily("ORPHANS", 150, 250)
    second._table = None  # type: ignore[attr-defined]
    assert not second.claim_daily("ORPHANS", 199, 299)
