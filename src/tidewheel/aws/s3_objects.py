"""Objects in S3."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidewheel.aws import s3_layout
from tidewheel.bucket import BucketId
from tidewheel.errors import ObjectMissing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_DELETES = 1000
"""Objects of one DeleteObjects request."""


class S3Objects:
    """The port `Objects` in one S3 bucket.

    Args:
        client: boto3's S3 client.
        s3_bucket: the S3 bucket's name.
    """

    def __init__(self, client: S3Client, *, s3_bucket: str) -> None:
        self._client = client
        self._s3_bucket = s3_bucket

    def new_ledger_name(self, topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId) -> str:
        """Returns a ledger's name with a random end."""
        return s3_layout.ledger_name(topic, first_slot, slot_ms, bucket_id, s3_layout.attempt())

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Writes an object whole: one request."""
        self._client.put_object(Bucket=self._s3_bucket, Key=name, Body=bytes(data))

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range: one request, none for a length of 0; b"" if the object ends before `offset`.

        Raises:
            ObjectMissing: there is no such object.
        """
        if length <= 0:
            return b""
        try:
            answer = self._client.get_object(
                Bucket=self._s3_bucket, Key=name, Range=f"bytes={offset}-{offset + length - 1}"
            )
        except ClientError as error:
            match error.response["Error"]["Code"]:
                case "NoSuchKey":
                    raise ObjectMissing(name) from None
                case "InvalidRange" | "416":
                    return b""
                case _:
                    raise
        return answer["Body"].read()

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects, up to 1000 a request.

        Raises:
            OSError: S3 reported that some were not deleted.
        """
        remaining = iter(names)
        while chunk := list(islice(remaining, MAX_DELETES)):
            answer = self._client.delete_objects(
                Bucket=self._s3_bucket, Delete={"Objects": [{"Key": name} for name in chunk], "Quiet": True}
            )
            for failed in answer.get("Errors", ()):
                if failed.get("Code") != "NoSuchKey":
                    raise OSError(f"object {failed.get('Key')} was not deleted: {failed.get('Message')}")
