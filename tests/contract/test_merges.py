"""Tests the port Merges, with swaps of ledgers, the lease of a merge, and trash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.builders import Store, a_bucket, raise_next_slot, some_trash
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.topic_state import NextWork, TopicState
from tidewheel.storage.buckets import Commit

LOW = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


def some_buckets(count: int, prefix: str = "source") -> list[Bucket]:
    """Buckets with the same first slot."""
    return [a_bucket(105, 106 + i, id=f"{prefix}-{i:02d}") for i in range(count)]


def commit(store: Store, *buckets: Bucket) -> TopicState:
    """Commits buckets. Returns the new topic state."""
    for bucket in buckets:
        next_work = LOW if store.current().next_slot is None else None
        assert store.buckets.commit(store.current(), bucket, next_work) is Commit.COMMITTED
    return store.current()


def ids(store: Store, topic: str = "orders") -> list[str]:
    """The ids of a topic's buckets, in order."""
    return sorted(bucket.id for bucket in store.buckets.all(topic))


def a_source_gone(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    store.buckets.delete("orders", sources[1].id)
    return state, 103


def planned_above_the_stamp(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    return state, 102


def planned_meanwhile(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    assert store.plans.commit(state, None, 104)
    return state, 103


def another_generation(store: Store, state: TopicState, sources: list[Bucket]) -> tuple[TopicState, int]:
    return replace(state, generation="g0"), 103


def test_trash_is_read_up_to_a_slot_and_the_last_is_known(store: Store) -> None:
    state = store.topic()
    assert store.merges.last_trash("orders") is None
    trash = [some_trash(slot, f"t{slot}") for slot in (5, 90, 100, 1000)]
    for each in trash:
        store.merges.put_trash("orders", each)
    assert store.merges.trash("orders", end_slot=100) == trash[:2]
    assert store.merges.last_trash("orders") == 1000
    assert store.current() == state


def test_ninety_eight_buckets_are_swapped_at_once(store: Store) -> None:
    state = store.topic()
    assert store.merges.swap(state, [], some_buckets(66), some_trash(100, "none"))
    assert store.merges.swap(state, some_buckets(66), some_buckets(32, "output"), some_trash(100))
    assert ids(store) == [bucket.id for bucket in some_buckets(32, "output")]
    assert store.current().swap_version == 2


def test_a_swap_does_not_mind_ledgers_seals_and_plans_that_came_since_the_topic_state_was_read(store: Store) -> None:
    store.topic()
    seen = commit(store, *some_buckets(2))
    commit(store, a_bucket(300, id="later"))
    assert store.topic_states.seal(store.current(), 105)
    assert store.plans.commit(store.current(), None, 104)
    assert store.merges.swap(seen, some_buckets(2), some_buckets(1, "output"), some_trash(104))
    assert ids(store) == [a_bucket(105, id="output-00").id, a_bucket(300, id="later").id]
    assert (store.current().sealed, store.current().planned, store.current().swap_version) == (105, 104, 1)


@pytest.mark.parametrize("reason", [a_source_gone, planned_above_the_stamp, planned_meanwhile, another_generation])
def test_a_refused_swap_changes_nothing(
    store: Store, reason: Callable[[Store, TopicState, list[Bucket]], tuple[TopicState, int]]
) -> None:
    store.topic(sealed=104, planned=103)
    sources = some_buckets(3)
    seen, stamp = reason(store, commit(store, *sources), sources)
    before = (store.current(), ids(store))
    assert not store.merges.swap(seen, sources, some_buckets(1, "output"), some_trash(stamp))
    assert (store.current(), ids(store)) == before
    assert store.merges.trash("orders") == []


@pytest.mark.parametrize("what", ["a plan", "a raised the next slot"])
def test_a_decision_from_before_a_swap_is_refused(store: Store, what: str) -> None:
    store.topic(sealed=105)
    seen = store.current()
    store.put_trash(some_trash(105))
    if what == "a plan":
        assert not store.plans.commit(seen, None, 105)
    else:
        assert not raise_next_slot(store, seen, LOW)


def test_a_merge_s_lease_is_exclusive_until_its_end(store: Store) -> None:
    store.topic()
    assert store.merges.lease("orders", 1000, 2000)
    assert not store.merges.lease("orders", 1000, 2000)
    assert not store.merges.lease("orders", 1999, 5000)
    assert store.merges.lease("orders", 2000, 3000)
    assert not store.merges.lease("orders", 2999, 5000)


def test_a_lease_is_released_by_its_own_run_alone(store: Store) -> None:
    store.topic()
    assert store.merges.lease("orders", 1000, 2000)
    for _ in range(2):
        store.merges.release("orders", 2000)
    assert store.merges.lease("orders", 1001, 2001)
    assert store.merges.lease("orders", 2001, 3000)
    store.merges.release("orders", 2001)  # the first run's
    assert not store.merges.lease("orders", 2500, 4000)


def test_a_run_renews_its_own_lease_and_no_other_s(store: Store) -> None:
    store.topic()
    assert store.merges.lease("orders", 1000, 2000)
    assert store.merges.lease("orders", 1500, 2500, 2000)
    assert not store.merges.lease("orders", 1600, 2600, 2000)
    assert not store.merges.lease("orders", 2400, 3400)
    assert store.merges.lease("orders", 2500, 3500)
    assert not store.merges.lease("orders", 2600, 3600, 2500)


def test_ledgers_that_are_swapped_for_nothing_wait_no_more(store: Store) -> None:
    store.topic(waiting=100)
    bucket = a_bucket(105)
    store.buckets.restore("orders", bucket)
    assert store.merges.swap(store.current(), [bucket], [], some_trash(100, "x"), 40)
    assert (store.current().waiting, store.current().swap_version) == (60, 1)
    assert store.buckets.all("orders") == []
