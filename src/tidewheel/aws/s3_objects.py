"""Stores objects in S3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import ObjectMissing, ObjectRefused
from tidewheel.ledger.sink import Sink
from tidewheel.model.object_names import random_attempt
from tidewheel.storage.objects import StoredObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedMultipartUploadTypeDef, CompletedPartTypeDef, ObjectIdentifierTypeDef

MAX_DELETES = 1000
"""Maximum objects of a DeleteObjects request."""
PART_BYTES = 16 * 1024 * 1024
"""Bytes of each part of an upload, except the last. With S3's limit of 10,000 parts, an object has up to 156 GiB."""


class S3Objects:
    """Implements the port `Objects` on a single S3 bucket.

    Args:
        client: boto3's S3 client.
        s3_bucket: the S3 bucket's name.
    """

    def __init__(self, client: S3Client, *, s3_bucket: str) -> None:
        self._client, self._s3_bucket = client, s3_bucket

    def new_attempt(self) -> str:
        """Returns random hexadecimal digits."""
        return random_attempt()

    def put(self, name: str, data: bytes | memoryview, *, new: bool = False) -> None:
        """Writes an object with a single request.

        Args:
            new: an existing object stays, which is no error: the client repeats a request whose answer was lost.
        """
        if not new:
            self._client.put_object(Bucket=self._s3_bucket, Key=name, Body=bytes(data))
            return
        for last in (False, False, True):
            try:
                self._client.put_object(Bucket=self._s3_bucket, Key=name, Body=bytes(data), IfNoneMatch="*")
                return
            except ClientError as error:
                match error.response["Error"]["Code"]:
                    case "PreconditionFailed":
                        return
                    case "ConditionalRequestConflict" if not last:  # an earlier try is still under way
                        continue
                    case _:
                        raise

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range with a single request.

        Sends no request for a length of 0. Returns b"" if the object ends before `offset`.

        Raises:
            ObjectMissing: there is no such object.
            ObjectRefused: the caller may not read it, or, without the right to list, there is none.
        """
        if length <= 0:
            return b""
        try:
            return self._read(name, offset, length)
        except ClientError as error:
            match error.response["Error"]["Code"]:
                case "NoSuchKey":
                    raise ObjectMissing(name) from None
                case "AccessDenied" | "403" as code:
                    raise ObjectRefused(name, error.response["Error"].get("Message", code)) from error
                case _:
                    raise

    def _read(self, name: str, offset: int, length: int, **version: Any) -> bytes:
        """Reads a range. Returns b"" if the object or version ends before `offset`."""
        span = f"bytes={offset}-{offset + length - 1}"
        try:
            answer = self._client.get_object(Bucket=self._s3_bucket, Key=name, Range=span, **version)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("InvalidRange", "416"):
                return b""
            raise
        return answer["Body"].read()

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        """Writes an object of up to 16 MiB with a PutObject, a larger object as a multipart upload.

        The upload is aborted if the block fails. After a crash, the S3 bucket's lifecycle rule removes the parts.
        """
        upload = _Upload(self._client, self._s3_bucket, name)
        try:
            yield upload
            upload.finish()
        except BaseException:
            upload.abort()
            raise

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists objects with a request for each thousand, sent when the first of the thousand is taken."""
        start: dict[str, str] = {} if after is None else {"StartAfter": after}
        paginator: Any = self._client.get_paginator("list_objects_v2")
        pages = paginator.paginate(Bucket=self._s3_bucket, Prefix=prefix, **start)
        for page in pages:
            for found in page.get("Contents", ()):
                yield StoredObject(
                    name=found["Key"],
                    size_bytes=found["Size"],
                    put_at_ms=round(found["LastModified"].timestamp() * 1000),
                )

    def copy(self, name: str, to: str) -> None:
        """Copies an object of at most 5 GB inside S3 with a single request.

        Raises:
            ObjectMissing: there is no such object.
        """
        try:
            self._client.copy_object(
                Bucket=self._s3_bucket, Key=to, CopySource={"Bucket": self._s3_bucket, "Key": name}
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                raise ObjectMissing(name) from None
            raise

    def move(self, name: str, to: str) -> None:
        """Copies an object, then deletes the old name. Sends two requests.

        Raises:
            ObjectMissing: there is no such object.
        """
        self.copy(name, to)
        self._client.delete_object(Bucket=self._s3_bucket, Key=name)

    def restore(self, name: str, whole: Callable[[Callable[[int, int], bytes]], bool]) -> bool:
        """Lists the object's versions, reads the newest first, and copies the first whole version."""
        paginator: Any = self._client.get_paginator("list_object_versions")
        for page in paginator.paginate(Bucket=self._s3_bucket, Prefix=name):
            for found in page.get("Versions", ()):
                if found["Key"] == name and whole(partial(self._read, name, VersionId=found["VersionId"])):
                    if not found["IsLatest"]:
                        source: Any = {"Bucket": self._s3_bucket, "Key": name, "VersionId": found["VersionId"]}
                        self._client.copy_object(Bucket=self._s3_bucket, Key=name, CopySource=source)
                    return True
        return False

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects, up to 1000 in each request.

        Raises:
            OSError: S3 reported that some objects were not deleted.
        """
        self._delete({"Key": name} for name in names)

    def erase(self, names: Iterable[str]) -> None:
        """Deletes objects in all versions, with a ListObjectVersions for each object.

        Raises:
            OSError: S3 reported that some versions were not deleted.
        """
        self._delete(each for name in names for each in self._versions(name))

    def _versions(self, name: str) -> Iterator[ObjectIdentifierTypeDef]:
        for page in self._client.get_paginator("list_object_versions").paginate(Bucket=self._s3_bucket, Prefix=name):
            for each in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                if each["Key"] == name:
                    yield {"Key": name, "VersionId": each["VersionId"]}

    def _delete(self, objects: Iterable[ObjectIdentifierTypeDef]) -> None:
        remaining = iter(objects)
        while chunk := list(islice(remaining, MAX_DELETES)):
            answer = self._client.delete_objects(Bucket=self._s3_bucket, Delete={"Objects": chunk, "Quiet": True})
            for failed in answer.get("Errors", ()):
                if failed.get("Code") != "NoSuchKey":
                    raise OSError(f"object {failed.get('Key')} was not deleted: {failed.get('Message')}")


class _Upload:
    """A sink for the bytes of a new object."""

    def __init__(self, client: S3Client, s3_bucket: str, name: str) -> None:
        self._client, self._s3_bucket, self._name = client, s3_bucket, name
        self._buffer = bytearray()
        self._upload_id: str | None = None
        self._parts: list[CompletedPartTypeDef] = []

    def write(self, data: bytes | memoryview, /) -> None:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PART_BYTES):
            self._buffer += view[start : start + PART_BYTES]
            if len(self._buffer) > PART_BYTES:
                self._send_part(PART_BYTES)

    def finish(self) -> None:
        if self._upload_id is None:
            self._client.put_object(Bucket=self._s3_bucket, Key=self._name, Body=bytes(self._buffer))
            return
        self._send_part(len(self._buffer))
        parts: CompletedMultipartUploadTypeDef = {"Parts": self._parts}
        self._client.complete_multipart_upload(
            Bucket=self._s3_bucket, Key=self._name, UploadId=self._upload_id, MultipartUpload=parts
        )

    def abort(self) -> None:
        if self._upload_id is None:
            return
        # Report the first failure, not this error. The lifecycle rule also removes the parts.
        with suppress(BotoCoreError, ClientError):
            self._client.abort_multipart_upload(Bucket=self._s3_bucket, Key=self._name, UploadId=self._upload_id)

    def _send_part(self, length: int) -> None:
        if self._upload_id is None:
            answer = self._client.create_multipart_upload(Bucket=self._s3_bucket, Key=self._name)
            self._upload_id = answer["UploadId"]
        number = len(self._parts) + 1
        part = self._client.upload_part(
            Bucket=self._s3_bucket,
            Key=self._name,
            UploadId=self._upload_id,
            PartNumber=number,
            Body=bytes(memoryview(self._buffer)[:length]),
        )
        self._parts.append({"ETag": part["ETag"], "PartNumber": number})
        del self._buffer[:length]
