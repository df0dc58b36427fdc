"""The service's name, from which everything with an explicit name has it: `<service>-dispatch`, `<service>-merge`.

Names are explicit where a client must find something, where a policy names what comes and goes without a deployment,
or where a reference would be a cycle. Everything else is named by CloudFormation.
"""

from __future__ import annotations

import re

from aws_cdk import Aws, Stack, Token
from constructs import Construct, IConstruct

from tidewheel.errors import InvalidValue

MAX_SERVICE_NAME = 48
"""The SDK's limit, with room for what is put behind it in the 64 characters of a function's name."""

_CONTEXT_KEY = "tidewheel:service-name"
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9-]{{0,{MAX_SERVICE_NAME - 1}}}\Z")


def set_service_name(service: Construct, name: str | None) -> str:
    """Gives a service its name, before anything is made in it; returns the name.

    Args:
        service: The construct of the whole service.
        name: The name; by default the stack's, as `AWS::StackName`, so that the template fits any stack.

    Raises:
        InvalidValue: The name, or the stack's where there is none, cannot be a service's.
    """
    chosen = _of_stack(service) if name is None else _checked(name)
    service.node.set_context(_CONTEXT_KEY, chosen)
    return chosen


def service_name(scope: IConstruct) -> str:
    """Returns the name of the service that a construct belongs to; outside of any, the stack's."""
    found = scope.node.try_get_context(_CONTEXT_KEY)
    return Aws.STACK_NAME if found is None else str(found)


def _checked(name: object) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        advice = f"use 1 to {MAX_SERVICE_NAME} letters, digits and '-', a letter first, as in a stack's name"
        raise InvalidValue("service_name", name, advice)
    return name


def _of_stack(service: Construct) -> str:
    stack = Stack.of(service)
    if stack.nested:
        advice = "the stack is nested, so CloudFormation gives it a name that nobody knows: give service_name="
        raise InvalidValue("service_name", None, advice)
    known = stack.stack_name
    if not Token.is_unresolved(known) and not _NAME.match(known):
        advice = (
            f"the stack's name is no service's (1 to {MAX_SERVICE_NAME} letters, digits and '-'): give service_name="
        )
        raise InvalidValue("service_name", known, advice)
    return Aws.STACK_NAME
