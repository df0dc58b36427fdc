"""Topics: a bucket that comes from an import is committed once, whatever becomes of it."""

from __future__ import annotations

from typing import Any

from tests.contract.builders import Store, a_bucket, a_state
from tests.contract.conftest import aws_store
from tidewheel import clock as clocks
from tidewheel.aws import table_layout as layout
from tidewheel.clock import ManualClock
from tidewheel.flows.ports import Commit, NextWork

LOW = NextWork(next_slot=105, next_check_ms=1, collect_at_ms=None)


def commit(store: Store, once: str | None, id: str = "b1") -> Commit:
    state = store.current()
    next_work = LOW if state.next_slot is None else None
    return store.topics.commit_bucket(state, a_bucket(105, id=id), next_work, None, once)


def test_commits_of_an_import_are_told_by_import(store: Store) -> None:
    store.topic()
    assert store.topics.imported("orders", "i1") == frozenset()
    for cut in (0, 7, 12):
        assert commit(store, f"i1#{cut}", f"b{cut}") is Commit.COMMITTED
    assert commit(store, "i1x#3", "b3") is Commit.COMMITTED
    assert commit(store, None, "b4") is Commit.COMMITTED
    assert store.topics.imported("orders", "i1") == {0, 7, 12}
    assert store.topics.imported("orders", "i1x") == {3}
    assert store.topics.imported("orders", "i") == frozenset()
    assert store.topics.imported("other", "i1") == frozenset()


def test_a_cut_is_committed_once_though_its_bucket_is_gone(store: Store) -> None:
    store.topic()
    assert commit(store, "i1#0") is Commit.COMMITTED
    store.topics.delete_bucket("orders", a_bucket(105).id)
    before = store.current()
    assert commit(store, "i1#0") is Commit.EXISTS
    assert (store.topics.buckets("orders"), store.current()) == ([], before)


def test_a_bucket_that_exists_leaves_no_mark(store: Store) -> None:
    store.topic()
    assert commit(store, None) is Commit.COMMITTED
    assert commit(store, "i1#0") is Commit.EXISTS
    assert store.topics.imported("orders", "i1") == frozenset()


def test_a_moved_topic_state_refuses_bucket_and_mark(store: Store) -> None:
    state = store.topic()
    assert store.topics.seal(state, 106) is not None
    assert store.topics.commit_bucket(state, a_bucket(105), LOW, None, "i1#0") is Commit.MOVED
    assert (store.topics.buckets("orders"), store.topics.imported("orders", "i1")) == ([], frozenset())


def test_a_cut_that_is_committed_counts_as_such_though_the_topic_state_moved_too(store: Store) -> None:
    state = store.topic()
    assert commit(store, "i1#0") is Commit.COMMITTED
    assert store.topics.seal(state, 106) is not None
    assert store.topics.commit_bucket(state, a_bucket(105, id="b2"), LOW, None, "i1#0") is Commit.EXISTS


def test_the_table_forgets_a_mark_after_90_days(dynamodb: Any) -> None:
    store = aws_store(dynamodb)
    assert store.topics.create_topic(a_state())
    with clocks.use(ManualClock(1_767_225_600_000)):
        assert commit(store, "i1#5") is Commit.COMMITTED
    found = [
        item
        for table in dynamodb.list_tables()["TableNames"]
        for item in dynamodb.scan(TableName=table)["Items"]
        if item["sk"]["S"].startswith(layout.IMPORTS + "i1#5")
    ]
    assert [int(item[layout.TTL_ATTRIBUTE]["N"]) for item in found] == [1_767_225_600 + 90 * 86_400]
