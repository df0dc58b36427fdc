"""Encryption: the customer's KMS key, where there is one, and who may use it for what.

Without one, S3, SQS and DynamoDB encrypt with keys of their own, which cost nothing and need no permission. With one,
the S3 bucket, the table, the queues, the log groups and the alarms' topic are encrypted with it. Then
- each role may decrypt and make data keys, through the services that it uses and not otherwise;
- the key's policy lets CloudWatch Logs use it for the service's log groups, and CloudWatch and EventBridge for messages
  to the topic. A key that was made elsewhere must say so itself: see `docs/security.md`.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

from tidewheel.cdk.environment import Environment
from tidewheel.cdk.names import service_name
from tidewheel.client.policies import KMS_ACTIONS
from tidewheel.errors import InvalidValue

ID = "Encryption"

DATA_KEY_REUSE = Duration.hours(12)
"""How long SQS uses one data key: each time it takes another, each queue pays a request of KMS, $0.03 for 10,000."""

LOG_ACTIONS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""What CloudWatch Logs must be allowed on the key of a log group."""


class Encryption(Construct):
    """The key of one service, if it has one.

    Attributes:
        key: The customer's key; None if the services' own keys encrypt.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey | None = None) -> None:
        """Take the given key, or that of the environment, or make one, or have none.

        Args:
            scope: The construct of the whole service; `of` finds this from anywhere in it.
            environment: May name a key, or ask for one.
            key: A key of the same app or an imported one; comes before the environment's.

        Raises:
            InvalidValue: The key is an alias.
        """
        super().__init__(scope, ID)
        self.key = key or self._key_of(environment)
        if self.key is not None:
            _check_no_alias(self.key)
            self._allow_logs(self.key)
            allow_alarms(self.key)

    @staticmethod
    def of(scope: IConstruct) -> Encryption | None:
        """Return the encryption of the service that a construct belongs to; None outside of any."""
        for each in reversed(scope.node.scopes):
            found = each.node.try_find_child(ID)
            if isinstance(found, Encryption):
                return found
        return None

    def grant_use(self, grantee: iam.IGrantable, *services: str) -> None:
        """Allow to use the key through these services of this Region, such as "s3"; nothing if there is no key."""
        if self.key is None:
            return
        through = [f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}" for service in services]
        grantee.grant_principal.add_to_principal_policy(
            iam.PolicyStatement(
                actions=list(KMS_ACTIONS),
                resources=[self.key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": through}},
            )
        )

    def _key_of(self, environment: Environment) -> kms.IKey | None:
        if environment.encryption_key_arn is not None:
            return kms.Key.from_key_arn(self, "Key", environment.encryption_key_arn)
        if not environment.own_key:
            return None
        return kms.Key(
            self,
            "Key",
            description="Tidewheel: encrypts what the service stores",
            enable_key_rotation=True,
            removal_policy=environment.removal_policy,
        )

    def _allow_logs(self, key: kms.IKey) -> None:
        """Let CloudWatch Logs use the key for the log groups of the service's functions and jobs."""
        groups = [
            Stack.of(self).format_arn(
                service="logs",
                resource="log-group",
                resource_name=f"{folder}/{service_name(self)}-*",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            for folder in ("/aws/lambda", "/aws-glue")
        ]
        key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(f"logs.{Aws.REGION}.{Aws.URL_SUFFIX}")],
                actions=list(LOG_ACTIONS),
                resources=["*"],
                conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
            )
        )


def _check_no_alias(key: kms.IKey) -> None:
    if isinstance(key, kms.Alias) or ":alias/" in key.key_arn:
        advice = "IAM and log groups need the key itself and not its alias: kms.Key.from_lookup(...) finds it"
        raise InvalidValue("encryption_key", key.node.path, advice)


def allow_alarms(key: kms.IKey) -> None:
    """Let alarms of this account publish to a topic with this key; what makes a rule allows EventBridge the same."""
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=list(KMS_ACTIONS),
            resources=["*"],
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        )
    )


def key_of(scope: IConstruct) -> kms.IKey | None:
    """Return the customer's key of the service that a construct belongs to."""
    found = Encryption.of(scope)
    return None if found is None else found.key


def grant_key(grantee: iam.IGrantable, scope: IConstruct, *services: str) -> None:
    """Allow to use the key, if there is one, of the service that a construct belongs to; see `Encryption.grant_use`."""
    found = Encryption.of(scope)
    if found is not None:
        found.grant_use(grantee, *services)
