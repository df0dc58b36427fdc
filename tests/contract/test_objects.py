"""Objects: the port, and what is S3's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.aws_resources import counted, make_s3_bucket
from tidewheel.aws import s3_layout
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.bucket import BucketId
from tidewheel.errors import ObjectMissing
from tidewheel.flows.ports import Objects

DATA = bytes(range(256)) * 4


@pytest.mark.parametrize("data", [DATA, memoryview(DATA)[3:900], b""])
def test_an_object_is_read_as_it_was_put(objects: Objects, data: bytes | memoryview) -> None:
    objects.put("ledgers/a", data)
    assert objects.get_range("ledgers/a", 0, 2000) == bytes(data)


def test_an_object_put_twice_is_the_second(objects: Objects) -> None:
    objects.put("plans/a", b"first, and longer")
    objects.put("plans/a", b"second")
    assert objects.get_range("plans/a", 0, 99) == b"second"


@pytest.mark.parametrize(("offset", "length"), [(0, 1), (0, 1024), (17, 300), (1023, 1), (1000, 5000), (5, 0)])
def test_a_range_is_read_and_ends_where_the_object_does(objects: Objects, offset: int, length: int) -> None:
    objects.put("ledgers/a", DATA)
    assert objects.get_range("ledgers/a", offset, length) == DATA[offset : offset + length]


@pytest.mark.parametrize("offset", [1024, 5000])
def test_a_range_behind_the_end_is_empty(objects: Objects, offset: int) -> None:
    objects.put("ledgers/a", DATA)
    assert objects.get_range("ledgers/a", offset, 10) == b""


def test_an_object_that_does_not_exist_is_missing_by_name(objects: Objects) -> None:
    with pytest.raises(ObjectMissing, match="ledgers/none"):
        objects.get_range("ledgers/none", 0, 10)


def test_deleted_objects_are_gone_and_may_be_deleted_again(objects: Objects) -> None:
    for name in ("ledgers/a", "ledgers/b", "ledgers/c"):
        objects.put(name, DATA)
    objects.delete(iter(["ledgers/a", "ledgers/b", "ledgers/none"]))
    objects.delete(["ledgers/a"])
    objects.delete([])
    for name in ("ledgers/a", "ledgers/b"):
        with pytest.raises(ObjectMissing):
            objects.get_range(name, 0, 1)
    assert objects.get_range("ledgers/c", 0, 1) == DATA[:1]


def test_no_two_attempts_at_a_ledger_have_one_name(objects: Objects) -> None:
    names = {objects.new_ledger_name("orders", 100, 300_000, BucketId("b1")) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("ledgers/orders/") and "b1" in name for name in names)


# ---- S3
def test_ledgers_are_named_by_the_day_of_their_first_slot() -> None:
    slot = 1_769_817_600_000 // 300_000 - 1  # five minutes before 2026-01-31
    assert s3_layout.ledger_name("orders", slot, 300_000, BucketId("b1"), "f00d") == (
        f"ledgers/orders/2026-01-30/{slot}-b1-f00d.parquet"
    )
    assert s3_layout.window(slot + 1, 300_000) == "2026-01-31"
    assert s3_layout.plan_name("orders", 17, "f00d") == "plans/orders/17-f00d.json.z"


def test_each_call_on_s3_is_one_request(s3: Any) -> None:
    objects = S3Objects(s3, s3_bucket=make_s3_bucket(s3))
    with counted(s3) as requests:
        objects.put("a", DATA)
        objects.get_range("a", 3, 5)
        objects.get_range("a", 3, 0)
        objects.delete(f"name-{number}" for number in range(1001))
        objects.delete([])
    assert requests == {"PutObject": 1, "GetObject": 1, "DeleteObjects": 2}


def test_a_range_is_read_with_a_range_request(s3: Any) -> None:
    objects = S3Objects(s3, s3_bucket=make_s3_bucket(s3))
    objects.put("a", DATA)
    asked: list[Any] = []

    def note(params: Any, **_: Any) -> None:
        asked.append(params["headers"]["Range"])

    s3.meta.events.register("before-call.s3.GetObject", note)
    objects.get_range("a", 3, 5)
    s3.meta.events.unregister("before-call.s3.GetObject", note)
    assert asked == ["bytes=3-7"]


def test_an_object_that_s3_could_not_delete_is_reported() -> None:
    class Refusing:
        def delete_objects(self, **_: Any) -> Any:
            return {"Errors": [{"Key": "a", "Code": "NoSuchKey"}, {"Key": "b", "Code": "SlowDown", "Message": "wait"}]}

    with pytest.raises(OSError, match="object b was not deleted: wait"):
        S3Objects(Refusing(), s3_bucket="any").delete(["a", "b"])  # type: ignore[arg-type]
