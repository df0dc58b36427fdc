"""Storage: the S3 bucket of ledgers and plans, and the table of everything that changes."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tidewheel.aws import table_layout as layout
from tidewheel.cdk.environment import Environment


class Storage(Construct):
    """One S3 bucket and one table, with the statements that let a function use them.

    Attributes:
        s3_bucket: Holds the immutable objects.
        table: Holds the items; its sparse index `wake` is what the sweep reads.
    """

    def __init__(self, scope: Construct, id_: str, *, environment: Environment) -> None:
        """Make both, with the removal policy of the environment."""
        super().__init__(scope, id_)
        self.s3_bucket = s3.Bucket(
            self,
            "S3Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="abort-multipart-uploads",
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=environment.removal_policy,
        )
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=_string(layout.PARTITION_KEY),
            sort_key=_string(layout.SORT_KEY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=layout.TTL_ATTRIBUTE,
            removal_policy=environment.removal_policy,
        )
        self.table.add_global_secondary_index(
            index_name=layout.WAKE_INDEX,
            partition_key=_string(layout.WAKE_PARTITION_KEY),
            sort_key=dynamodb.Attribute(name=layout.WAKE_SORT_KEY, type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )

    def grant_items(self, grantee: iam.IGrantable) -> None:
        """Allow to read and write items, alone and in transactions (these need the same actions)."""
        self._grant_table(
            grantee,
            "dynamodb:ConditionCheckItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
        )

    def grant_item_deletes(self, grantee: iam.IGrantable) -> None:
        """Allow to delete items."""
        self._grant_table(grantee, "dynamodb:DeleteItem")

    def grant_wake_queries(self, grantee: iam.IGrantable) -> None:
        """Allow to query the index of topics and deliveries that need a look."""
        arn = f"{self.table.table_arn}/index/{layout.WAKE_INDEX}"
        _grant(grantee, ["dynamodb:Query"], [arn])

    def grant_objects(self, grantee: iam.IGrantable, *actions: str, prefixes: tuple[str, ...]) -> None:
        """Allow these S3 actions on the objects under these prefixes.

        The grants of `s3.Bucket` would allow `s3:GetObject*` and the like: more than any function needs.
        """
        _grant(grantee, list(actions), [self.s3_bucket.arn_for_objects(f"{p}*") for p in prefixes])

    def grant_listing(self, grantee: iam.IGrantable) -> None:
        """Allow to list objects. It is also what makes S3 answer 404, not 403, when an object that is read is gone.

        So it has no condition on the prefix: a GetObject has none that could match.
        """
        _grant(grantee, ["s3:ListBucket"], [self.s3_bucket.bucket_arn])

    def _grant_table(self, grantee: iam.IGrantable, *actions: str) -> None:
        _grant(grantee, list(actions), [self.table.table_arn])


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _grant(grantee: iam.IGrantable, actions: list[str], resources: list[str]) -> None:
    grantee.grant_principal.add_to_principal_policy(iam.PolicyStatement(actions=actions, resources=resources))
