"""Creates the Lambda functions of the service."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.bundling.functions import handler_of
from tidewheel.cdk.encryption import grant_key, make_log_group
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.nag_suppressions import acknowledge, acknowledge_wildcards
from tidewheel.cdk.names import resource_name
from tidewheel.cdk.queues import grant_queue_sends
from tidewheel.cdk.storage import Storage

CHAINED = ("ingest", "deliver")
"""Functions that may run repeatedly in a chain of SQS messages. Lambda would stop the 16th call of a chain as a loop.

Deliver enqueues the rest of a long catch-up as new work, until no rest is left. A consumer may send a received message
again, each time with a delay, without limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The inputs of every construct with functions.

    Attributes:
        environment: The settings of the deployment.
        code: The code of all functions, from `tidewheel.cdk.bundling.service_code`.
        storage: The S3 bucket and the table.
    """

    environment: Environment
    code: lambda_.Code
    storage: Storage


def python_function(
    scope: Construct, name: str, foundation: Foundation, timeout: Duration, does: str, *, memory_mib: int | None = None
) -> lambda_.Function:
    """Creates the function with the handler `functions/<name>/handler.py`.

    The function's role can only write to its own log group and traces. Each construct grants the further permissions of
    its function. The service sets the function's variables after all resources are created.

    Args:
        scope: The construct that the function belongs to.
        name: The folder of the handler, one lower-case word.
        foundation: Has the code, and the environment's settings of the function.
        timeout: The longest that a call may take.
        does: What the function does, for its description in the console.
        memory_mib: Memory in MiB; by default the environment's for this function.
    """
    id_, environment = name.capitalize(), foundation.environment
    log_group = make_log_group(scope, f"{id_}Logs", f"/aws/lambda/{resource_name(scope, name)}", environment)
    role = iam.Role(scope, f"{id_}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    grant_key(role, scope, "dynamodb", "s3", "sqs")
    acknowledge_wildcards(role, ["*"], "X-Ray knows no resource that traces could be limited to.")
    function = lambda_.Function(
        scope,
        id_,
        function_name=resource_name(scope, name),
        description=f"Tidewheel: {does}",
        runtime=lambda_.Runtime.PYTHON_3_13,
        architecture=lambda_.Architecture.ARM_64,
        handler=handler_of(name),
        code=foundation.code,
        timeout=timeout,
        memory_size=memory_mib or getattr(environment, f"{name}_memory_mib"),
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
    """Returns the environment variables for Powertools."""
    variables = {"POWERTOOLS_LOG_LEVEL": environment.log_level}
    return variables if environment.metrics else {**variables, "POWERTOOLS_METRICS_DISABLED": "true"}


def limit_asynchronous_calls(
    function: lambda_.Function, *, max_age: Duration, retries: int, dead_letters: sqs.IQueue
) -> None:
    """Limits the retries of asynchronous calls, and records failed calls.

    By default Lambda retries for six hours and then drops the call.

    Args:
        function: The function; callers use it directly, not a version.
        max_age: How long after its acceptance a call may still start.
        retries: How often a failed call is retried: after one minute, then after two.
        dead_letters: The queue for records of failed calls, with the event.
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
