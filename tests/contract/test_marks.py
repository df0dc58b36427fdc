"""Topics: a topic's marks, and the ledgers committed under them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_bucket, a_delivery, a_state, some_trash
from tidewheel.flows.ports import Commit, HandOut, NextWork
from tidewheel.model.settings import TopicSettings

LOW = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


# ---- topics
def test_a_topic_is_read_as_it_was_created(store: Store) -> None:
    settings = TopicSettings(slot_s=60, lookahead_s=150, segment_bytes=9000)
    state = store.topic(
        settings=settings,
        next_slot=120,
        work_version=1,
        swap_version=2,
        subscriptions_version=3,
        purge_ms=4,
        next_check_ms=5,
    )
    assert store.topics.state("orders") == state
    other = replace(a_state("other"), collect_at_ms=77)
    assert store.topics.create_topic(other)
    assert store.topics.state("other") == other


def test_a_topic_that_exists_is_not_created_again(store: Store) -> None:
    state = store.topic()
    assert not store.topics.create_topic(replace(state, generation="g2", sealed=500))
    assert store.current() == state


def test_an_unknown_topic_has_no_topic_state_and_nothing_else(store: Store) -> None:
    topics = store.topics
    assert topics.state("orders") is None
    assert topics.seal(a_state(), 5) is None
    assert topics.state("orders") is None
    assert (topics.buckets("orders"), topics.subscriptions("orders"), topics.open_deliveries("orders")) == ([], [], [])
    assert not topics.raise_next_slot(a_state(), LOW)
    assert topics.commit_bucket(a_state(), a_bucket(105), LOW) is Commit.MOVED
    assert topics.buckets("orders") == []


def test_all_topics_are_listed_by_name(store: Store) -> None:
    states = [a_state(name) for name in ("zebra", "apple", "mango", "banana", "cherry")]
    for state in states:
        store.topics.create_topic(state)
    store.topics.commit_bucket(states[0], a_bucket(105), LOW)
    names = [state.topic for state in store.topics.topics()]
    assert names == ["apple", "banana", "cherry", "mango", "zebra"]


def test_a_bucket_is_read_by_its_id(store: Store) -> None:
    state = store.topic()
    assert store.topics.bucket("orders", a_bucket(105).id) is None
    store.topics.commit_bucket(state, a_bucket(105), LOW)
    assert store.topics.bucket("orders", a_bucket(105).id) == a_bucket(105)


# ---- seal
def test_sealing_raises_sealed_and_returns_the_topic_state(store: Store) -> None:
    state = store.topic(next_slot=101, next_check_ms=9)
    assert store.topics.seal(store.current(), 104) == replace(state, sealed=104)
    assert store.current() == replace(state, sealed=104)


def test_a_topic_that_was_created_again_is_not_sealed_for_its_predecessor(store: Store) -> None:
    state = store.topic()
    assert store.topics.seal(replace(state, generation="g0"), 104) is None
    assert store.current() == state


@pytest.mark.parametrize("slot", [99, 100])
def test_sealing_never_lowers_sealed_and_still_returns_the_topic_state(store: Store, slot: int) -> None:
    state = store.topic()
    assert store.topics.seal(store.current(), slot) == state
    assert store.current() == state


# ---- commit_bucket
def test_a_committed_bucket_is_read_as_it_was_given_and_lowers_wake(store: Store) -> None:
    state = store.topic(collect_at_ms=11)
    bucket = a_bucket(105, 106, 400_000, segments=30)
    assert store.topics.commit_bucket(state, bucket, LOW) is Commit.COMMITTED
    assert store.topics.buckets("orders") == [bucket]
    assert store.current() == replace(state, work_version=1, waiting=40, next_slot=105, next_check_ms=7000)


def test_a_bucket_behind_the_wake_mark_leaves_it(store: Store) -> None:
    state = store.topic(next_slot=103, next_check_ms=1)
    assert store.topics.commit_bucket(state, a_bucket(103, 200), None) is Commit.COMMITTED
    assert store.current() == replace(state, work_version=1, waiting=40)


def test_marks_that_do_not_matter_may_have_moved_when_a_bucket_is_committed(store: Store) -> None:
    state = store.topic()
    store.topics.seal(store.current(), 105)
    store.topics.commit_bucket(
        state, a_bucket(900, id="other"), NextWork(next_slot=900, next_check_ms=1, collect_at_ms=1)
    )
    store.subscribed()  # the next slot 100
    stale = replace(state, next_slot=100)
    assert store.topics.commit_bucket(stale, a_bucket(105), None) is Commit.COMMITTED
    assert store.current().work_version == 3


def test_a_bucket_committed_twice_is_one_and_changes_nothing(store: Store) -> None:
    state = store.topic()
    store.topics.commit_bucket(state, a_bucket(105), LOW)
    after = store.current()
    again = replace(a_bucket(105), object_name="another-attempt")
    assert store.topics.commit_bucket(after, again, None) is Commit.EXISTS
    assert store.topics.buckets("orders") == [a_bucket(105)]
    assert store.current() == after


def test_a_bucket_that_exists_says_so_even_if_the_topic_state_moved(store: Store) -> None:
    state = store.topic()
    store.topics.commit_bucket(state, a_bucket(105), LOW)
    store.topics.seal(store.current(), 110)
    assert store.topics.commit_bucket(state, a_bucket(105), LOW) is Commit.EXISTS


def test_a_bucket_is_refused_when_its_first_slot_was_sealed(store: Store) -> None:
    state = store.topic()
    store.topics.seal(store.current(), 106)
    _assert_bucket_refused(store, state, LOW)


def test_a_bucket_is_refused_when_the_topic_is_another_of_the_same_name(store: Store) -> None:
    store.topic()
    _assert_bucket_refused(store, a_state(generation="g0"), LOW)


@pytest.mark.parametrize(
    ("read", "now", "next_work"),
    [(None, 105, LOW), (200, 105, LOW), (200, 1, LOW), (105, None, None), (105, 106, None)],
)
def test_a_bucket_is_refused_when_wake_moved_across_its_first_slot(
    store: Store, read: int | None, now: int | None, next_work: NextWork | None
) -> None:
    store.topic(next_slot=now)
    _assert_bucket_refused(store, a_state(next_slot=read), next_work)


@pytest.mark.parametrize(("read", "now", "next_work"), [(None, 106, LOW), (106, None, LOW), (105, 1, None)])
def test_a_bucket_is_committed_when_wake_moved_but_not_across_its_first_slot(
    store: Store, read: int | None, now: int | None, next_work: NextWork | None
) -> None:
    store.topic(next_slot=now)
    assert store.topics.commit_bucket(a_state(next_slot=read), a_bucket(105), next_work) is Commit.COMMITTED
    assert store.current().next_slot == (105 if next_work else now)


def _assert_bucket_refused(store: Store, state: Any, next_work: NextWork | None) -> None:
    before = store.current()
    assert store.topics.commit_bucket(state, a_bucket(105), next_work) is Commit.MOVED
    assert store.topics.buckets("orders") == []
    assert store.current() == before


def test_all_buckets_of_a_topic_are_read_and_none_of_another(store: Store) -> None:
    state, other = store.topic(), a_state("orders2")
    store.topics.create_topic(other)
    store.put_trash(some_trash(100))
    for number in range(7):
        store.topics.commit_bucket(store.current(), a_bucket(105, id=f"b{number}"), None if number else LOW)
    store.topics.commit_bucket(other, a_bucket(105, id="foreign"), LOW)
    assert sorted(bucket.id for bucket in store.topics.buckets("orders")) == [f"b{n}" for n in range(7)]
    assert store.current().work_version == state.work_version + 7


def test_a_deleted_bucket_is_gone_and_may_be_deleted_again(store: Store) -> None:
    store.topics.commit_bucket(store.topic(), a_bucket(105), LOW)
    store.topics.delete_bucket("orders", a_bucket(105).id)
    store.topics.delete_bucket("orders", a_bucket(105).id)
    assert store.topics.buckets("orders") == []


# ---- raise_next_slot
@pytest.mark.parametrize(
    "to",
    [
        NextWork(next_slot=300, next_check_ms=8, collect_at_ms=9),
        NextWork(next_slot=None, next_check_ms=None, collect_at_ms=None),
    ],
)
def test_raising_wake_sets_its_three_marks(store: Store, to: NextWork) -> None:
    state = store.topic(next_slot=100, next_check_ms=1, collect_at_ms=2)
    assert store.topics.raise_next_slot(state, to)
    assert store.current() == replace(
        state, next_slot=to.next_slot, next_check_ms=to.next_check_ms, collect_at_ms=to.collect_at_ms
    )


@pytest.mark.parametrize("moved", [{"work_version": 1}, {"swap_version": 1}, {"generation": "g2"}])
def test_raising_wake_is_refused_when_a_version_moved(store: Store, moved: dict[str, Any]) -> None:
    now = store.topic(next_slot=100, **moved)
    assert not store.topics.raise_next_slot(
        a_state(next_slot=100), NextWork(next_slot=9, next_check_ms=1, collect_at_ms=1)
    )
    assert store.current() == now


# ---- due_for_look
def test_topics_and_deliveries_are_due_from_their_look_on(store: Store) -> None:
    store.topic(next_check_ms=6000)
    store.topics.create_topic(a_state("never"))
    [subscription] = store.subscribed(cursor=100)
    delivery = a_delivery(subscription, next_check_ms=5000)
    store.topics.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
    store.topics.raise_next_slot(store.current(), NextWork(next_slot=None, next_check_ms=6000, collect_at_ms=6000))
    assert store.topics.due_for_look(4999) == ([], [], [])
    assert store.topics.due_for_look(5000) == ([], [delivery.key], [])
    assert store.topics.due_for_look(6000) == (["orders"], [delivery.key], [])


def test_what_is_due_for_the_longest_comes_first_wherever_the_index_keeps_it(store: Store) -> None:
    times = {f"topic-{number}": number * 37 % 60 for number in range(60)}
    for name, next_check_ms in times.items():
        store.topics.create_topic(a_state(name, next_check_ms=next_check_ms))
    assert [times[name] for name in store.topics.due_for_look(49).topics] == list(range(50))


def test_what_needs_no_look_any_more_is_not_due(store: Store) -> None:
    state = store.topic(next_check_ms=1, next_slot=100)
    assert store.topics.raise_next_slot(state, NextWork(next_slot=None, next_check_ms=None, collect_at_ms=None))
    delivery = store.delivered(next_check_ms=1)
    store.topics.stamp_delivery(delivery.key, 1, 90_000_000)
    assert delivery.key not in store.topics.due_for_look(80_000_000)[1]
    store.topics.delete_deliveries([delivery.key])
    assert store.topics.due_for_look(10**12)[1] == []


def test_many_topics_are_due_wherever_the_index_keeps_them(store: Store) -> None:
    names = [f"topic-{number}" for number in range(60)]
    for name in names:
        store.topics.create_topic(a_state(name, next_check_ms=1))
    assert sorted(store.topics.due_for_look(1)[0]) == sorted(names)
    assert store.topics.due_for_look(0) == ([], [], [])
