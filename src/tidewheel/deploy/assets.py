"""Keeps a stack's archives in an S3 bucket of its own, made before the stack and removed after the stack.

The bucket's name can be guessed, so each call names the account that must own the bucket.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.exceptions import ClientError

from tidewheel.bundling.functions import functions_hash, write_bundle
from tidewheel.bundling.jobs import WHEELS_SUFFIX, package_hash, wheels_hash, write_package, write_wheels
from tidewheel.bundling.pinned_packages import MACHINES
from tidewheel.errors import DeployFailed, DeployRefused
from tidewheel.shipped import GLUE_JOBS, shipped

EXPIRE = {
    "ID": "forget-old-archives",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
}
"""Deleted archives stay for 30 days, in case that somebody deploys an old template by hand."""
LEAST_AGE = timedelta(days=1)
"""A younger archive may belong to a deployment that runs now."""
_MISSING = ("404", "NoSuchBucket", "NoSuchKey")


def archive(parameter: str, architecture: str) -> tuple[str, Callable[[Path], object]]:
    """Returns the key of an archive, with a hash of its content, and how to write the archive to an empty folder."""
    if parameter == "FunctionsKey":
        machine = MACHINES[architecture]
        return f"functions-{functions_hash(machine)}.zip", partial(write_bundle, machine=machine)
    if parameter == "JobPackageKey":
        return f"package-{package_hash()}.zip", write_package
    if parameter == "JobWheelsKey":
        return f"wheels-{wheels_hash()}{WHEELS_SUFFIX}", write_wheels
    [script] = shipped(GLUE_JOBS).glob(f"{parameter.removesuffix('ScriptKey').lower()}_*.py")
    return f"{script.stem}-{hashlib.sha256(script.read_bytes()).hexdigest()}.py", partial(shutil.copy, script)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """An S3 bucket of one account.

    Attributes:
        s3: The client.
        name: The bucket's name.
        owner: The account that must own the bucket.
    """

    s3: Any
    name: str
    owner: str

    def call(self, operation: str, **request: Any) -> Any:
        """Calls an operation of the client on the bucket."""
        return getattr(self.s3, operation)(Bucket=self.name, ExpectedBucketOwner=self.owner, **request)

    def pages(self, operation: str, **request: Any) -> Any:
        """Returns the pages of a list."""
        pages = self.s3.get_paginator(operation)
        return pages.paginate(Bucket=self.name, ExpectedBucketOwner=self.owner, **request)

    def has(self, key: str | None = None) -> bool:
        """Returns whether an object, or the bucket itself, exists."""
        try:
            self.call("head_bucket") if key is None else self.call("head_object", Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _MISSING:
                raise
            return False
        return True

    def empty(self, prefix: str = "") -> None:
        """Deletes all versions of all objects with a prefix, up to 1,000 a call.

        Raises:
            DeployFailed: S3 refused to delete an object.
        """
        for page in self.pages("list_object_versions", Prefix=prefix):
            found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            listed = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            done = self.call("delete_objects", Delete={"Objects": listed, "Quiet": True}) if listed else {}
            if failed := done.get("Errors"):
                raise DeployFailed(f"S3 did not delete {failed[0]['Key']} of {self.name}: {failed[0]['Message']}")

    def prepare(self, region: str, key_arn: str) -> None:
        """Creates the bucket if necessary, then sets all its settings. A repetition completes an interrupted call.

        Raises:
            DeployRefused: Another account owns the bucket.
        """
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            self.s3.create_bucket(Bucket=self.name, **place)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "BucketAlreadyExists":
                advice = "give --stack another name"
                raise DeployRefused(f"another account owns the S3 bucket {self.name}: {advice}") from None
            if code != "BucketAlreadyOwnedByYou":
                raise
        blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        self.call("put_public_access_block", PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
        self.call("put_bucket_versioning", VersioningConfiguration={"Status": "Enabled"})
        self.call("put_bucket_lifecycle_configuration", LifecycleConfiguration={"Rules": [EXPIRE]})
        arn = f"arn:{self.s3.meta.partition}:s3:::{self.name}"
        deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": [arn, f"{arn}/*"]}
        statement = {**deny, "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
        self.call("put_bucket_policy", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
        if key_arn:
            rule = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key_arn}
            rules = [{"ApplyServerSideEncryptionByDefault": rule, "BucketKeyEnabled": True}]
            self.call("put_bucket_encryption", ServerSideEncryptionConfiguration={"Rules": rules})

    @contextmanager
    def template(self, text: str) -> Iterator[str]:
        """Stores a template while a block runs. Yields the URL for CloudFormation."""
        key = f"template-{hashlib.sha256(text.encode()).hexdigest()}.json"
        self.call("put_object", Key=key, Body=text.encode())
        try:
            yield f"{self.s3.meta.endpoint_url}/{self.name}/{key}"
        finally:
            self.empty(prefix=key)

    def upload(self, key: str, write: Callable[[Path], object]) -> None:
        """Makes and stores an archive.

        Raises:
            BundleFailed: The archive could not be made.
        """
        with TemporaryDirectory() as folder:
            write(Path(folder))
            [file] = Path(folder).iterdir()
            self.s3.upload_file(str(file), self.name, key, ExtraArgs={"ExpectedBucketOwner": self.owner})

    def keep(self, keys: Collection[str]) -> None:
        """Deletes all objects but some and those of the last day."""
        before = datetime.now(UTC) - LEAST_AGE
        for page in self.pages("list_objects_v2"):
            for each in page.get("Contents", []):
                if each["Key"] not in keys and each["LastModified"] < before:
                    self.call("delete_object", Key=each["Key"])

    def remove(self) -> None:
        """Empties and deletes the bucket, if there is one."""
        if self.has():
            self.empty()
            self.call("delete_bucket")
