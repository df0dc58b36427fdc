"""Sets the service's name, and makes resource names such as `<service>-dispatch`.

A resource has an explicit name if a client must find it, if a policy names resources that come and go without a
deployment, or if a reference would be a cycle. CloudFormation names all other resources.
"""

from __future__ import annotations

import re

import jsii
from aws_cdk import Aws, IResolveContext, IStringProducer, Lazy, Stack, Token
from constructs import Construct, IConstruct

from tidewheel.errors import InvalidValue

MAX_SERVICE_NAME = 48
"""The SDK's limit, which leaves room for suffixes in the 64 characters of a function's name."""

_CONTEXT_KEY = "tidewheel:service-name"
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9-]{{0,{MAX_SERVICE_NAME - 1}}}\Z")


def set_service_name(service: Construct, name: str | None) -> str:
    """Sets a service's name before its resources are created. Returns the name.

    Args:
        service: The construct of the whole service.
        name: The name; by default the stack's name. The service's own template then says `AWS::StackName`, so that it
            fits any stack. The templates of other stacks contain the stack's actual name.

    Raises:
        InvalidValue: The name, or by default the stack's name, is not valid, or another service of this stack has it.
    """
    chosen = _of_stack(service) if name is None else _checked(name)
    _claim(service, Stack.of(service).stack_name if name is None else chosen)
    service.node.set_context(_CONTEXT_KEY, chosen)
    return chosen


def service_name(scope: IConstruct) -> str:
    """Returns the name of a construct's service, or the stack's name outside of a service."""
    found = scope.node.try_get_context(_CONTEXT_KEY)
    return Aws.STACK_NAME if found is None else str(found)


def resource_name(scope: IConstruct, name: str) -> str:
    """Returns the full name of a function or job, `<service>-<name>`.

    The name is explicit, so that the dispatch function's ARN can be formatted before the function exists.
    """
    return f"{service_name(scope)}-{name}"


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
    return Lazy.uncached_string(_StackName(stack), display_hint="TidewheelServiceName")


@jsii.implements(IStringProducer)
class _StackName:
    """A stack's name, as `AWS::StackName` in its own template, and as text in other stacks' templates."""

    def __init__(self, stack: Stack) -> None:
        self._name = stack.stack_name
        self._address = stack.node.addr

    def produce(self, context: IResolveContext) -> str:
        """Returns the value for the template of the resolving stack."""
        here = Stack.of(context.scope).node.addr == self._address
        return Aws.STACK_NAME if here else self._name


def _claim(service: Construct, name: str) -> None:
    """Reserves a name for the first service, by an empty construct in the stack.

    Raises:
        InvalidValue: A service of this stack, or of a stack nested with it, has the name.
    """
    stack = Stack.of(service)
    while stack.nested_stack_parent is not None:
        stack = stack.nested_stack_parent
    id_ = f"TidewheelService-{name}"
    if stack.node.try_find_child(id_) is not None:
        advice = "another service of this stack has it, and names of functions and parameters come from it: give each "
        raise InvalidValue("service_name", name, f"{advice}a service_name= of its own")
    Construct(stack, id_)
