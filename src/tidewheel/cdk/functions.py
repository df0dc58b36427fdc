"""The one way in which a function of the service is made."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.bundling import handler_of
from tidewheel.cdk.encryption import grant_key, key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.nag_suppressions import acknowledge, acknowledge_wildcards
from tidewheel.cdk.names import resource_name
from tidewheel.cdk.queues import grant_queue_sends

CHAINED = ("ingest", "deliver")
"""Functions that may come again in one chain of SQS messages: Lambda would stop the 16th call of it as a loop.

Deliver leaves the rest of a long catch-up to a job of its own, and ends with the last one; a consumer may send what it
received again, each time with a delay, as often as it likes.
"""


def python_function(
    scope: Construct,
    name: str,
    *,
    description: str,
    code: lambda_.Code,
    environment: Environment,
    timeout: Duration,
    memory_mib: int,
) -> lambda_.Function:
    """Make the function whose handler is `functions/<name>/handler.py`.

    Its role can write to its own log group and traces, nothing else: each construct grants what its
    function needs. Its variables are set by the stack, once every resource exists.

    Args:
        scope: The construct that the function belongs to.
        name: The folder of the handler, one lower-case word.
        description: What the console shows.
        code: The code of all functions, as `tidewheel.cdk.bundling.service_code` makes it.
        environment: Decides how long logs are kept, and the concurrency that is reserved.
        timeout: The longest that one call may take.
        memory_mib: Memory in MiB.
    """
    id_ = name.capitalize()
    log_group = logs.LogGroup(
        scope,
        f"{id_}Logs",
        log_group_name=f"/aws/lambda/{resource_name(scope, name)}",
        retention=environment.log_retention,
        removal_policy=environment.log_removal_policy,
        encryption_key=key_of(scope),
    )
    role = iam.Role(scope, f"{id_}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    grant_key(role, scope, "dynamodb", "s3", "sqs")
    acknowledge_wildcards(role, ["*"], "X-Ray knows no resource that traces could be limited to.")
    function = lambda_.Function(
        scope,
        id_,
        function_name=resource_name(scope, name),
        description=description,
        runtime=lambda_.Runtime.PYTHON_3_13,
        architecture=lambda_.Architecture.ARM_64,
        handler=handler_of(name),
        code=code,
        timeout=timeout,
        memory_size=memory_mib,
        tracing=lambda_.Tracing.ACTIVE if environment.tracing else lambda_.Tracing.PASS_THROUGH,
        environment=_telemetry(environment),
        log_group=log_group,
        role=role,
        reserved_concurrent_executions=environment.reserved_concurrency.get(name),
        recursive_loop=lambda_.RecursiveLoop.ALLOW if name in CHAINED else None,
    )
    acknowledge(
        function,
        "AwsSolutions-L1",
        "The lock file is resolved, and the archive tested, for Python 3.13, which Lambda supports until 2029.",
    )
    return function


def _telemetry(environment: Environment) -> dict[str, str]:
    """Return the variables that Powertools reads."""
    variables = {"POWERTOOLS_LOG_LEVEL": environment.log_level}
    return variables if environment.metrics else {**variables, "POWERTOOLS_METRICS_DISABLED": "true"}


def limit_asynchronous_calls(
    function: lambda_.Function, *, max_age: Duration, retries: int, dead_letters: sqs.IQueue
) -> None:
    """Say what becomes of asynchronous calls that fail. By default Lambda tries for six hours, and forgets them.

    Args:
        function: Only itself is called, no version of it.
        max_age: How long after its acceptance a call may still be started.
        retries: How often one that failed is tried again: after one minute, then after two.
        dead_letters: Where Lambda records, with the event, what it gave up.
    """
    grant_queue_sends(function, dead_letters)
    lambda_.CfnEventInvokeConfig(
        function,
        "AsynchronousCalls",
        function_name=function.function_name,
        qualifier="$LATEST",
        maximum_event_age_in_seconds=max_age.to_seconds(),
        maximum_retry_attempts=retries,
        destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
            on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(destination=dead_letters.queue_arn)
        ),
    )
