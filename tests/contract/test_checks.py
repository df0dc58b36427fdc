"""Tests the port Checks, with due checks and claims on daily work."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from tests.contract.builders import Store, a_delivery, a_park, a_state, raise_next_slot
from tests.contract.conftest import aws_store
from tidewheel.model.topic_state import NextWork
from tidewheel.storage import table_keys
from tidewheel.storage.checks import DailyClaim
from tidewheel.storage.deliveries import HandOut


def test_topics_and_deliveries_are_due_from_their_next_check_on(store: Store) -> None:
    store.topic(next_check_ms=6000)
    store.topic_states.create(a_state("never"))
    [subscription] = store.subscribed(cursor=100)
    delivery = a_delivery(subscription, next_check_ms=5000)
    store.deliveries.hand_out(HandOut(subscription=subscription, to=103, delivery=delivery))
    raise_next_slot(store, store.current(), NextWork(next_slot=None, next_check_ms=6000, collect_at_ms=6000))
    assert store.checks.due(4999) == ([], [], [])
    assert store.checks.due(5000) == ([], [delivery.key], [])
    assert store.checks.due(6000) == (["orders"], [delivery.key], [])


def test_what_is_due_for_the_longest_comes_first_wherever_the_index_keeps_it(store: Store) -> None:
    times = {f"topic-{number}": number * 37 % 60 for number in range(60)}
    for name, next_check_ms in times.items():
        store.topic_states.create(a_state(name, next_check_ms=next_check_ms))
    assert [times[name] for name in store.checks.due(49).topics] == list(range(50))


@pytest.mark.parametrize(
    ("partition", "sort_key"),
    [
        ("T#orders#TOMB", "STATE"),
        ("T#orders#KEY#00", "DELIVERY#billing#g1#000000000005"),
        ("T#orders#MOVE", "PARK#billing#g1#x"),
        ("T#orders#NOTE", "PARK#billing#g1#x"),
        ("T#", "STATE"),
        ("orders", "STATE"),
        ("SERVICE", "ORPHANS"),
        ("T#orders", "STATE#"),
        ("T#orders", "NOTE"),
        ("T#orders", "BUCKET#x"),
        ("T#orders", "DELIVERY#billing#g1#5"),
        ("T#orders", "DELIVERY#billing#g1#x"),
        ("T#orders", "DELIVERY#billing#g1#000000000005#r#x"),
        ("T#orders", "PARK#billing#x"),
        ("T#other", "STATE"),
    ],
)
def test_a_key_that_the_service_does_not_write_into_a_shard_is_not_due_and_no_failure(
    dynamodb: Any, partition: str, sort_key: str
) -> None:
    store = aws_store(dynamodb)
    store.topic(next_check_ms=7)
    shard = table_keys.check_shard("orders" if partition == "T#other" else table_keys.topic_of(partition))
    assert table_keys.check_shard("other") != table_keys.check_shard("orders")
    forged = {"pk": {"S": partition}, "sk": {"S": sort_key}, "check_shard": {"S": shard}, "next_check_ms": {"N": "0"}}
    table: Any = store.checks._table  # type: ignore[attr-defined]
    dynamodb.put_item(TableName=table._name, Item=forged)
    failed: dict[str, Exception] = {}
    assert store.checks.due(10, failed) == store.checks.due(10) == (["orders"], [], [])
    assert failed == {}


def test_of_each_owner_so_many_items_are_due_at_most_and_they_keep_none_of_others_from_being_found(
    store: Store,
) -> None:
    store.topic(next_check_ms=9)
    many, few = store.subscribed("many", "few", cursor=100)
    for number in range(70):
        store.parks.put(a_park(many, f"{number:02d}", next_check_ms=number // 50), many.state)
    store.parks.put(a_park(few, "00", next_check_ms=8), few.state)
    due = store.checks.due(10, most=3)
    assert [key.subscription for key in due.parks] == ["many"] * 3 + ["few"] and due.topics == ["orders"]
    assert {key.id for key in due.parks[:3]} <= {f"{number:02d}" for number in range(50)}


def test_pages_of_the_index_that_are_full_of_one_owners_items_are_not_sent(dynamodb: Any) -> None:
    store = aws_store(dynamodb, page_size=5)
    store.topic(next_check_ms=9)
    [subscription] = store.subscribed(cursor=100)
    for number in range(40):
        store.parks.put(a_park(subscription, f"{number:02d}", next_check_ms=number), subscription.state)
    sent: list[int] = []
    table: Any = store.checks._table  # type: ignore[attr-defined]
    query = table._client.query

    def counting(**request: Any) -> Any:
        answer = query(**request)
        sent.append(len(answer["Items"]))
        return answer

    with patch.object(table._client, "query", counting):
        due = store.checks.due(100, most=3)
    assert (len(due.parks), due.topics) == (3, ["orders"])
    assert sum(sent) <= 5 + 1 and len(sent) >= 16 + 41 // 5


def test_daily_work_is_one_callers_until_its_time(store: Store) -> None:
    storage = store
    assert storage.checks.claim_daily("ORPHANS", 100, 200)
    assert not storage.checks.claim_daily("ORPHANS", 199, 300)
    assert storage.checks.claim_daily("OTHER", 100, 200)
    assert storage.checks.claim_daily("ORPHANS", 200, 300) == DailyClaim(after=None)


def test_daily_work_goes_on_where_it_was_put_off(store: Store) -> None:
    storage = store
    assert storage.checks.claim_daily("ORPHANS", 100, 900) == DailyClaim(after=None)
    storage.checks.put_off_daily("ORPHANS", 200, "ledgers/orders0")
    assert storage.checks.claim_daily("ORPHANS", 199, 900) is None
    assert storage.checks.claim_daily("ORPHANS", 200, 950) == DailyClaim(after="ledgers/orders0")
    storage.checks.put_off_daily("ORPHANS", 300, None)
    assert storage.checks.claim_daily("ORPHANS", 300, 999) == DailyClaim(after=None)


def test_daily_work_that_another_process_has_done_is_remembered(dynamodb: Any) -> None:
    first = aws_store(dynamodb).checks
    table = first._table  # type: ignore[attr-defined]
    second = aws_store(dynamodb).checks
    second._table = table  # type: ignore[attr-defined]
    assert first.claim_daily("ORPHANS", 100, 200)
    assert not second.claim_daily("ORPHANS", 150, 250)
    second._table = None  # type: ignore[attr-defined]
    assert not second.claim_daily("ORPHANS", 199, 299)


def test_a_heartbeat_never_goes_back(store: Store) -> None:
    storage = store
    assert storage.checks.swept_at_ms() is None
    for at_ms in (200, 200, 100):
        storage.checks.beat(at_ms)
    assert storage.checks.swept_at_ms() == 200
    storage.checks.beat(300)
    assert storage.checks.swept_at_ms() == 300


def test_a_query_that_fails_keeps_no_other_from_its_answer(dynamodb: Any) -> None:
    store = aws_store(dynamodb)
    for number in range(60):
        store.topic_states.create(a_state(f"topic-{number}", next_check_ms=number))
    table: Any = store.checks._table  # type: ignore[attr-defined]
    query, [shard, *_] = table.query_filtered, table_keys.check_shards()

    def refuse(condition: str, values: dict[str, Any], *more: Any, **others: Any) -> Any:
        if values["shard"] == shard:
            raise OSError("throttled")
        return query(condition, values, *more, **others)

    failed: dict[str, Exception] = {}
    with patch.object(table, "query_filtered", refuse):
        found = store.checks.due(100, failed)
        with pytest.raises(OSError, match="throttled"):
            store.checks.due(100)
    expected = [f"topic-{number}" for number in range(60) if table_keys.check_shard(f"topic-{number}") != shard]
    assert (found.topics, list(failed)) == (expected, [shard])
