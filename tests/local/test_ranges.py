"""The emulated S3 reads only the wanted range of an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import FakeKey

from tidewheel.local import LocalTidewheel

BODY = bytes(range(256)) * 4


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with LocalTidewheel() as stack:
        client: Any = stack.session.client("s3")
        client.create_bucket(Bucket="mine")
        client.put_object(Bucket="mine", Key="x", Body=BODY)
        yield client


@pytest.mark.parametrize(
    ("wanted", "content", "status"),
    [
        ("bytes=2-4", BODY[2:5], 206),
        ("bytes=1000-", BODY[1000:], 206),
        ("bytes=1000-5000", BODY[1000:], 206),
        ("bytes=-7", BODY[-7:], 206),
        ("bytes=5-4", BODY, 200),
        ("bytes=1-2,4-5", BODY, 200),
    ],
)
def test_a_range_is_answered_as_s3_answers_it(s3: Any, wanted: str, content: bytes, status: int) -> None:
    answer = s3.get_object(Bucket="mine", Key="x", Range=wanted)
    assert (answer["Body"].read(), answer["ResponseMetadata"]["HTTPStatusCode"]) == (content, status)
    assert answer["ContentLength"] == len(content)


def test_a_range_behind_the_end_is_refused(s3: Any) -> None:
    with pytest.raises(ClientError, match="InvalidRange"):
        s3.get_object(Bucket="mine", Key="x", Range="bytes=1024-1030")


def test_the_rest_of_the_object_is_not_read(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(_: FakeKey) -> bytes:
        raise AssertionError("the whole object is read")

    monkeypatch.setattr(FakeKey, "value", property(whole))
    assert s3.get_object(Bucket="mine", Key="x", Range="bytes=2-4")["Body"].read() == BODY[2:5]
