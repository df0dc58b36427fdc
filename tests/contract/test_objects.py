"""Tests the port Objects, and properties of S3 alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.aws_resources import counted, make_s3_bucket
from tidewheel import clock as clocks
from tidewheel.aws.s3_objects import PART_BYTES, S3Objects
from tidewheel.clock import ManualClock, SystemClock
from tidewheel.errors import ObjectMissing
from tidewheel.memory import MemoryObjects
from tidewheel.storage.objects import Objects

DATA = bytes(range(256)) * 4
LARGE = DATA * (PART_BYTES // len(DATA))
"""As much as one part of an upload takes."""


def names(objects: Objects, prefix: str = "") -> list[str]:
    return [each.name for each in objects.list(prefix)]


@pytest.mark.parametrize("data", [DATA, memoryview(DATA)[3:900], b""])
def test_an_object_is_read_as_it_was_put(objects: Objects, data: bytes | memoryview) -> None:
    objects.put("ledgers/a", data)
    assert objects.get_range("ledgers/a", 0, 2000) == bytes(data)


def test_an_object_put_twice_is_the_second(objects: Objects) -> None:
    objects.put("plans/a", b"first, and longer")
    objects.put("plans/a", b"second")
    assert objects.get_range("plans/a", 0, 99) == b"second"


def test_a_new_object_is_put_and_an_existing_one_stays(objects: Objects) -> None:
    objects.put("payloads/a", b"first", new=True)
    objects.put("payloads/a", b"second, and longer", new=True)
    assert objects.get_range("payloads/a", 0, 99) == b"first"
    objects.delete(["payloads/a"])
    objects.put("payloads/a", b"third", new=True)
    assert objects.get_range("payloads/a", 0, 99) == b"third"


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 1), (0, 1024), (17, 300), (1023, 1), (1000, 5000), (5, 0), (1024, 9), (5000, 9)]
)
def test_a_range_is_read_and_ends_where_the_object_does(objects: Objects, offset: int, length: int) -> None:
    objects.put("ledgers/a", DATA)
    assert objects.get_range("ledgers/a", offset, length) == DATA[offset : offset + length]


def test_an_object_that_does_not_exist_is_missing_by_name(objects: Objects) -> None:
    with pytest.raises(ObjectMissing, match="ledgers/none does not exist; restore the object"):
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


def test_no_two_attempts_are_the_same(objects: Objects) -> None:
    attempts = {objects.new_attempt() for _ in range(100)}
    assert len(attempts) == 100
    assert all(re.fullmatch("[0-9a-f]{8,16}", attempt) for attempt in attempts)


@pytest.mark.parametrize(
    "pieces", [[], [b""], [DATA, memoryview(DATA)[3:900], b"", DATA], [LARGE], [LARGE, DATA], [DATA, LARGE + LARGE]]
)
def test_what_is_written_piece_by_piece_is_one_object(objects: Objects, pieces: list[bytes | memoryview]) -> None:
    with objects.create("ledgers/orders/a") as sink:
        for piece in pieces:
            sink.write(piece)
    expected = b"".join(pieces)
    assert objects.get_range("ledgers/orders/a", 0, len(expected) + 1) == expected


def test_an_object_is_there_only_when_it_is_complete(objects: Objects) -> None:
    with objects.create("ledgers/a") as sink:
        sink.write(LARGE)
        sink.write(LARGE)
        assert names(objects) == []
    assert names(objects) == ["ledgers/a"]


@pytest.mark.parametrize("pieces", [[], [DATA], [LARGE, LARGE, DATA]])
@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_an_object_whose_writing_fails_is_not_there(
    objects: Objects, pieces: list[bytes], failure: type[BaseException]
) -> None:
    with pytest.raises(failure, match="of the writer"), objects.create("ledgers/a") as sink:
        for piece in pieces:
            sink.write(piece)
        raise failure("of the writer")
    assert names(objects) == []
    with pytest.raises(ObjectMissing):
        objects.get_range("ledgers/a", 0, 1)


def test_a_failed_try_leaves_the_object_as_it_was(objects: Objects) -> None:
    objects.put("ledgers/a", DATA)
    with pytest.raises(ValueError, match="again"), objects.create("ledgers/a") as sink:
        sink.write(b"other")
        raise ValueError("again")
    assert objects.get_range("ledgers/a", 0, 2000) == DATA


def test_a_listing_has_the_names_with_a_prefix_in_order(objects: Objects) -> None:
    there = [
        "ledgers/orders-2/2026-01-01/3",
        "ledgers/orders/2026-01-02/1",
        "ledgers/orders/2026-01-01/2",
        "plans/orders/1",
    ]
    for name in there:
        objects.put(name, name.encode())
    assert names(objects) == sorted(there)
    assert names(objects, "ledgers/orders") == sorted(there[:3])
    assert names(objects, "ledgers/orders/") == sorted(there[1:3])
    assert names(objects, "ledgers/orders/2026-01-0") == sorted(there[1:3])
    assert names(objects, "ledgers/none/") == names(objects, "none") == []
    assert [each.name for each in objects.list("ledgers/", "ledgers/orders0")] == []
    assert [each.name for each in objects.list("ledgers/", "ledgers/orders-20")] == sorted(there[1:3])
    assert [each.name for each in objects.list("ledgers/", sorted(there)[1])] == [sorted(there)[2]]


def test_a_listing_says_how_large_objects_are_and_when_they_were_put(objects: Objects) -> None:
    before_ms = SystemClock().now_ms()
    objects.put("ledgers/a", DATA)
    [found] = objects.list("ledgers/")
    assert (found.name, found.size_bytes) == ("ledgers/a", len(DATA))
    assert before_ms - 2000 <= found.put_at_ms <= SystemClock().now_ms() + 2000


def test_a_moved_object_has_the_new_name_only(objects: Objects) -> None:
    objects.put("ledgers/orders/a", DATA)
    assert objects.get_range("ledgers/orders/a", 0, 1) == DATA[:1]
    objects.move("ledgers/orders/a", "aside/orders/a")
    assert names(objects, "ledgers/") == []
    assert names(objects, "aside/") == ["aside/orders/a"]
    assert objects.get_range("aside/orders/a", 0, 2000) == DATA
    with pytest.raises(ObjectMissing, match="ledgers/orders/a"):
        objects.get_range("ledgers/orders/a", 0, 1)


def test_an_object_that_does_not_exist_cannot_be_moved(objects: Objects) -> None:
    with pytest.raises(ObjectMissing, match="ledgers/none"):
        objects.move("ledgers/none", "aside/none")
    assert names(objects) == []


# ---- memory
def test_objects_in_memory_are_put_when_the_clock_says() -> None:
    clock = ManualClock(5000)
    objects = MemoryObjects(clock.now_ms)
    objects.put("a", DATA)
    with clocks.use(clock):
        clock.advance_ms(1000)
        by_current_clock = MemoryObjects()
        by_current_clock.put("a", DATA)
    assert [each.put_at_ms for each in objects.list("")] == [5000]
    assert [each.put_at_ms for each in by_current_clock.list("")] == [6000]


# ---- S3
@pytest.mark.parametrize("lost", ["deleted", "overwritten", "nothing"])
def test_the_newest_good_version_of_an_object_is_restored(s3: Any, lost: str) -> None:
    s3_bucket = make_s3_bucket(s3)
    s3.put_bucket_versioning(Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    objects = S3Objects(s3, s3_bucket=s3_bucket)
    for data in (b"older", b"good", b"", b"good, with a longer name"):
        objects.put("ledgers/a" if len(data) < 9 else "ledgers/ab", data)
    objects.put("ledgers/a", b"good!")
    if lost == "deleted":
        objects.delete(["ledgers/a"])
    elif lost == "overwritten":
        objects.put("ledgers/a", b"bad")
    with counted(s3) as counts:
        assert objects.restore("ledgers/a", lambda read: read(0, 4) == b"good")
    assert counts["CopyObject"] == (lost != "nothing")
    assert objects.get_range("ledgers/a", 0, 99) == b"good!"


def test_without_a_good_version_nothing_is_restored(objects: Objects) -> None:
    objects.put("ledgers/a", b"bad")
    assert not objects.restore("ledgers/a", lambda read: read(0, 4) == b"good")
    assert not objects.restore("ledgers/none", lambda read: read(0, 4) == b"good")
    assert objects.get_range("ledgers/a", 0, 99) == b"bad"


@pytest.mark.parametrize(
    ("size", "requests"),
    [
        (0, {"PutObject": 1}),
        (PART_BYTES, {"PutObject": 1}),
        (PART_BYTES + 1, {"CreateMultipartUpload": 1, "UploadPart": 2, "CompleteMultipartUpload": 1}),
        (2 * PART_BYTES, {"CreateMultipartUpload": 1, "UploadPart": 2, "CompleteMultipartUpload": 1}),
    ],
)
def test_an_object_is_uploaded_in_parts_of_16_mib(s3: Any, size: int, requests: dict[str, int]) -> None:
    objects = S3Objects(s3, s3_bucket=make_s3_bucket(s3))
    with counted(s3) as counts, objects.create("a") as sink:
        for start in range(0, size, PART_BYTES // 2):
            sink.write(LARGE[: min(PART_BYTES // 2, size - start)])
    assert counts == requests


def test_a_failed_upload_is_aborted(s3: Any) -> None:
    s3_bucket = make_s3_bucket(s3)
    objects = S3Objects(s3, s3_bucket=s3_bucket)
    with pytest.raises(ValueError, match="enough"), objects.create("a") as sink:
        sink.write(LARGE + DATA)
        assert len(s3.list_multipart_uploads(Bucket=s3_bucket)["Uploads"]) == 1
        raise ValueError("enough")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=s3_bucket)


def test_the_failure_of_an_upload_is_reported_even_if_its_abortion_fails_too() -> None:
    class Failing:
        def create_multipart_upload(self, **_: Any) -> Any:
            return {"UploadId": "u"}

        def upload_part(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": "wait"}}, "UploadPart")

        def abort_multipart_upload(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": "Other", "Message": "no"}}, "AbortMultipartUpload")

    objects = S3Objects(Failing(), s3_bucket="any")  # type: ignore[arg-type]
    with pytest.raises(ClientError, match="wait"), objects.create("a") as sink:
        sink.write(LARGE + DATA)


class Answering:
    """A client with given error codes as the answers of PutObject in turn. For None, PutObject writes the object."""

    def __init__(self, *codes: str | None) -> None:
        self.codes = list(codes)
        self.conditions: list[str | None] = []

    def put_object(self, **request: Any) -> None:
        self.conditions.append(request.get("IfNoneMatch"))
        code = self.codes.pop(0)
        if code is not None:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


@pytest.mark.parametrize(
    "codes",
    [
        (None,),
        ("PreconditionFailed",),
        ("ConditionalRequestConflict", None),
        ("ConditionalRequestConflict", "ConditionalRequestConflict", "PreconditionFailed"),
    ],
)
def test_a_new_object_whose_first_try_took_effect_or_is_under_way_is_put(codes: tuple[str | None, ...]) -> None:
    client = Answering(*codes)
    S3Objects(client, s3_bucket="any").put("a", DATA, new=True)  # type: ignore[arg-type]
    assert (client.codes, set(client.conditions)) == ([], {"*"})


@pytest.mark.parametrize(
    ("codes", "code"), [(("AccessDenied",), "AccessDenied"), (("ConditionalRequestConflict",) * 3, "Conflict")]
)
def test_a_new_object_that_s3_does_not_take_is_an_error(codes: tuple[str, ...], code: str) -> None:
    with pytest.raises(ClientError, match=code):
        S3Objects(Answering(*codes), s3_bucket="any").put("a", DATA, new=True)  # type: ignore[arg-type]


def test_a_listing_of_several_pages_is_whole(s3: Any) -> None:
    objects = S3Objects(s3, s3_bucket=make_s3_bucket(s3))
    for number in range(5):
        objects.put(f"ledgers/{number}", b"")

    def shorten(params: Any, **_: Any) -> None:
        params["MaxKeys"] = 2

    s3.meta.events.register("before-parameter-build.s3.ListObjectsV2", shorten)
    with counted(s3) as requests:
        assert names(objects, "ledgers/") == [f"ledgers/{number}" for number in range(5)]
    s3.meta.events.unregister("before-parameter-build.s3.ListObjectsV2", shorten)
    assert requests == {"ListObjectsV2": 3}


def test_each_call_on_s3_is_one_request(s3: Any) -> None:
    objects = S3Objects(s3, s3_bucket=make_s3_bucket(s3))
    with counted(s3) as requests:
        objects.put("a", DATA)
        objects.get_range("a", 3, 5)
        objects.get_range("a", 3, 0)
        objects.delete(f"name-{number}" for number in range(1001))
        objects.delete([])
    assert requests == {"PutObject": 1, "GetObject": 1, "DeleteObjects": 2}


def test_an_object_that_s3_could_not_delete_is_reported() -> None:
    class Refusing:
        def delete_objects(self, **_: Any) -> Any:
            return {"Errors": [{"Key": "a", "Code": "NoSuchKey"}, {"Key": "b", "Code": "SlowDown", "Message": "wait"}]}

    with pytest.raises(OSError, match="object b was not deleted: wait"):
        S3Objects(Refusing(), s3_bucket="any").delete(["a", "b"])  # type: ignore[arg-type]


def test_erased_objects_have_no_version_left_also_those_that_were_deleted_before(s3: Any) -> None:
    s3_bucket = make_s3_bucket(s3)
    s3.put_bucket_versioning(Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    objects = S3Objects(s3, s3_bucket=s3_bucket)
    for name in ("ledgers/a", "ledgers/a", "ledgers/b", "ledgers/ab"):
        objects.put(name, DATA)
    objects.delete(["ledgers/a"])
    objects.erase(["ledgers/a", "ledgers/b"])
    answer = s3.list_object_versions(Bucket=s3_bucket)
    assert [each["Key"] for each in (*answer["Versions"], *answer.get("DeleteMarkers", ()))] == ["ledgers/ab"]


def test_an_erased_object_is_gone_and_missing_objects_are_ignored(objects: Objects) -> None:
    objects.put("ledgers/orders/1", b"one")
    objects.put("ledgers/orders/11", b"other")
    objects.erase(["ledgers/orders/1", "ledgers/orders/2"])
    assert [each.name for each in objects.list("ledgers/")] == ["ledgers/orders/11"]
