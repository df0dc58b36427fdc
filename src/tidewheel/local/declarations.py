"""Creates a stack's custom resources by calling their functions as CloudFormation does.

The function puts its answer to a presigned URL, as on AWS. Here the URL is an object in the emulated S3, by HTTP.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from tidewheel.aws.custom_resource import Kind
from tidewheel.local.emulator import resources as deployed
from tidewheel.local.handlers import Handler

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_S3_BUCKET = "cloudformation-answers"


class DeclarationFailed(Exception):
    """A custom resource was not created. The message is the text in the stack's events."""


class CustomResources:
    """Calls the functions behind custom resources, one request after the other."""

    def __init__(self, session: boto3.Session, endpoint_url: str) -> None:
        path_style = Config(s3={"addressing_style": "path"})
        self._s3: S3Client = session.client("s3")
        self._signer: S3Client = session.client("s3", endpoint_url=endpoint_url, config=path_style)
        self._s3.create_bucket(Bucket=_S3_BUCKET)

    def create(self, resources: Iterable[deployed.Custom], handlers: Mapping[str, Handler]) -> None:
        """Creates the declared resources in the template's order of dependencies.

        Raises:
            DeclarationFailed: a resource was refused; the resources before it exist.
        """
        for each in resources:
            answer = self.ask(
                handlers[each.properties["ServiceToken"]],
                Kind.CREATE,
                stack_id=each.stack_id,
                logical_id=each.logical_id,
                resource_type=each.resource_type,
                properties=each.properties,
            )
            if answer["Status"] != "SUCCESS":
                raise DeclarationFailed(f"{each.logical_id}: {answer['Reason']}")

    def ask(
        self,
        handler: Handler,
        kind: Kind,
        *,
        stack_id: str,
        logical_id: str,
        resource_type: str,
        properties: Mapping[str, Any],
        physical_id: str | None = None,
        old_properties: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Sends a request to a function. Returns the answer as CloudFormation reads it.

        Raises:
            DeclarationFailed: there was no answer.
        """
        key = secrets.token_hex(8)
        target = {"Bucket": _S3_BUCKET, "Key": key}
        optional = {"PhysicalResourceId": physical_id, "OldResourceProperties": old_properties}
        handler.invoke(
            {
                "RequestType": kind.value,
                "ResponseURL": self._signer.generate_presigned_url("put_object", Params=target),
                "StackId": stack_id,
                "RequestId": key,
                "LogicalResourceId": logical_id,
                "ResourceType": resource_type,
                "ResourceProperties": dict(properties),
                **{name: value for name, value in optional.items() if value is not None},
            }
        )
        try:
            answer: dict[str, Any] = json.loads(self._s3.get_object(Bucket=_S3_BUCKET, Key=key)["Body"].read())
        except self._s3.exceptions.NoSuchKey:
            raise DeclarationFailed(f"{logical_id}: no answer to the request to {kind.value.lower()} it") from None
        return answer
