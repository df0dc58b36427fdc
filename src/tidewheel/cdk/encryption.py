"""Encrypts the service with a customer's KMS key, and grants the use of the key.

Without a customer's key, S3, SQS and DynamoDB encrypt with their own keys, which cost nothing and need no permission.
With a customer's key, the S3 bucket, the table, the queues, the log groups and the alarms' topic are encrypted with it.
Then
- each role may decrypt and make data keys, but only through the AWS services that the role uses;
- the key's policy lets CloudWatch Logs use the key for the service's log groups, and CloudWatch and EventBridge for
  messages to the topic. The policy of an imported key must already allow this: see `docs/security.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from tidewheel.cdk.environment import Environment
from tidewheel.cdk.names import service_name
from tidewheel.cdk.statements import allow
from tidewheel.errors import InvalidValue
from tidewheel.policies import KMS_ACTIONS

ID = "Encryption"

DATA_KEY_REUSE = Duration.hours(12)
"""How long SQS uses a data key. Each new data key costs a request of KMS for each queue, $0.03 for 10,000 requests."""

PIPE_LOGS = "/aws/vendedlogs/pipes"
"""The folder of log groups that EventBridge needs no further policy for."""

LOG_ACTIONS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""The actions that CloudWatch Logs needs on the key of a log group."""


class Encryption(Construct):
    """The customer's key of a service, if there is a key.

    Attributes:
        key: The customer's key; None if AWS services encrypt with their own keys.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey | None = None) -> None:
        """Uses the given key, or else the environment's key, a new key, or no key.

        Args:
            scope: The construct of the whole service; `key_of` finds the key from any construct in the scope.
            environment: May name a key, or request a new key.
            key: A key of the same app or an imported key; comes before the environment's key.

        Raises:
            InvalidValue: The key is an alias.
        """
        super().__init__(scope, ID)
        self.key = key or self._key_of(environment)
        if self.key is not None:
            _check_no_alias(self.key)
            self._allow_logs(self.key)
            allow_alarms(self.key)

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
            removal_policy=environment.removal_policy_once_created,
        )

    def _allow_logs(self, key: kms.IKey) -> None:
        """Allows CloudWatch Logs to use the key for the service's log groups of functions, jobs and pipes."""
        groups = [
            Stack.of(self).format_arn(
                service="logs",
                resource="log-group",
                resource_name=f"{folder}/{service_name(self)}-*",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            for folder in ("/aws/lambda", "/aws-glue", PIPE_LOGS)
        ]
        logs = f"logs.{Aws.REGION}.{Aws.URL_SUFFIX}"
        _allow_service(key, logs, LOG_ACTIONS, {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}})


def _check_no_alias(key: kms.IKey) -> None:
    if isinstance(key, kms.Alias) or ":alias/" in key.key_arn:
        advice = "IAM and log groups need the key itself and not its alias: kms.Key.from_lookup(...) finds it"
        raise InvalidValue("encryption_key", key.node.path, advice)


def allow_alarms(key: kms.IKey) -> None:
    """Allows CloudWatch alarms of this account to use the key of an SNS topic.

    The CDK itself allows EventBridge to use the key when a rule gets the topic as its target.
    """
    own = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
    _allow_service(key, "cloudwatch.amazonaws.com", KMS_ACTIONS, own)


def _allow_service(key: kms.IKey, service: str, actions: Sequence[str], conditions: Mapping[str, Any]) -> None:
    """Allows an AWS service to use a key, in the key's policy."""
    principals = [iam.ServicePrincipal(service)]
    key.add_to_resource_policy(
        iam.PolicyStatement(principals=principals, actions=list(actions), resources=["*"], conditions=conditions)
    )


def key_of(scope: IConstruct) -> kms.IKey | None:
    """Returns the customer's key of a construct's service. None without a key, or outside of a service."""
    found = (each.node.try_find_child(ID) for each in reversed(scope.node.scopes))
    return next((each.key for each in found if isinstance(each, Encryption)), None)


def make_log_group(
    scope: Construct, id_: str, name: str, environment: Environment, *, of: Construct | None = None
) -> logs.LogGroup:
    """Creates a log group with the key of a construct's service, by default of the scope's."""
    return logs.LogGroup(
        scope,
        id_,
        log_group_name=name,
        retention=environment.log_retention,
        removal_policy=environment.removal_policy_once_created,
        encryption_key=key_of(of or scope),
    )


def grant_key(grantee: iam.IGrantable, scope: IConstruct, *services: str) -> None:
    """Allows to use the key of a construct's service, if any, through AWS services of this Region, such as "s3"."""
    key = key_of(scope)
    if key is not None:
        through = [f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}" for service in services]
        allow(grantee, KMS_ACTIONS, [key.key_arn], {"StringEquals": {"kms:ViaService": through}})
