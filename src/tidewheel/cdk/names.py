"""The service's name, from which everything with an explicit name has it: `<service>-dispatch`, `<service>-merge`.

Names are explicit where a client must find something, where a policy names what comes and goes without a deployment,
or where a reference would be a cycle. Everything else is named by CloudFormation.
"""

from __future__ import annotations

import re

import jsii
from aws_cdk import Aws, IResolveContext, IStringProducer, Lazy, Stack, Token
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
        name: The name; by default the stack's. The service's own template says `AWS::StackName` then, so that it fits
            any stack; the templates of others that name the service say what its stack is called.

    Raises:
        InvalidValue: The name, or the stack's where there is none, cannot be a service's, or is another one's of this
            stack.
    """
    chosen = _of_stack(service) if name is None else _checked(name)
    _claim(service, Stack.of(service).stack_name if name is None else chosen)
    service.node.set_context(_CONTEXT_KEY, chosen)
    return chosen


def service_name(scope: IConstruct) -> str:
    """Returns the name of the service that a construct belongs to; outside of any, the stack's."""
    found = scope.node.try_get_context(_CONTEXT_KEY)
    return Aws.STACK_NAME if found is None else str(found)


def resource_name(scope: IConstruct, name: str) -> str:
    """Returns the full name of a function or job, `<service>-<name>`.

    It is explicit, so that the dispatch function's ARN can be formatted before the function exists.
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
    """A stack's name wherever a template says it: in any other stack, `AWS::StackName` would be that one's."""

    def __init__(self, stack: Stack) -> None:
        self._name = stack.stack_name
        self._address = stack.node.addr

    def produce(self, context: IResolveContext) -> str:
        """Return what the template of the resolving stack says."""
        here = Stack.of(context.scope).node.addr == self._address
        return Aws.STACK_NAME if here else self._name


def _claim(service: Construct, name: str) -> None:
    """Keep a name for the first service that has it, by a construct in its stack that makes nothing.

    Raises:
        InvalidValue: A service of this stack, or of one nested with it, has the name.
    """
    stack = Stack.of(service)
    while stack.nested_stack_parent is not None:
        stack = stack.nested_stack_parent
    id_ = f"TidewheelService-{name}"
    if stack.node.try_find_child(id_) is not None:
        advice = "another service of this stack has it, and names of functions and parameters come from it: give each "
        raise InvalidValue("service_name", name, f"{advice}a service_name= of its own")
    Construct(stack, id_)
