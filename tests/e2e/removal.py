"""Removes a stack and all resources of its name by `python -m tests.e2e.removal STACK [--region R] [--profile P]`.

    1  reads the names of the stack's resources         4  removes what the stack retained: S3 buckets, tables,
    2  empties its S3 buckets, which CloudFormation         log groups, also those that functions made anew
       does not do                                      5  removes the queues that clients made: all whose names
    3  deletes the stack; if that fails, 2 and 3 again      begin with the stack's

No error stops it. What could not be removed is listed with the reason and with the command that removes it by hand.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from tests.e2e.cloud import PREFIX, resources

_TRIES = 3
_WAIT_S, _WAITS = 10, 120
_GONE = ("NoSuchBucket", "404", "ResourceNotFound", "ValidationError", "NonExistentQueue", "QueueDoesNotExist")


@dataclass(slots=True, kw_only=True)
class Removal:
    """The removed and the remaining resources, recorded step by step in case of an interruption.

    Attributes:
        left: a line each: what it is, why it is still there, and the command that removes it.
        finished: whether all steps were tried.
    """

    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    finished: bool = False

    def __str__(self) -> str:
        return "\n".join([f"removed: {', '.join(self.removed) or 'nothing'}", *(f"LEFT: {each}" for each in self.left)])

    def attempt(self, name: str, command: str, action: Callable[[], object], *, silent: bool = False) -> None:
        """Does one step, and ignores resources already removed."""
        try:
            action()
        except (ClientError, BotoCoreError, WaiterError) as error:
            if not _is_gone(error):
                self.left.append(f"{name}: {error}; remove it with: {command}")
        else:
            if not silent:
                self.removed.append(name)


def remove(session: boto3.Session, stack: str, removal: Removal) -> None:
    """Removes the stack, and records the result in `removal`."""
    found: dict[str, list[tuple[str, str]]] = {}
    by_hand = f"aws cloudformation list-stack-resources --stack-name {stack}"
    removal.attempt("resources of the stack", by_hand, lambda: found.update(resources(session, stack)), silent=True)
    buckets, tables = (
        [name for _, name in found.get(f"AWS::{kind}", [])] for kind in ("S3::Bucket", "DynamoDB::Table")
    )
    by_hand = f"aws cloudformation delete-stack --stack-name {stack}"
    removal.attempt(f"stack {stack}", by_hand, partial(_delete_stack, session, stack, buckets))
    for name in buckets:
        removal.attempt(f"S3 bucket {name}", f"aws s3 rb s3://{name} --force", partial(_delete_bucket, session, name))
    for name in tables:
        by_hand = f"aws dynamodb delete-table --table-name {name}"
        removal.attempt(f"table {name}", by_hand, partial(_delete_table, session, name))
    logs, sqs = session.client("logs"), session.client("sqs")
    for prefix in (f"/aws/lambda/{stack}-", f"/aws-glue/{stack}-"):
        pages = partial(logs.get_paginator("describe_log_groups").paginate, logGroupNamePrefix=prefix)
        by_hand = f"aws logs describe-log-groups --log-group-name-prefix {prefix}"
        for group in _listed(removal, f"log groups {prefix}*", by_hand, pages, "logGroups"):
            name = group["logGroupName"]
            by_hand = f"aws logs delete-log-group --log-group-name {name}"
            removal.attempt(f"log group {name}", by_hand, partial(logs.delete_log_group, logGroupName=name))
    pages = partial(sqs.get_paginator("list_queues").paginate, QueueNamePrefix=f"{stack}-")
    by_hand = f"aws sqs list-queues --queue-name-prefix {stack}-"
    for url in _listed(removal, f"queues {stack}-*", by_hand, pages, "QueueUrls"):
        by_hand = f"aws sqs delete-queue --queue-url {url}"
        removal.attempt(f"queue {url.rpartition('/')[2]}", by_hand, partial(sqs.delete_queue, QueueUrl=url))
    removal.finished = True


@contextmanager
def patient(say: Callable[[str], None]) -> Iterator[None]:
    """Ignores the first interrupt inside the block, because remaining resources cost money."""
    seen: list[int] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            signal.default_int_handler(number, frame)
        say("still removing what was made; Ctrl-C once more leaves the rest to you")

    before = {number: signal.signal(number, on_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listed(removal: Removal, name: str, command: str, pages: Callable[[], Any], key: str) -> list[Any]:
    found: list[Any] = []
    removal.attempt(
        name, command, lambda: found.extend(each for page in pages() for each in page.get(key, [])), silent=True
    )
    return found


def _delete_stack(session: boto3.Session, stack: str, buckets: list[str]) -> None:
    """Empties the S3 buckets and deletes the stack, with retries, because functions may write until deleted."""
    cloudformation = session.client("cloudformation")
    for attempt in range(1, _TRIES + 1):
        for bucket in buckets:
            _empty(session, bucket)
        cloudformation.delete_stack(StackName=stack)
        waiter = cloudformation.get_waiter("stack_delete_complete")
        try:
            waiter.wait(StackName=stack, WaiterConfig={"Delay": _WAIT_S, "MaxAttempts": _WAITS})
        except WaiterError:
            if attempt == _TRIES:
                raise
        else:
            return


def _delete_bucket(session: boto3.Session, name: str) -> None:
    s3 = session.client("s3")
    s3.head_bucket(Bucket=name)
    _empty(session, name)
    s3.delete_bucket(Bucket=name)


def _delete_table(session: boto3.Session, name: str) -> None:
    """Deletes a table, protected or not."""
    dynamodb = session.client("dynamodb")
    if dynamodb.describe_table(TableName=name)["Table"].get("DeletionProtectionEnabled"):
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
        dynamodb.get_waiter("table_exists").wait(TableName=name)
    dynamodb.delete_table(TableName=name)


def _empty(session: boto3.Session, s3_bucket: str) -> None:
    """Deletes all objects of an S3 bucket, with their versions."""
    s3 = session.client("s3")
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=s3_bucket):
            listed = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            keys: Any = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in listed]
            if keys:
                s3.delete_objects(Bucket=s3_bucket, Delete={"Objects": keys, "Quiet": True})
    except ClientError as error:
        if not _is_gone(error):
            raise


def _is_gone(error: Exception) -> bool:
    return isinstance(error, ClientError) and any(code in error.response["Error"]["Code"] for code in _GONE)


def smoke_stack(name: str) -> str:
    """Returns the name of a stack of this suite. Other names fail with an error shown by argparse."""
    if not name.startswith(PREFIX):
        raise argparse.ArgumentTypeError(f"{name!r} is no stack of the smoke test: those begin with {PREFIX}")
    return name


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's arguments."""
    found = argparse.ArgumentParser(prog="python -m tests.e2e.removal", description="Removes what an earlier run left.")
    found.add_argument("stack", type=smoke_stack)
    found.add_argument("--region", help="where it is [default: the profile's]")
    found.add_argument("--profile", help="profile of the credentials")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Removes the named stack and returns the exit code."""
    options = parser().parse_args(arguments)
    removal = Removal()
    with patient(print):
        remove(boto3.Session(profile_name=options.profile, region_name=options.region), options.stack, removal)
    print(removal)
    return 1 if removal.left else 0


if __name__ == "__main__":
    sys.exit(main())
