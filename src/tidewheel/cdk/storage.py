"""Deploys the S3 bucket of ledgers and plans, and the table of all mutable state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tidewheel.cdk.encryption import key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.nag_suppressions import acknowledge, acknowledge_wildcards
from tidewheel.cdk.names import service_name
from tidewheel.cdk.statements import allow
from tidewheel.model.object_names import REFUSED
from tidewheel.storage import table_keys

TLS_VERSION = 1.2
"""The oldest TLS version that the S3 bucket accepts."""

LEADING_KEYS = "dynamodb:LeadingKeys"

ITEM_WRITES = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem")
"""The actions to read and write items, without checks of other items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """Partitions of the table, as IAM patterns of partition keys.

    Attributes:
        like: At least one of these patterns matches.
        not_like: None of these patterns matches.
    """

    like: tuple[str, ...]
    not_like: tuple[str, ...] = ()


TOPICS = Partitions(like=(table_keys.EVERY_TOPIC,), not_like=(table_keys.EVERY_BESIDE,))
"""All topics' items except tombstones and keys, which have partitions beside the topic's."""
OF_TOPICS = Partitions(like=(table_keys.EVERY_TOPIC,))
"""All topics' items, for transactions that use several of these partitions.

A single statement must allow such a transaction, since IAM may compare the statement with the keys of the whole
transaction.
"""
TOMBSTONES = Partitions(like=(table_keys.EVERY_TOMBSTONES,))
OF_PACKS = Partitions(like=(table_keys.EVERY_MOVES, table_keys.EVERY_NOTES))
NOTES = Partitions(like=(table_keys.EVERY_NOTES,))
KEYS = Partitions(like=(table_keys.EVERY_KEYS,))
CLAIMS = Partitions(like=(table_keys.EVERY_CLAIMS,))
DAILY_WORK = Partitions(like=(table_keys.SERVICE,))
LISTED = Partitions(like=(table_keys.LISTED,))
"""The list of topics."""


