"""Checks an account and a Region before a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import ClientError

from tidewheel.deploy.assets import Assets, bucket_name
from tidewheel.deploy.stack import Stack

if TYPE_CHECKING:
    import boto3

LEAST_CONCURRENCY = 100
"""Fewer concurrent calls of all functions of an account delay messages. New accounts may have ten."""
CONCURRENCY_QUOTA = "L-B99A9384"
GLUE_REGIONS = (
    *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)
"""The Regions where a stack has Spark jobs by default. No API tells which versions of Glue a Region has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The place of a stack.

    Attributes:
        session: Has the credentials.
        endpoint_url: The URL of AWS; None: AWS's own.
        number: The account's 12 digits.
        region: The Region.
    """

    session: boto3.Session
    endpoint_url: str | None
    number: str
    region: str

    @classmethod
    def of(cls, session: boto3.Session, endpoint_url: str | None) -> Self:
        """Asks AWS whose the credentials are."""
        number = session.client("sts", endpoint_url=endpoint_url).get_caller_identity()["Account"]
        return cls(session=session, endpoint_url=endpoint_url, number=number, region=session.region_name)

    def client(self, service: str) -> Any:
        """Creates the client of a service."""
        from botocore.config import Config

        # CloudFormation reads templates at this address, too: the bucket is in the path.
        config = Config(retries={"mode": "standard", "max_attempts": 8}, s3={"addressing_style": "path"})
        made: Any = self.session.client
        return made(service, endpoint_url=self.endpoint_url, config=config)

    def stack(self, name: str) -> Stack:
        """Returns a stack of this place."""
        return Stack(cloudformation=self.client("cloudformation"), name=name)

    def assets(self, stack: str) -> Assets:
        """Returns the S3 bucket with a stack's archives."""
        return Assets(s3=self.client("s3"), name=bucket_name(self.number, self.region, stack), owner=self.number)

    def warnings(self) -> Iterator[str]:
        """Yields what will make the service slow or fail, with what to do."""
        try:
            limit = self.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
        except ClientError as error:
            yield f"the account's concurrency is not known: {error}"
            return
        if limit < LEAST_CONCURRENCY:
            yield (
                f"all functions of this account have {limit} concurrent calls, so peaks come late. Ask for more: aws "
                "service-quotas request-service-quota-increase --service-code lambda "
                f"--quota-code {CONCURRENCY_QUOTA} --desired-value 1000 --region {self.region}"
            )
