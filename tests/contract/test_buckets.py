"""Tests the port Buckets, which commits buckets to a topic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyroaring import BitMap

from tests.contract.aws_resources import counted
from tests.contract.builders import Store, a_bucket, a_segment, a_state, some_trash
from tests.contract.conftest import aws_store
from tidewheel import clock as clocks
from tidewheel.clock import ManualClock
from tidewheel.ledger.bucket import Bucket, encode_tail
from tidewheel.model.topic_state import NextWork
from tidewheel.storage import table_keys
from tidewheel.storage.buckets import Commit

LOW = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


def _assert_bucket_refused(store: Store, state: Any, next_work: NextWork | None) -> None:
    before = store.current()
    assert store.buckets.commit(state, a_bucket(105), next_work) is Commit.MOVED
    assert store.buckets.all("orders") == []
    assert store.current() == before


def commit(store: Store, once: str | None, id: str = "b1") -> Commit:
    state = store.current()
    next_work = LOW if state.next_slot is None else None
    return store.buckets.commit(state, a_bucket(105, id=id), next_work, None, once)


def a_tailed_bucket(slots: range, segments: int, id: str = "large") -> Bucket:
    """A bucket with the index in the tail of its ledger."""
    bucket = replace(a_bucket(105, id=id), slots=BitMap(slots))
    table = tuple(a_segment(i * i) for i in range(segments))
    _, tail = encode_tail(bucket.slots, table, offset=5_000_000)
    return replace(bucket, segments=table, tail=tail, rows=2**40, size_bytes=2**35)


LARGE_BITMAP = range(105, 400_000, 2)


SMALL_BITMAP = range(105, 107)


def test_a_committed_bucket_is_read_as_it_was_given_and_lowers_the_next_slot(store: Store) -> None:
    state = store.topic(collect_at_ms=11)
    bucket = a_bucket(105, 106, 400_000, segments=30)
    assert store.buckets.commit(state, bucket, LOW) is Commit.COMMITTED
    assert store.buckets.all("orders") == [bucket]
    assert store.current() == replace(state, work_version=1, waiting=40, next_slot=105, next_check_ms=7000)


def test_marks_that_do_not_matter_may_have_moved_when_a_bucket_is_committed(store: Store) -> None:
    state = store.topic()
    store.topic_states.seal(store.current(), 105)
    store.buckets.commit(state, a_bucket(900, id="other"), NextWork(next_slot=900, next_check_ms=1, collect_at_ms=1))
    store.subscribed()  # the next slot 100
    stale = replace(state, next_slot=100)
    assert store.buckets.commit(stale, a_bucket(105), None) is Commit.COMMITTED
    assert store.current().work_version == 3


def test_a_bucket_that_exists_says_so_even_if_the_topic_state_moved(store: Store) -> None:
    state = store.topic()
    store.buckets.commit(state, a_bucket(105), LOW)
    store.topic_states.seal(store.current(), 110)
    assert store.buckets.commit(state, a_bucket(105), LOW) is Commit.EXISTS


def test_a_bucket_is_refused_when_its_first_slot_was_sealed(store: Store) -> None:
    state = store.topic()
    store.topic_states.seal(store.current(), 106)
    _assert_bucket_refused(store, state, LOW)


def test_a_bucket_is_refused_when_the_topic_is_another_of_the_same_name(store: Store) -> None:
    store.topic()
    _assert_bucket_refused(store, a_state(generation="g0"), LOW)


@pytest.mark.parametrize(
    ("read", "now", "next_work"),
    [(None, 105, LOW), (200, 105, LOW), (200, 1, LOW), (105, None, None), (105, 106, None)],
)
def test_a_bucket_is_refused_when_the_next_slot_moved_across_its_first_slot(
    store: Store, read: int | None, now: int | None, next_work: NextWork | None
) -> None:
    store.topic(next_slot=now)
    _assert_bucket_refused(store, a_state(next_slot=read), next_work)


@pytest.mark.parametrize(("read", "now", "next_work"), [(None, 106, LOW), (106, None, LOW), (105, 1, None)])
def test_a_bucket_is_committed_when_the_next_slot_moved_but_not_across_its_first_slot(
    store: Store, read: int | None, now: int | None, next_work: NextWork | None
) -> None:
    store.topic(next_slot=now)
    assert store.buckets.commit(a_state(next_slot=read), a_bucket(105), next_work) is Commit.COMMITTED
    assert store.current().next_slot == (105 if next_work else now)


def test_all_buckets_of_a_topic_are_read_and_none_of_another(store: Store) -> None:
    state, other = store.topic(), a_state("orders2")
    store.topic_states.create(other)
    store.put_trash(some_trash(100))
    for number in range(7):
        store.buckets.commit(store.current(), a_bucket(105, id=f"b{number}"), None if number else LOW)
    store.buckets.commit(other, a_bucket(105, id="foreign"), LOW)
    assert sorted(bucket.id for bucket in store.buckets.all("orders")) == [
        a_bucket(105, id=f"b{n}").id for n in range(7)
    ]
    assert store.current().work_version == state.work_version + 7


def test_a_cut_is_committed_once_though_its_bucket_is_gone(store: Store) -> None:
    store.topic()
    assert commit(store, "i1#0") is Commit.COMMITTED
    store.buckets.delete("orders", a_bucket(105).id)
    before = store.current()
    assert commit(store, "i1#0") is Commit.EXISTS
    assert (store.buckets.all("orders"), store.current()) == ([], before)


def test_a_bucket_that_exists_leaves_no_mark(store: Store) -> None:
    store.topic()
    assert commit(store, None) is Commit.COMMITTED
    assert commit(store, "i1#0") is Commit.EXISTS
    assert store.buckets.imported("orders", "i1") == frozenset()


def test_a_moved_topic_state_refuses_bucket_and_mark(store: Store) -> None:
    state = store.topic()
    assert store.topic_states.seal(state, 106) is not None
    assert store.buckets.commit(state, a_bucket(105), LOW, None, "i1#0") is Commit.MOVED
    assert (store.buckets.all("orders"), store.buckets.imported("orders", "i1")) == ([], frozenset())


def test_the_table_forgets_a_mark_after_90_days(dynamodb: Any) -> None:
    store = aws_store(dynamodb)
    assert store.topic_states.create(a_state())
    with clocks.use(ManualClock(1_767_225_600_000)):
        assert commit(store, "i1#5") is Commit.COMMITTED
    found = [
        item
        for table in dynamodb.list_tables()["TableNames"]
        for item in dynamodb.scan(TableName=table)["Items"]
        if item["sk"]["S"].startswith(table_keys.IMPORTS + "i1#5")
    ]
    assert [int(item[table_keys.TTL_ATTRIBUTE]["N"]) for item in found] == [1_767_225_600 + 90 * 86_400]


def test_a_bucket_that_asks_for_no_merge_leaves_the_request_of_another(store: Store) -> None:
    state = store.topic(merge_at_ms=500, next_check_ms=500, next_slot=103)
    assert store.buckets.commit(state, a_bucket(105), None) is Commit.COMMITTED
    assert store.current() == replace(state, work_version=1, waiting=40)


@pytest.mark.parametrize(("slots", "segments"), [(LARGE_BITMAP, 2), (LARGE_BITMAP, 900), (SMALL_BITMAP, 900)])
@pytest.mark.parametrize("way", ["committed", "swapped in"])
def test_a_bucket_with_a_tail_is_read_whole_or_as_much_as_an_item_holds(
    store: Store, way: str, slots: range, segments: int
) -> None:
    state = store.topic()
    bucket = a_tailed_bucket(slots, segments)
    assert len(bucket.without_tail().segments) == 0
    if way == "committed":
        assert store.buckets.commit(state, bucket, LOW) is Commit.COMMITTED
    else:
        assert store.merges.swap(state, [], [bucket], some_trash(100))
    read = store.buckets.read("orders", bucket.id)
    assert read in (bucket, bucket.without_tail())
    assert store.buckets.all("orders") == [read]


# ---- in the order of slots
SOME_SLOTS = (7, 99, 100, 105, 105, 3_000, 11_000, 400_000)


def stored_in_order(store: Store) -> list[Bucket]:
    """Buckets whose hashes sort the other way round."""
    buckets = [a_bucket(slot, slot + 9, id=f"{99 - number}") for number, slot in enumerate(SOME_SLOTS)]
    for bucket in buckets[::-1]:
        store.buckets.restore("orders", bucket)
    store.buckets.restore("orders2", a_bucket(101, id="foreign"))
    return sorted(buckets, key=lambda each: each.id)


def test_buckets_come_in_the_order_of_their_first_slots(store: Store) -> None:
    buckets = stored_in_order(store)
    assert [each.id_slot for each in buckets] == list(SOME_SLOTS)
    assert list(store.buckets.in_order("orders")) == buckets == store.buckets.all("orders")


@pytest.mark.parametrize(("first", "end"), [(0, 100), (0, 101), (99, 105), (105, 106), (106, 3_000), (3_000, None)])
def test_a_range_of_slots_has_the_buckets_that_begin_in_it(store: Store, first: int, end: int | None) -> None:
    inside = [each for each in stored_in_order(store) if first <= each.id_slot < (end or 10**9)]
    assert list(store.buckets.in_order("orders", first_slot=first, end_slot=end)) == inside


def test_a_caller_that_stops_has_read_no_more_pages(dynamodb: Any) -> None:
    store = aws_store(dynamodb, page_size=2)
    first, second, third, *_ = stored_in_order(store)
    with counted(dynamodb) as calls:
        coming = store.buckets.in_order("orders")
        assert [next(coming), next(coming)] == [first, second]
        assert calls == {"Query": 1}
        assert next(coming) == third
        assert calls == {"Query": 2}


def test_an_item_whose_slots_begin_before_its_key_cannot_be_read(dynamodb: Any) -> None:
    store = aws_store(dynamodb)
    store.buckets.restore("orders", replace(a_bucket(104, 200), id=a_bucket(105).id))
    unreadable: dict[str, Exception] = {}
    assert list(store.buckets.in_order("orders", unreadable)) == []
    assert set(unreadable) == {a_bucket(105).id}


def test_an_unreadable_item_is_told_when_its_turn_comes(dynamodb: Any) -> None:
    store = aws_store(dynamodb)
    store.buckets.restore("orders", a_bucket(105))
    store.buckets.restore("orders", replace(a_bucket(104), id=a_bucket(106).id))
    store.buckets.restore("orders", a_bucket(107))
    unreadable: dict[str, Exception] = {}
    coming = store.buckets.in_order("orders", unreadable)
    assert (next(coming), unreadable) == (a_bucket(105), {})
    assert next(coming) == a_bucket(107)
    assert set(unreadable) == {a_bucket(106).id}