class Storage(Construct):
    """The S3 bucket and the table, with grants for functions.

    Attributes:
        s3_bucket: Holds the immutable objects.
        table: Holds the items; the sweep reads its sparse index `checks`.
    """

    def __init__(self, scope: Construct, id_: str, *, environment: Environment) -> None:
        """Creates the S3 bucket and the table, with the environment's removal policy."""
        super().__init__(scope, id_)
        key = key_of(self)
        self.s3_bucket = self._s3_bucket(environment, key)
        self.table = self._table(environment, key)
        self.table.add_global_secondary_index(
            index_name=table_keys.CHECK_INDEX,
            partition_key=_string(table_keys.CHECK_PARTITION_KEY),
            sort_key=dynamodb.Attribute(name=table_keys.CHECK_SORT_KEY, type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            # A slow index delays the table's writes.
            warm_throughput=_warm(None, environment.warm_write_units),
        )

    def _s3_bucket(self, environment: Environment, key: kms.IKey | None) -> s3.Bucket:
        """Creates the S3 bucket, with versioning if the environment keeps deleted objects."""
        logs = environment.access_log_bucket
        s3_bucket = s3.Bucket(
            self,
            "S3Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
            encryption_key=key,
            # A data key for many objects: otherwise each GET and PUT would cost a request of KMS too.
            bucket_key_enabled=None if key is None else True,
            enforce_ssl=True,
            minimum_tls_version=TLS_VERSION,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=environment.deleted_object_days is not None,
            lifecycle_rules=_lifecycle_rules(environment.deleted_object_days),
            server_access_logs_bucket=None if logs is None else s3.Bucket.from_bucket_name(self, "AccessLogs", logs),
            server_access_logs_prefix=None if logs is None else f"{service_name(self)}/",
            removal_policy=environment.removal_policy_once_created,
        )
        if logs is None:
            acknowledge(
                s3_bucket,
                "AwsSolutions-S1",
                "Access logs of a private S3 bucket of machines' objects cost more than they tell; `access_log_bucket` "
                "of the environment switches them on.",
            )
        return s3_bucket

    def _table(self, environment: Environment, key: kms.IKey | None) -> dynamodb.Table:
        """Creates the table, with point-in-time recovery for 35 days."""
        owned = dynamodb.TableEncryption.DEFAULT
        return dynamodb.Table(
            self,
            "Table",
            partition_key=_string(table_keys.PARTITION_KEY),
            sort_key=_string(table_keys.SORT_KEY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=owned if key is None else dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            warm_throughput=_warm(environment.warm_read_units, environment.warm_write_units),
            time_to_live_attribute=table_keys.TTL_ATTRIBUTE,
            deletion_protection=environment.protected,
            removal_policy=environment.removal_policy,
        )

    def grant_items(self, grantee: iam.IGrantable, partitions: Partitions, *actions: str) -> None:
        """Allows DynamoDB actions on the items of some partitions, alone and in transactions.

        Each write of a transaction needs the same permission as the write alone. A transaction on several partitions
        needs a single statement that allows all of them: see docs/security.md.
        """
        conditions: dict[str, dict[str, Any]] = {
            "ForAllValues:StringLike": {LEADING_KEYS: list(partitions.like)},
            # ForAllValues is true for a request without a partition key.
            "Null": {LEADING_KEYS: "false"},
        }
        if partitions.not_like:
            conditions["ForAllValues:StringNotLike"] = {LEADING_KEYS: list(partitions.not_like)}
        allow(grantee, actions, [self.table.table_arn], conditions)

    def grant_check_queries(self, grantee: iam.IGrantable) -> None:
        """Allows to query the index of topics and deliveries with a next check."""
        allow(grantee, ["dynamodb:Query"], [f"{self.table.table_arn}/index/{table_keys.CHECK_INDEX}"])

    def grant_objects(self, grantee: iam.IGrantable, *actions: str, prefixes: tuple[str, ...]) -> None:
        """Allows S3 actions on the objects under some prefixes.

        The grants of `s3.Bucket` would allow more than any function needs, such as `s3:GetObject*`.
        """
        arns = [self.s3_bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]
        allow(grantee, actions, arns)
        acknowledge_wildcards(grantee, arns, "Objects come and go; a role has the prefixes that it works on.")

    def grant_listing(self, grantee: iam.IGrantable, *, versions: bool = False) -> None:
        """Allows to list objects, which also makes S3 answer 404, not 403, for a deleted object.

        The statement has no condition on the prefix, since a GetObject request has no prefix that could match.
        """
        actions = ["s3:ListBucket", "s3:ListBucketVersions"] if versions else ["s3:ListBucket"]
        allow(grantee, actions, [self.s3_bucket.bucket_arn])


def _lifecycle_rules(deleted_object_days: int | None) -> list[s3.LifecycleRule]:
    """Returns the lifecycle rules.

    Unfinished uploads are removed after a day, refused messages after the queue's time and a day, and deleted and
    overwritten objects after `deleted_object_days`.
    """
    rules = [
        s3.LifecycleRule(id="abort-multipart-uploads", abort_incomplete_multipart_upload_after=Duration.days(1)),
        s3.LifecycleRule(id="forget-refused-messages", prefix=REFUSED, expiration=Duration.days(15)),
    ]
    if deleted_object_days is not None:
        rules.append(
            s3.LifecycleRule(
                id="forget-deleted-objects",
                noncurrent_version_expiration=Duration.days(deleted_object_days),
                # Delete markers without older versions.
                expired_object_delete_marker=True,
            )
        )
    return rules


def _warm(read: int | None, write: int | None) -> dynamodb.WarmThroughput | None:
    """Returns the warm throughput of the table or the index. None means DynamoDB's default."""
    if read is None and write is None:
        return None
    return dynamodb.WarmThroughput(read_units_per_second=read, write_units_per_second=write)


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
