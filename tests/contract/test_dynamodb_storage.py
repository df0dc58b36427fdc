"""Tests requests, keys, races, versions and manifests of the storage, beyond the ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from botocore.exceptions import ClientError

from tests.contract.aws_resources import counted, has_endpoints, make_table
from tests.contract.builders import (
    Store,
    a_bucket,
    a_delivery,
    a_message_id,
    a_plan,
    a_state,
    raise_next_slot,
    some_trash,
)
from tests.contract.conftest import aws_store
from tidewheel.errors import ConcurrentModification, CorruptMetadata, NewerRelease
from tidewheel.memory import MemoryObjects
from tidewheel.model.key import KeyEntry
from tidewheel.model.park import ParkKey
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import NextWork
from tidewheel.storage import table_keys
from tidewheel.storage.buckets import Commit
from tidewheel.storage.deliveries import HandOut
from tidewheel.storage.items import VERSION
from tidewheel.storage.keys import FoundKeys, NotInLedgers
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import ATTEMPTS, THROTTLED_ATTEMPTS, Table

NEXT = NextWork(next_slot=105, next_check_ms=7000, collect_at_ms=None)


@pytest.fixture
def store(dynamodb: Any) -> Store:
    """An empty table, with DynamoDB's own page size."""
    return aws_store(dynamodb)


def table_of(store: Store) -> str:
    return str(store.topic_states._table._name)  # type: ignore[attr-defined]


