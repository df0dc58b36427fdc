"""Topics: swapping ledgers for a merged one, one run at a time, and when the next one is considered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_bucket, a_segment, a_state, some_trash
from tidewheel.flows.ports import Commit, NextWork
from tidewheel.ledger.bucket import Bucket, BucketId, encode_tail
from tidewheel.ledger.slots import slots_of
from tidewheel.model.topic_state import TopicState

LOW = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


def some_buckets(count: int, prefix: str = "source") -> list[Bucket]:
    """Buckets that all begin in the same slot."""
    return [a_bucket(105, 106 + i, id=f"{prefix}-{i:02d}") for i in range(count)]


def commit(store: Store, *buckets: Bucket) -> TopicState:
    """Commits buckets; returns the topic state afterwards."""
    for bucket in buckets:
        next_work = LOW if store.current().next_slot is None else None
        assert store.topics.commit_bucket(store.current(), bucket, next_work) is Commit.COMMITTED
    return store.current()


def ids(store: Store, topic: str = "orders") -> list[str]:
    """The ids of a topic's buckets, in order."""
    return sorted(bucket.id for bucket in store.topics.buckets(topic))


# ---- swap
def test_sources_are_swapped_for_outputs_and_named_in_the_trash(store: Store) -> None:
    store.topic(sealed=104, planned=103)
    kept, *sources = some_buckets(4)
    outputs = some_buckets(2, "output")
    before = commit(store, kept, *sources)
    assert store.topics.swap(before, sources, outputs, some_trash(104))
    assert store.current() == replace(before, swap_version=before.swap_version + 1)
    assert sorted(store.topics.buckets("orders"), key=lambda b: b.id) == [*outputs, kept]
    assert store.topics.trash("orders") == [some_trash(104)]


def test_a_merge_whose_rows_are_all_dead_has_no_outputs(store: Store) -> None:
    store.topic()
    before = commit(store, *some_buckets(3))
    assert store.topics.swap(before, some_buckets(3), [], some_trash(100))
    assert store.topics.buckets("orders") == []
    assert store.topics.trash("orders") == [some_trash(100)]


def test_each_swap_counts(store: Store) -> None:
    store.topic(swap_version=7)
    for number in range(3):
        store.put_trash(some_trash(100, f"t{number}"))
    assert store.current().swap_version == 10
    assert [trash.id for trash in store.topics.trash("orders")] == ["t0", "t1", "t2"]


def test_ninety_eight_buckets_are_swapped_at_once(store: Store) -> None:
    state = store.topic()
    assert store.topics.swap(state, [], some_buckets(66), some_trash(100, "none"))
    assert store.topics.swap(state, some_buckets(66), some_buckets(32, "output"), some_trash(100))
    assert ids(store) == [bucket.id for bucket in some_buckets(32, "output")]
    assert store.current().swap_version == 2


def test_a_swap_does_not_mind_ledgers_seals_and_plans_that_came_since_the_topic_state_was_read(store: Store) -> None:
    store.topic()
    seen = commit(store, *some_buckets(2))
    commit(store, a_bucket(300, id="later"))
    assert store.topics.seal(store.current(), 105)
    assert store.topics.commit_plan(store.current(), None, 104)
    assert store.topics.swap(seen, some_buckets(2), some_buckets(1, "output"), some_trash(104))
    assert ids(store) == ["later", "output-00"]
    assert (store.current().sealed, store.current().planned, store.current().swap_version) == (105, 104, 1)


