"""The one way in which a function of the service is made."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from tidewheel.cdk.environment import Environment


def function_name(name: str) -> str:
    """Return a function's full name, `<stack>-<name>`.

    It is explicit, so that the dispatch function's ARN can be formatted before the function exists.
    """
    return f"{Aws.STACK_NAME}-{name}"


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
        code: The one bundle with the package and all handlers.
        environment: Decides how long logs are kept.
        timeout: The longest that one call may take.
        memory_mib: Memory in MiB.
    """
    id_ = name.capitalize()
    log_group = logs.LogGroup(
        scope,
        f"{id_}Logs",
        log_group_name=f"/aws/lambda/{function_name(name)}",
        retention=environment.log_retention,
        removal_policy=environment.removal_policy,
    )
    role = iam.Role(scope, f"{id_}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    return lambda_.Function(
        scope,
        id_,
        function_name=function_name(name),
        description=description,
        runtime=lambda_.Runtime.PYTHON_3_13,
        architecture=lambda_.Architecture.ARM_64,
        handler=f"functions.{name}.handler.handler",
        code=code,
        timeout=timeout,
        memory_size=memory_mib,
        tracing=lambda_.Tracing.ACTIVE,
        log_group=log_group,
        role=role,
    )