def raw_items(dynamodb: Any, store: Store) -> dict[tuple[str, str], Any]:
    found = dynamodb.scan(TableName=table_of(store))["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]): item for item in found}


# ---- requests


def test_reads_that_decide_are_strongly_consistent_and_go_page_by_page(dynamodb: Any) -> None:
    store = aws_store(dynamodb, page_size=2)
    store.topic()
    for number in range(5):
        store.buckets.commit(store.current(), a_bucket(105, id=f"b{number}"), None if number else NEXT)
    asked: list[Any] = []

    def note(params: Any, **_: Any) -> None:
        asked.append(params)

    dynamodb.meta.events.register("provide-client-params.dynamodb.Query", note)
    store.buckets.all("orders")
    dynamodb.meta.events.unregister("provide-client-params.dynamodb.Query", note)
    assert [request["ConsistentRead"] for request in asked] == [True] * 3
    assert ["ExclusiveStartKey" in request for request in asked] == [False, True, True]


def test_single_items_are_read_strongly_consistent_too(dynamodb: Any, store: Store) -> None:
    store.topic()
    delivery = store.delivered()
    storage, [subscription] = store, store.subscriptions.all("orders")
    park = ParkKey(topic="orders", subscription="billing", generation=subscription.generation, id="p1")
    asked: list[Any] = []

    def note(params: Any, **_: Any) -> None:
        asked.append(params)

    reads: list[Callable[[], object]] = [
        lambda: storage.topic_states.read("orders"),
        lambda: storage.deletions.read("orders"),
        lambda: storage.subscriptions.read("orders", "billing"),
        lambda: storage.deliveries.read(delivery.key),
        lambda: storage.plans.read("orders", 100),
        lambda: storage.parks.read(park),
        lambda: storage.tombstones.read("orders", 103, a_message_id()),
        lambda: storage.keys.read("orders", "k"),
        lambda: storage.recurring.read("orders", "daily"),
    ]
    dynamodb.meta.events.register("provide-client-params.dynamodb.GetItem", note)
    for read in reads:
        read()
    dynamodb.meta.events.unregister("provide-client-params.dynamodb.GetItem", note)
    assert len(asked) == len(reads)
    assert all(request.get("ConsistentRead") is True for request in asked), asked


# ---- items
def test_every_item_is_at_its_documented_key(dynamodb: Any, store: Store) -> None:
    state = store.topic()
    store.buckets.commit(state, a_bucket(105), NEXT)
    [subscription] = store.subscribed()
    step = HandOut(subscription=subscription, to=103, delivery=a_delivery(subscription))
    store.plans.commit(store.current(), a_plan(), 103, [step])
    store.tombstones.put("orders", Tombstone(105, a_message_id(1), 99))
    store.put_trash(some_trash(103))
    store.merges.lease("orders", 1, 2)
    found = raw_items(dynamodb, store)
    assert set(found) == {
        ("T#orders", "STATE"),
        ("T#orders", "BUCKET#000000000105-b1"),
        ("T#orders", "PLAN#000000000100"),
        ("T#orders", "SUB#billing"),
        ("T#orders", "DELIVERY#billing#s1#000000000100"),
        ("T#orders", "TRASH#000000000103#t1"),
        ("T#orders", "MERGE"),
        ("T#orders#TOMB", f"000000000105#{a_message_id(1)}"),
    }
    assert {item["v"]["N"] for item in found.values()} == {"1"}
    assert found["T#orders#TOMB", f"000000000105#{a_message_id(1)}"]["ttl"] == {"N": "99"}


def test_an_item_is_in_the_check_index_exactly_while_it_must_be_checked(dynamodb: Any, store: Store) -> None:
    state = store.topic()
    key = table_keys.topic_state_key("orders")
    assert not {"check_shard", "next_check_ms", "next_slot", "collect_at_ms"} & set(raw_items(dynamodb, store)[key])
    store.buckets.commit(state, a_bucket(105), NEXT)
    item = raw_items(dynamodb, store)[key]
    assert (item["check_shard"], item["next_check_ms"]) == ({"S": f"W#{crc32(b'orders') % 16:02d}"}, {"N": "7000"})
    raise_next_slot(store, store.current(), NextWork(next_slot=None, next_check_ms=None, collect_at_ms=None))
    assert not {"check_shard", "next_check_ms", "next_slot", "collect_at_ms"} & set(raw_items(dynamodb, store)[key])


def test_keys_sort_as_slots_do_and_delivery_keys_are_read_back() -> None:
    slots = [0, 9, 10, 999, 5_899_393, 10**11]
    assert sorted(table_keys.plan_key("t", slot) for slot in slots) == [
        table_keys.plan_key("t", slot) for slot in slots
    ]
    key = a_delivery().key
    assert table_keys.parse_delivery_key(table_keys.delivery_key(key)) == key
    with pytest.raises(ValueError, match="unpack"):
        table_keys.parse_delivery_key(table_keys.topic_state_key("t"))


# ---- what cannot be read
@pytest.mark.parametrize(
    "broken", [{"sealed": {"S": "x"}}, {"settings": {"S": "{"}}, {"settings": {"S": '{"slot_s": 0}'}}]
)
def test_an_item_that_is_not_readable_is_named(dynamodb: Any, store: Store, broken: Any) -> None:
    store.topic()
    item = raw_items(dynamodb, store)["T#orders", "STATE"]
    dynamodb.put_item(TableName=table_of(store), Item=item | broken)
    with pytest.raises(CorruptMetadata, match="item T#orders/STATE is not readable"):
        store.topic_states.read("orders")


# ---- manifests
def large_plan() -> Any:
    return a_plan(cancelled=60_000)


def test_a_manifest_too_large_for_an_item_is_an_object_that_the_item_names(dynamodb: Any, store: Store) -> None:
    store.plans.commit(store.topic(), large_plan(), 103)
    [name] = store.object_names()
    assert name.startswith("plans/orders/100-")
    item = raw_items(dynamodb, store)["T#orders", "PLAN#000000000100"]
    assert item["object_name"] == {"S": name}
    assert "manifest" not in item


def test_the_object_of_a_plan_goes_after_the_item(dynamodb: Any) -> None:
    deleted: list[int] = []

    class Noting(MemoryObjects):
        def delete(self, names: Any) -> None:
            deleted.append(dynamodb.scan(TableName=table)["Count"])
            super().delete(names)

    table = make_table(dynamodb)
    storage = Storage(Table(dynamodb, table), Noting())
    storage.topic_states.create(a_state())
    storage.plans.commit(a_state(), large_plan(), 103)
    storage.plans.delete("orders", 100)
    assert deleted == [1]


def test_a_plan_that_is_not_read_whole_has_its_range_though_its_manifest_is_gone(dynamodb: Any, store: Store) -> None:
    store.plans.commit(store.topic(), large_plan(), 103)
    store.plans.commit(store.current(), a_plan(103, 105), 105)
    for name in store.object_names():
        store.objects.delete([name])
    large = store.plans.read("orders", 100, whole=False)
    assert large is not None and (large.first_slot, large.end_slot, large.segments) == (100, 103, ())
    assert store.plans.next("orders", 90, whole=False) == large
    assert store.plans.next("orders", 101, whole=False) == a_plan(103, 105)


@pytest.mark.skipif(not has_endpoints(), reason="moto takes no notice of ClientRequestToken")
def test_a_plan_whose_answer_was_lost_is_committed_by_the_second_try(dynamodb: Any, store: Store) -> None:
    """DynamoDB remembers a transaction's token for ten minutes, so a repetition succeeds and changes nothing."""
    state = store.topic()
    with failing(dynamodb, [(None, "TransactionInProgressException")], after=True):
        assert store.plans.commit(state, large_plan(), 103)
    assert store.plans.read("orders", 100) == large_plan()
    assert store.current().planned == 103
    assert len(store.object_names()) == 1


def test_a_manifest_stays_if_the_plan_that_seems_refused_was_put_after_all(dynamodb: Any, store: Store) -> None:
    """DynamoDB has forgotten the first try's token, so the second is refused by the first one's work."""
    state = store.topic()
    with failing(dynamodb, [(None, "TransactionInProgressException")], after=True, forgotten=True):
        assert not store.plans.commit(state, large_plan(), 103)
    assert store.plans.read("orders", 100) == large_plan()
    assert len(store.object_names()) == 1


# ---- races
class failing:
    """Makes requests of a client fail, either refused by DynamoDB or after their effect.

    Args:
        failures: of each request in turn, the codes of its cancelled writes (None: no such list) and its error code.
        after: whether DynamoDB does what a request asks before the request fails.
        forgotten: whether DynamoDB then forgets the token of the request.
    """

    def __init__(
        self,
        boto3_client: Any,
        failures: list[tuple[list[str] | None, str]],
        *,
        after: bool = False,
        forgotten: bool = False,
    ) -> None:
        self._client = boto3_client
        self._failures = list(failures)
        self._after = after
        self._forgotten = {"ClientRequestToken"} if forgotten else set[str]()
        self._names = ("transact_write_items", "update_item", "put_item", "delete_item")

    def __enter__(self) -> None:
        for name in self._names:
            setattr(self._client, name, self._wrapped(getattr(self._client, name)))

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            delattr(self._client, name)

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(**request: Any) -> Any:
            if not self._failures:
                return call(**request)
            if self._after:
                # Without a token of ours, botocore makes one up.
                call(**{name: value for name, value in request.items() if name not in self._forgotten})
            reasons, code = self._failures.pop(0)
            answer: Any = {"Error": {"Code": code, "Message": code}}
            if reasons is not None:
                answer["CancellationReasons"] = [{"Code": reason} for reason in reasons]
            raise self._client.exceptions.from_code(code)(answer, "any")

        return wrapped


CANCELLED = "TransactionCanceledException"


@pytest.mark.parametrize(
    "failure",
    [
        (["None", "TransactionConflict"], CANCELLED),
        (["ThrottlingError", "None"], CANCELLED),
        (["ProvisionedThroughputExceeded", "TransactionConflict"], CANCELLED),
        (None, "TransactionInProgressException"),
        (None, "ThrottlingException"),
        (None, "ProvisionedThroughputExceededException"),
    ],
)
def test_a_transaction_that_lost_a_race_is_tried_again(dynamodb: Any, failure: Any) -> None:
    pauses: list[float] = []
    storage = Storage(Table(dynamodb, make_table(dynamodb), sleep=pauses.append), MemoryObjects())
    storage.topic_states.create(a_state())
    with failing(dynamodb, [failure] * 3):
        assert storage.buckets.commit(a_state(), a_bucket(105), NEXT) is Commit.COMMITTED
    assert len(pauses) == 3
    assert all(0 <= pause < 1 for pause in pauses)


@pytest.mark.parametrize("code", ["TransactionConflictException", "ThrottlingException"])
def test_a_single_change_that_lost_a_race_is_tried_again(dynamodb: Any, store: Store, code: str) -> None:
    state = store.topic()
    with failing(dynamodb, [(None, code)] * 2):
        sealed = store.topic_states.seal(state, 105)
    assert sealed is not None
    assert sealed.sealed == 105


@pytest.mark.parametrize(
    "failure", [(["ThrottlingError", "None"], CANCELLED), (None, "ThrottlingException")], ids=["transaction", "write"]
)
def test_a_throttled_write_is_tried_a_few_times_with_longer_waits(dynamodb: Any, failure: Any) -> None:
    pauses: list[float] = []
    storage = Storage(Table(dynamodb, make_table(dynamodb), sleep=pauses.append), MemoryObjects())
    storage.topic_states.create(a_state())
    with failing(dynamodb, [failure] * ATTEMPTS), pytest.raises(ConcurrentModification):
        storage.buckets.commit(a_state(), a_bucket(105), NEXT)
    assert len(pauses) == THROTTLED_ATTEMPTS - 1
    assert all(pause <= 0.1 * 2 ** (place + 1) for place, pause in enumerate(pauses))


def test_who_loses_every_race_is_told_so(dynamodb: Any, store: Store) -> None:
    store.topic()
    with (
        failing(dynamodb, [(["TransactionConflict", "None"], CANCELLED)] * ATTEMPTS),
        pytest.raises(
            ConcurrentModification, match=f"commit_bucket on topic 'orders' met .* in all {ATTEMPTS} attempts"
        ),
    ):
        store.buckets.commit(a_state(), a_bucket(105), NEXT)


def test_a_failed_condition_beside_a_conflict_is_an_answer(dynamodb: Any, store: Store) -> None:
    store.topic()
    with failing(dynamodb, [(["ConditionalCheckFailed", "TransactionConflict"], CANCELLED)]):
        assert store.buckets.commit(a_state(), a_bucket(105), NEXT) is Commit.EXISTS
    with failing(dynamodb, [(["TransactionConflict", "ConditionalCheckFailed"], CANCELLED)]):
        assert store.buckets.commit(a_state(), a_bucket(105), NEXT) is Commit.MOVED


@pytest.mark.parametrize(
    ("reasons", "code"), [(["None", "ValidationError"], CANCELLED), (None, "AccessDeniedException")]
)
def test_any_other_error_comes_out(dynamodb: Any, store: Store, reasons: list[str] | None, code: str) -> None:
    store.topic()
    with failing(dynamodb, [(reasons, code)]), pytest.raises(ClientError, match=code):
        store.buckets.commit(a_state(), a_bucket(105), NEXT)


# ---- items that cannot be read
def damage(dynamodb: Any, store: Store, sort_key: str, attribute: str, value: dict[str, Any]) -> None:
    """Gives an attribute of the items with a sort key another value."""
    for partition, key in raw_items(dynamodb, store):
        if key == sort_key:
            dynamodb.update_item(
                TableName=table_of(store),
                Key={"pk": {"S": partition}, "sk": {"S": key}},
                UpdateExpression="SET #a = :a",
                ExpressionAttributeNames={"#a": attribute},
                ExpressionAttributeValues={":a": value},
            )


def test_a_note_that_cannot_be_read_counts_as_none(dynamodb: Any, store: Store) -> None:
    store.topic()
    store.notes.put("orders", "m1", 105, 99)
    damage(dynamodb, store, "m1", "number", {"M": {}})
    assert store.notes.read("orders", "m1") is None
    damage(dynamodb, store, "m1", "v", {"N": str(VERSION + 1)})
    with pytest.raises(NewerRelease):
        store.notes.read("orders", "m1")


def test_a_check_that_cannot_be_read_hides_no_other(dynamodb: Any, store: Store) -> None:
    for topic in ("bad", "good"):
        store.topic_states.create(replace(a_state(), topic=topic, next_check_ms=5000))
    damage(dynamodb, store, table_keys.STATE, "next_check_ms", {"N": "4999.5"})
    assert sorted(store.checks.due(6000).topics) == ["bad", "good"]


def test_a_key_that_cannot_be_read_hides_no_other_and_few_keys_take_one_query_a_partition(
    dynamodb: Any, store: Store
) -> None:
    entries = [KeyEntry(key=key, id=None, sent_ms=1, seq=1, ttl_s=9, floor=(1, 1)) for key in ("a", "b", "c")]
    for entry in entries:
        store.keys.claim("orders", entry)
    item = raw_items(dynamodb, store)[table_keys.key_key("orders", "b")]
    dynamodb.put_item(TableName=table_of(store), Item=item | {"seq": {"S": "one"}})
    wanted = NotInLedgers(now_ms=0, first_id=a_message_id(0), end_id=a_message_id(0), most=9)
    with counted(dynamodb) as requests:
        found = store.keys.not_in_ledgers("orders", wanted)
    assert found == FoundKeys(entries=[entries[0], entries[2]], examined=3)
    assert dict(requests) == {"Query": table_keys.KEY_SHARDS}
