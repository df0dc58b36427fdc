"""Storage: the S3 bucket of ledgers and plans, and the table of everything that changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tidewheel.aws import table_layout as layout
from tidewheel.cdk.encryption import key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.nag_suppressions import acknowledge, acknowledge_wildcards
from tidewheel.cdk.names import service_name

TLS_VERSION = 1.2
"""The oldest version of TLS that S3 takes."""

LEADING_KEYS = "dynamodb:LeadingKeys"

ITEM_WRITES = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem")
"""What it takes to work on items of any kind, without checks of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """Some partitions of the table, as IAM's patterns of their keys.

    Attributes:
        like: One of these matches.
        not_like: None of these does.
    """

    like: tuple[str, ...]
    not_like: tuple[str, ...] = ()


TOPICS = Partitions(like=(layout.EVERY_TOPIC,), not_like=(layout.EVERY_BESIDE,))
"""Everything of topics but tombstones and keys, which are beside."""
OF_TOPICS = Partitions(like=(layout.EVERY_TOPIC,))
"""Everything of topics: for actions of transactions that touch several of these partitions. Those must be allowed by
one statement, since IAM may compare it with the keys of the whole transaction."""
TOMBSTONES = Partitions(like=(layout.EVERY_TOMBSTONES,))
KEYS = Partitions(like=(layout.EVERY_KEYS,))
DAILY_WORK = Partitions(like=(layout.SERVICE,))


class Storage(Construct):
    """One S3 bucket and one table, with the statements that let a function use them.

    Attributes:
        s3_bucket: Holds the immutable objects.
        table: Holds the items; its sparse index `checks` is what the sweep reads.
    """

    def __init__(self, scope: Construct, id_: str, *, environment: Environment) -> None:
        """Make both, with the removal policy of the environment."""
        super().__init__(scope, id_)
        key = key_of(self)
        self.s3_bucket = self._s3_bucket(environment, key)
        self.table = self._table(environment, key)
        self.table.add_global_secondary_index(
            index_name=layout.CHECK_INDEX,
            partition_key=_string(layout.CHECK_PARTITION_KEY),
            sort_key=dynamodb.Attribute(name=layout.CHECK_SORT_KEY, type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            # An index that cannot keep up holds back the table's writes.
            warm_throughput=_warm(None, environment.warm_write_units),
        )

    def _s3_bucket(self, environment: Environment, key: kms.IKey | None) -> s3.Bucket:
        """Make the S3 bucket; with versions, if deleted objects are to be kept for a while."""
        logs = environment.access_log_bucket
        s3_bucket = s3.Bucket(
            self,
            "S3Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
            encryption_key=key,
            # One data key for many objects: else each GET and PUT would be a request of KMS, too.
            bucket_key_enabled=None if key is None else True,
            enforce_ssl=True,
            minimum_tls_version=TLS_VERSION,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=environment.deleted_object_days is not None,
            lifecycle_rules=_lifecycle_rules(environment.deleted_object_days),
            server_access_logs_bucket=None if logs is None else s3.Bucket.from_bucket_name(self, "AccessLogs", logs),
            server_access_logs_prefix=None if logs is None else f"{service_name(self)}/",
            removal_policy=environment.removal_policy,
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
        """Make the table, with point-in-time recovery, which holds 35 days."""
        owned = dynamodb.TableEncryption.DEFAULT
        return dynamodb.Table(
            self,
            "Table",
            partition_key=_string(layout.PARTITION_KEY),
            sort_key=_string(layout.SORT_KEY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=owned if key is None else dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            warm_throughput=_warm(environment.warm_read_units, environment.warm_write_units),
            time_to_live_attribute=layout.TTL_ATTRIBUTE,
            deletion_protection=environment.protected,
            removal_policy=environment.removal_policy,
        )

    def grant_items(self, grantee: iam.IGrantable, partitions: Partitions, *actions: str) -> None:
        """Allow these DynamoDB actions on the items of some partitions, alone and in transactions.

        A transaction needs for each of its items what the same write needs alone. One that touches several partitions
        needs a statement that allows all of them together: see docs/security.md.
        """
        conditions: dict[str, dict[str, Any]] = {
            "ForAllValues:StringLike": {LEADING_KEYS: list(partitions.like)},
            # ForAllValues holds when there is nothing to compare.
            "Null": {LEADING_KEYS: "false"},
        }
        if partitions.not_like:
            conditions["ForAllValues:StringNotLike"] = {LEADING_KEYS: list(partitions.not_like)}
        _grant(grantee, list(actions), [self.table.table_arn], conditions)

    def grant_wake_queries(self, grantee: iam.IGrantable) -> None:
        """Allow to query the index of topics and deliveries that need a look."""
        arn = f"{self.table.table_arn}/index/{layout.CHECK_INDEX}"
        _grant(grantee, ["dynamodb:Query"], [arn])

    def grant_objects(self, grantee: iam.IGrantable, *actions: str, prefixes: tuple[str, ...]) -> None:
        """Allow these S3 actions on the objects under these prefixes.

        The grants of `s3.Bucket` would allow `s3:GetObject*` and the like: more than any function needs.
        """
        arns = [self.s3_bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]
        _grant(grantee, list(actions), arns)
        acknowledge_wildcards(grantee, arns, "Objects come and go; a role has the prefixes that it works on.")

    def grant_listing(self, grantee: iam.IGrantable) -> None:
        """Allow to list objects. It is also what makes S3 answer 404, not 403, when an object that is read is gone.

        So it has no condition on the prefix: a GetObject has none that could match.
        """
        _grant(grantee, ["s3:ListBucket"], [self.s3_bucket.bucket_arn])


def _lifecycle_rules(deleted_object_days: int | None) -> list[s3.LifecycleRule]:
    """Return the rules: unfinished uploads go after a day, what was deleted or overwritten when its days are over."""
    rules = [s3.LifecycleRule(id="abort-multipart-uploads", abort_incomplete_multipart_upload_after=Duration.days(1))]
    if deleted_object_days is not None:
        rules.append(
            s3.LifecycleRule(
                id="forget-deleted-objects",
                noncurrent_version_expiration=Duration.days(deleted_object_days),
                # The marks that deletions leave, once nothing is behind them.
                expired_object_delete_marker=True,
            )
        )
    return rules


def _warm(read: int | None, write: int | None) -> dynamodb.WarmThroughput | None:
    """Return what the table or its index takes at once; None leaves it to DynamoDB."""
    if read is None and write is None:
        return None
    return dynamodb.WarmThroughput(read_units_per_second=read, write_units_per_second=write)


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _grant(
    grantee: iam.IGrantable,
    actions: list[str],
    resources: list[str],
    conditions: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    statement = iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
    grantee.grant_principal.add_to_principal_policy(statement)