def a_source_gone(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    store.topics.delete_bucket("orders", sources[1].id)
    return state, 103


def planned_above_the_stamp(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    return state, 102


def planned_meanwhile(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    assert store.topics.commit_plan(state, None, 104)
    return state, 103


def another_generation(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    return replace(state, generation="g0"), 103


@pytest.mark.parametrize("reason", [a_source_gone, planned_above_the_stamp, planned_meanwhile, another_generation])
def test_a_refused_swap_changes_nothing(
    store: Store, reason: Callable[[Store, TopicState, list[Bucket]], tuple[TopicState, int]]
) -> None:
    store.topic(sealed=104, planned=103)
    sources = some_buckets(3)
    seen, stamp = reason(store, commit(store, *sources), sources)
    before = (store.current(), ids(store))
    assert not store.topics.swap(seen, sources, some_buckets(1, "output"), some_trash(stamp))
    assert (store.current(), ids(store)) == before
    assert store.topics.trash("orders") == []


def test_a_swap_is_refused_where_there_is_no_topic(store: Store) -> None:
    assert not store.topics.swap(a_state(), [], some_buckets(1), some_trash(100))
    assert (store.topics.buckets("orders"), store.topics.trash("orders")) == ([], [])


def test_of_two_merges_of_the_same_source_one_is_refused(store: Store) -> None:
    store.topic()
    a, b, c = some_buckets(3)
    seen = commit(store, a, b, c)
    assert store.topics.swap(seen, [a, b], [a_bucket(105, id="ab")], some_trash(100, "first"))
    assert not store.topics.swap(seen, [b, c], [a_bucket(105, id="bc")], some_trash(100, "second"))
    assert ids(store) == ["ab", c.id]
    assert [trash.id for trash in store.topics.trash("orders")] == ["first"]


@pytest.mark.parametrize("what", ["a plan", "a raised the next slot"])
def test_a_decision_from_before_a_swap_is_refused(store: Store, what: str) -> None:
    store.topic(sealed=105)
    seen = store.current()
    store.put_trash(some_trash(105))
    if what == "a plan":
        assert not store.topics.commit_plan(seen, None, 105)
    else:
        assert not store.topics.raise_next_slot(seen, LOW)


# ---- the lease
def test_a_merge_s_lease_is_exclusive_until_its_end(store: Store) -> None:
    store.topic()
    assert store.topics.lease_merge("orders", 1000, 2000)
    assert not store.topics.lease_merge("orders", 1000, 2000)
    assert not store.topics.lease_merge("orders", 1999, 5000)
    assert store.topics.lease_merge("orders", 2000, 3000)
    assert not store.topics.lease_merge("orders", 2999, 5000)


def test_a_released_lease_may_be_taken_at_once(store: Store) -> None:
    store.topic()
    assert store.topics.lease_merge("orders", 1000, 2000)
    store.topics.release_merge("orders", 2000)
    store.topics.release_merge("orders", 2000)
    assert store.topics.lease_merge("orders", 1001, 2001)


def test_a_run_whose_lease_has_ended_does_not_release_another_s(store: Store) -> None:
    store.topic()
    assert store.topics.lease_merge("orders", 1000, 2000)
    assert store.topics.lease_merge("orders", 2000, 3000)
    store.topics.release_merge("orders", 2000)
    assert not store.topics.lease_merge("orders", 2500, 4000)


def test_a_lease_is_of_one_topic_and_is_none_of_its_marks(store: Store) -> None:
    state = store.topic()
    store.topics.release_merge("orders", 2000)
    assert store.topics.lease_merge("orders", 1000, 2000)
    assert store.topics.lease_merge("orders2", 1000, 2000)
    assert store.current() == state
    assert (store.topics.buckets("orders"), store.topics.trash("orders")) == ([], [])


# ---- merge_considered
@pytest.mark.parametrize("next_check_ms", [None, 900])
@pytest.mark.parametrize("next_slot", [None, 120])
def test_a_merge_that_was_considered_is_noted_with_the_next_look(
    store: Store, next_check_ms: int | None, next_slot: int | None
) -> None:
    state = store.topic(
        work_version=5,
        merge_considered_version=2,
        merge_at_ms=300,
        next_check_ms=300,
        collect_at_ms=11,
        next_slot=next_slot,
    )
    assert store.topics.due_for_look(300)[0] == ["orders"]
    assert store.topics.merge_considered(state, next_check_ms)
    assert store.current() == replace(state, merge_considered_version=5, merge_at_ms=None, next_check_ms=next_check_ms)
    assert store.topics.due_for_look(899)[0] == []
    assert store.topics.due_for_look(900)[0] == ([] if next_check_ms is None else ["orders"])


def test_a_swap_since_the_topic_state_was_read_does_not_matter_to_the_note(store: Store) -> None:
    state = store.topic(work_version=1)
    store.put_trash(some_trash(100))
    assert store.topics.merge_considered(state, None)
    assert store.current().merge_considered_version == 1


@pytest.mark.parametrize(
    ("read", "now"),
    [
        ({"work_version": 0}, {"work_version": 1}),
        ({"generation": "g1"}, {"generation": "g2"}),
        ({"next_slot": None}, {"next_slot": 120}),
        ({"next_slot": 120}, {"next_slot": None}),
        ({"next_slot": 120}, {"next_slot": 121}),
    ],
)
def test_a_merge_that_was_considered_on_an_old_sight_is_not_noted(
    store: Store, read: dict[str, Any], now: dict[str, Any]
) -> None:
    state = store.topic(merge_at_ms=3, next_check_ms=3, **now)
    assert not store.topics.merge_considered(a_state(**read), 8)
    assert store.current() == state


def test_a_topic_with_marks_of_merges_is_read_as_it_was_created(store: Store) -> None:
    state = store.topic(merge_considered_version=7, merge_at_ms=9)
    assert store.current() == state


# ---- commit_bucket with merge_at_ms
@pytest.mark.parametrize("next_work", [LOW, None])
def test_a_bucket_that_asks_for_a_merge_makes_the_sweep_look(store: Store, next_work: NextWork | None) -> None:
    state = store.topic(next_slot=None if next_work else 103, next_check_ms=None if next_work else 50_000)
    assert store.topics.commit_bucket(state, a_bucket(105), next_work, 500) is Commit.COMMITTED
    next_slot = 105 if next_work else 103
    assert store.current() == replace(
        state, work_version=1, waiting=40, next_slot=next_slot, merge_at_ms=500, next_check_ms=500
    )
    assert store.topics.due_for_look(499)[0] == []
    assert store.topics.due_for_look(500)[0] == ["orders"]


def test_a_refused_bucket_asks_for_nothing(store: Store) -> None:
    state = store.topic(next_check_ms=50_000, sealed=106)
    assert store.topics.commit_bucket(state, a_bucket(105), None, 500) is Commit.MOVED
    assert store.current() == state
    assert store.topics.due_for_look(500)[0] == []


def test_a_bucket_that_asks_for_no_merge_leaves_the_request_of_another(store: Store) -> None:
    state = store.topic(merge_at_ms=500, next_check_ms=500, next_slot=103)
    assert store.topics.commit_bucket(state, a_bucket(105), None) is Commit.COMMITTED
    assert store.current() == replace(state, work_version=1, waiting=40)


# ---- buckets with tails
def a_tailed_bucket(slots: range, segments: int, id: str = "large") -> Bucket:
    """A bucket whose ledger has its index in its tail."""
    bucket = replace(a_bucket(105, id=id), slots=slots_of(slots))
    table = tuple(a_segment(i * i) for i in range(segments))
    _, tail = encode_tail(bucket.slots, table, offset=5_000_000)
    return replace(bucket, segments=table, tail=tail, rows=2**40, size_bytes=2**35)


LARGE_BITMAP = range(105, 400_000, 2)
SMALL_BITMAP = range(105, 107)


@pytest.mark.parametrize(("slots", "segments"), [(LARGE_BITMAP, 2), (LARGE_BITMAP, 900), (SMALL_BITMAP, 900)])
@pytest.mark.parametrize("way", ["committed", "swapped in"])
def test_a_bucket_with_a_tail_is_read_whole_or_as_much_as_an_item_holds(
    store: Store, way: str, slots: range, segments: int
) -> None:
    state = store.topic()
    bucket = a_tailed_bucket(slots, segments)
    assert len(bucket.without_tail().segments) == 0
    if way == "committed":
        assert store.topics.commit_bucket(state, bucket, LOW) is Commit.COMMITTED
    else:
        assert store.topics.swap(state, [], [bucket], some_trash(100))
    read = store.topics.bucket("orders", BucketId("large"))
    assert read in (bucket, bucket.without_tail())
    assert store.topics.buckets("orders") == [read]


def test_a_bucket_that_was_read_coarse_is_swapped_out_like_any_other(store: Store) -> None:
    store.topic()
    commit(store, a_tailed_bucket(LARGE_BITMAP, 900))
    [read] = store.topics.buckets("orders")
    assert store.topics.swap(store.current(), [read], [a_bucket(105, id="small")], some_trash(100))
    assert ids(store) == ["small"]
