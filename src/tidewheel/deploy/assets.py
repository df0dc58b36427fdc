"""Keeps a stack's archives in an S3 bucket of its own, made before the stack and removed after the stack.

The bucket's name can be guessed, so each call names the account that must own the bucket.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.deploy.archives import Archive
from tidewheel.errors import DeployFailed, DeployRefused

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

OLD_VERSION_DAYS = 30
"""Time for which S3 keeps a deleted archive, in case that somebody deploys an old template by hand."""
LEAST_AGE = timedelta(days=1)
"""A younger archive may belong to a deployment that runs now."""
_MISSING = ("404", "NoSuchBucket", "NoSuchKey")


def bucket_name(account: str, region: str, stack: str) -> str:
    """Returns the name of a stack's bucket."""
    return f"tidewheel-{account}-{region}-{hashlib.sha256(stack.encode()).hexdigest()[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """A stack's S3 bucket with archives.

    Attributes:
        s3: The client.
        name: The bucket's name.
        owner: The account that must own the bucket.
    """

    s3: S3Client
    name: str
    owner: str

    @property
    def _at(self) -> Any:
        return {"Bucket": self.name, "ExpectedBucketOwner": self.owner}

    def prepare(self, region: str, key_arn: str | None, tags: Mapping[str, str]) -> None:
        """Creates the bucket if necessary, then sets all its settings. A repetition completes an interrupted call.

        Raises:
            DeployRefused: Another account owns the bucket.
        """
        place: Any = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            self.s3.create_bucket(Bucket=self.name, **place)
        except ClientError as error:
            if error.response["Error"]["Code"] == "BucketAlreadyExists":
                raise DeployRefused(
                    f"another account owns the S3 bucket {self.name}: give --stack another name"
                ) from None
            if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
                raise
        blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        private: Any = dict.fromkeys(blocked, True)
        self.s3.put_public_access_block(PublicAccessBlockConfiguration=private, **self._at)
        self.s3.put_bucket_versioning(VersioningConfiguration={"Status": "Enabled"}, **self._at)
        if key_arn:
            rule = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key_arn}
            encryption: Any = {"Rules": [{"ApplyServerSideEncryptionByDefault": rule, "BucketKeyEnabled": True}]}
            self.s3.put_bucket_encryption(ServerSideEncryptionConfiguration=encryption, **self._at)
        expire: Any = {
            "ID": "forget-old-archives",
            "Status": "Enabled",
            "Filter": {},
            "NoncurrentVersionExpiration": {"NoncurrentDays": OLD_VERSION_DAYS},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
        }
        self.s3.put_bucket_lifecycle_configuration(LifecycleConfiguration={"Rules": [expire]}, **self._at)
        arn = f"arn:{self.s3.meta.partition}:s3:::{self.name}"
        insecure = {"Bool": {"aws:SecureTransport": "false"}}
        deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": [arn, f"{arn}/*"]}
        policy = {"Version": "2012-10-17", "Statement": [{**deny, "Condition": insecure}]}
        self.s3.put_bucket_policy(Policy=json.dumps(policy), **self._at)
        if tags:
            listed: Any = [{"Key": key, "Value": value} for key, value in tags.items()]
            self.s3.put_bucket_tagging(Tagging={"TagSet": listed}, **self._at)

    @contextmanager
    def template(self, text: str) -> Iterator[str]:
        """Stores a template while a block runs. Yields the URL for CloudFormation."""
        key = f"template-{hashlib.sha256(text.encode()).hexdigest()}.json"
        self.s3.put_object(Key=key, Body=text.encode(), **self._at)
        try:
            yield f"{self.s3.meta.endpoint_url}/{self.name}/{key}"
        finally:
            empty(self.s3, self.name, self.owner, prefix=key)

    def upload(self, archive: Archive) -> bool:
        """Makes and stores an archive, unless the bucket has the archive. Returns whether the archive was stored.

        Raises:
            BundleFailed: The archive could not be made.
        """
        if self._has(archive.key):
            return False
        with TemporaryDirectory() as folder:
            archive.write(Path(folder))
            [file] = Path(folder).iterdir()
            self.s3.upload_file(str(file), self.name, archive.key, ExtraArgs={"ExpectedBucketOwner": self.owner})
        return True

    def _has(self, key: str) -> bool:
        try:
            self.s3.head_object(Key=key, **self._at)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _MISSING:
                raise
            return False
        return True

    def keep(self, keys: Collection[str], now: datetime | None = None) -> None:
        """Deletes all objects but some and those of the last day. S3 keeps each for OLD_VERSION_DAYS."""
        before = (now or datetime.now(UTC)) - LEAST_AGE
        for page in self.s3.get_paginator("list_objects_v2").paginate(**self._at):
            for each in page.get("Contents", []):
                if each["Key"] not in keys and each["LastModified"] < before:
                    self.s3.delete_object(Key=each["Key"], **self._at)

    def exists(self) -> bool:
        """Returns whether there is a bucket."""
        try:
            self.s3.head_bucket(**self._at)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _MISSING:
                raise
            return False
        return True

    def remove(self) -> None:
        """Empties and deletes the bucket."""
        if self.exists():
            empty(self.s3, self.name, self.owner)
            self.s3.delete_bucket(**self._at)


def empty(s3: S3Client, bucket: str, owner: str, prefix: str = "") -> None:
    """Deletes all versions of all objects with a prefix, up to 1,000 a call.

    Raises:
        DeployFailed: S3 refused to delete an object.
    """
    at: Any = {"Bucket": bucket, "ExpectedBucketOwner": owner}
    for page in s3.get_paginator("list_object_versions").paginate(Prefix=prefix, **at):
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        listed: Any = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
        if not listed:
            continue
        for failed in s3.delete_objects(Delete={"Objects": listed, "Quiet": True}, **at).get("Errors", []):
            raise DeployFailed(f"S3 did not delete {failed.get('Key')} of {bucket}: {failed.get('Message')}")
