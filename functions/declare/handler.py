"""Declare function, which serves the custom resources for topics and subscriptions."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel import clock as clocks
from tidewheel.aws.custom_resource import Request, answered
from tidewheel.client.connection import Connection
from tidewheel.client.operations.declared import fulfil
from tidewheel.model.settings import ServiceSettings

logger = Logger(service="declare")
clock = clocks.current()
connection = Connection.of(ServiceSettings.from_environment(os.environ), boto3.session.Session())


# The event holds a presigned URL: nothing may log it whole.
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handles a request of CloudFormation, and sends the answer."""
    request = Request.from_event(event)
    logger.append_keys(request=request.kind.value, resource=request.logical_id, physical_id=request.physical_id)
    reason = answered(
        request,
        partial(fulfil, connection, clock),
        remaining_s=lambda: context.get_remaining_time_in_millis() / 1000,
        where=f"log stream {context.log_stream_name} of {context.log_group_name}",
    )
    if reason is None:
        logger.info("declared")
    else:
        logger.error("not declared", reason=reason)
