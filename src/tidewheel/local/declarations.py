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
        """Creates the declared resources in the template's order of dependencies, or changes those that differ.

        What was created is noted in S3, so a stack with a state finds it after a restart.

        Raises:
            DeclarationFailed: a resource was refused; the resources before it exist.
        """
        for each in resources:
            before = self._read(f"known/{each.logical_id}")
            if before is not None and before["properties"] == each.properties:
                continue
            request = {
                "RequestType": (Kind.CREATE if before is None else Kind.UPDATE).value,
                "StackId": each.stack_id,
                "LogicalResourceId": each.logical_id,
                "ResourceType": each.resource_type,
                "ResourceProperties": each.properties,
            }
            if before is not None:
                request |= {"PhysicalResourceId": before["id"], "OldResourceProperties": before["properties"]}
            answer = self.ask(handlers[each.properties["ServiceToken"]], request)
            if answer["Status"] != "SUCCESS":
                raise DeclarationFailed(f"{each.logical_id}: {answer['Reason']}")
            known = json.dumps({"properties": each.properties, "id": answer["PhysicalResourceId"]}).encode()
            self._s3.put_object(Bucket=_S3_BUCKET, Key=f"known/{each.logical_id}", Body=known)

    def ask(self, handler: Handler, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request to a function. Returns the answer as CloudFormation reads it.

        Args:
            handler: the function.
            request: the fields of CloudFormation's event, without its id and the URL of the answer.

        Raises:
            DeclarationFailed: there was no answer.
        """
        key = secrets.token_hex(8)
        target = {"Bucket": _S3_BUCKET, "Key": key}
        url = self._signer.generate_presigned_url("put_object", Params=target)
        handler.invoke({**request, "ResponseURL": url, "RequestId": key})
        answer = self._read(key)
        self._s3.delete_object(Bucket=_S3_BUCKET, Key=key)
        if answer is None:
            asked = f"{request['LogicalResourceId']}: no answer to the request to {request['RequestType'].lower()} it"
            raise DeclarationFailed(asked)
        return answer

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._s3.get_object(Bucket=_S3_BUCKET, Key=key)["Body"].read())
        except self._s3.exceptions.NoSuchKey:
            return None
        return found
