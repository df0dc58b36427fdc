"""Takes away all that a trial made, and says what is left.

    1  the stack's names are read, while it can be asked        4  what the stack retained goes: S3 buckets, tables,
    2  its S3 buckets are emptied, which CloudFormation            log groups, also those that functions made anew
       does not do                                              5  queues go that clients made: all whose names begin
    3  the stack goes; if it resists, 2 and 3 again                with the stack's

Nothing stops it: what fails is left over, with the reason and the command that does it by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from smoke.cloud import resources

if TYPE_CHECKING:
    import boto3

_TRIES = 3
_WAIT_S, _WAITS = 10, 120
_GONE = ("NoSuchBucket", "404", "ResourceNotFound", "ValidationError", "NonExistentQueue", "QueueDoesNotExist")
_BUCKET, _TABLE, _LOG_GROUP = "AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::Logs::LogGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that is still there.

    Attributes:
        name: what it is, and its name.
        why: why it could not be removed.
        command: what removes it.
    """

    name: str
    why: str
    command: str


@dataclass(slots=True, kw_only=True)
class Removal:
    """What was removed, and what is left; it is filled step by step, so that an interrupted one is told too."""

    removed: list[str] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    finished: bool = False


def remove(session: boto3.Session, stack_name: str, removal: Removal, say: Callable[[str], None]) -> None:
    """Removes a stack and all that bears its name; what happens is in `removal`."""
    remover = _Remover(session, stack_name, removal, say)
    found = remover.look()
    remover.remove_stack(found)
    for name in found.get(_BUCKET, []):
        remover.remove_bucket(name)
    for name in found.get(_TABLE, []):
        remover.remove_table(name)
    remover.remove_log_groups()
    remover.remove_queues()
    removal.finished = True


class _Remover:
    def __init__(self, session: boto3.Session, stack_name: str, removal: Removal, say: Callable[[str], None]) -> None:
        self._session = session
        self._stack = stack_name
        self._removal = removal
        self._say = say

    def look(self) -> dict[str, list[str]]:
        """Returns the names of the stack's resources, by type; of a stack that was never made, none."""
        found: dict[str, list[str]] = {}
        by_hand = f"aws cloudformation list-stack-resources --stack-name {self._stack}"

        def read() -> None:
            named = resources(self._session, self._stack)
            found.update({kind: [name for _, name in pairs] for kind, pairs in named.items()})

        self._attempt("list of the stack's resources", by_hand, read, silent=True)
        return found

    def remove_stack(self, found: dict[str, list[str]]) -> None:
        """Empties its S3 buckets and deletes it; functions may write until they are gone, so it is tried again."""
        cloudformation = self._session.client("cloudformation")

        def delete() -> None:
            for attempt in range(_TRIES):
                for bucket in found.get(_BUCKET, []):
                    self._empty(bucket)
                cloudformation.delete_stack(StackName=self._stack)
                try:
                    cloudformation.get_waiter("stack_delete_complete").wait(
                        StackName=self._stack, WaiterConfig={"Delay": _WAIT_S, "MaxAttempts": _WAITS}
                    )
                except WaiterError:
                    if attempt == _TRIES - 1:
                        raise
                else:
                    return

        self._say(f"removing the stack {self._stack}")
        self._attempt(f"stack {self._stack}", f"aws cloudformation delete-stack --stack-name {self._stack}", delete)

    def remove_bucket(self, name: str) -> None:
        """Removes an S3 bucket that the stack retained."""
        s3 = self._session.client("s3")

        def delete() -> None:
            s3.head_bucket(Bucket=name)
            self._empty(name)
            s3.delete_bucket(Bucket=name)

        self._attempt(f"S3 bucket {name}", f"aws s3 rb s3://{name} --force", delete)

    def remove_table(self, name: str) -> None:
        """Removes a table that the stack retained, protected or not."""
        dynamodb = self._session.client("dynamodb")

        def delete() -> None:
            table = dynamodb.describe_table(TableName=name)["Table"]
            if table.get("DeletionProtectionEnabled"):
                dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
                dynamodb.get_waiter("table_exists").wait(TableName=name)
            dynamodb.delete_table(TableName=name)

        self._attempt(f"table {name}", f"aws dynamodb delete-table --table-name {name}", delete)

    def remove_log_groups(self) -> None:
        """Removes the log groups of functions and jobs: a function that logs last makes its own anew."""
        logs = self._session.client("logs")
        for prefix in (f"/aws/lambda/{self._stack}-", f"/aws-glue/{self._stack}-"):
            names: list[str] = []

            def read(prefix: str = prefix, names: list[str] = names) -> None:
                for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
                    names.extend(each["logGroupName"] for each in page["logGroups"])

            by_hand = f"aws logs describe-log-groups --log-group-name-prefix {prefix}"
            self._attempt(f"log groups {prefix}*", by_hand, read, silent=True)
            for name in names:
                by_hand = f"aws logs delete-log-group --log-group-name {name}"
                self._attempt(f"log group {name}", by_hand, partial(logs.delete_log_group, logGroupName=name))

    def remove_queues(self) -> None:
        """Removes the queues of subscriptions, which clients make, and the one by which clocks were compared."""
        sqs = self._session.client("sqs")
        urls: list[str] = []

        def read() -> None:
            for page in sqs.get_paginator("list_queues").paginate(QueueNamePrefix=f"{self._stack}-"):
                urls.extend(page.get("QueueUrls", []))

        by_hand = f"aws sqs list-queues --queue-name-prefix {self._stack}-"
        self._attempt(f"queues {self._stack}-*", by_hand, read, silent=True)
        for url in urls:
            by_hand = f"aws sqs delete-queue --queue-url {url}"
            name = url.rpartition("/")[2]
            self._attempt(f"queue {name}", by_hand, partial(sqs.delete_queue, QueueUrl=url))

    def _empty(self, s3_bucket: str) -> None:
        """Deletes all objects of an S3 bucket, with their versions."""
        s3 = self._session.client("s3")
        try:
            for page in s3.get_paginator("list_object_versions").paginate(Bucket=s3_bucket):
                listed = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
                keys: Any = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in listed]
                if keys:
                    s3.delete_objects(Bucket=s3_bucket, Delete={"Objects": keys, "Quiet": True})
        except ClientError as error:
            if not _is_gone(error):
                raise

    def _attempt(self, name: str, command: str, action: Callable[[], object], *, silent: bool = False) -> None:
        """Does one step; notes what it removed, or why it could not. What is gone already needs no note."""
        try:
            action()
        except (ClientError, BotoCoreError, WaiterError) as error:
            if not _is_gone(error):
                self._removal.leftovers.append(Leftover(name=name, why=str(error), command=command))
        else:
            if not silent:
                self._removal.removed.append(name)


def _is_gone(error: Exception) -> bool:
    return isinstance(error, ClientError) and any(code in error.response["Error"]["Code"] for code in _GONE)
