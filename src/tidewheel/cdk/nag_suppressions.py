"""Acknowledges accepted findings of cdk-nag beside their resources, each with a reason.

The CDK itself keeps acknowledgements as metadata of constructs, outside of templates. So users of these constructs do
not need cdk-nag. An app that checks itself with cdk-nag finds a reason for every finding here. A test fails on a
finding without a reason, and on a reason without a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import IConstruct

try:
    from aws_cdk import Acknowledgment, Validations
except ImportError:  # a release that cannot keep the reasons
    Validations = None  # type: ignore[assignment, misc]

WILDCARD = "AwsSolutions-IAM5"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Records why a finding about a construct, or about its children, is accepted.

    Args:
        construct: The construct of the finding.
        rule: The rule's id, such as `AwsSolutions-S1`.
        reason: Why the construct is right as it is.
    """
    if Validations is not None:
        Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcards(grantee: iam.IGrantable, resources: Iterable[str], reason: str) -> None:
    """Records why a role may access resources with `*` in their names. Other resources need no reason.

    Args:
        grantee: A role, or a construct with a role.
        resources: ARNs of a statement.
        reason: Why their names cannot be known.
    """
    role = grantee.grant_principal
    assert isinstance(role, iam.Role)  # the constructs here give every function and job its own role
    for resource in resources:
        name = _flat(Stack.of(role).resolve(resource))
        if "*" in name:
            acknowledge(role, f"{WILDCARD}[Resource::{name}]", reason)


def _flat(value: Any) -> str:
    """Returns a resolved value as text, with references as `<name>`, like cdk-nag's ids."""
    if isinstance(value, str):
        return value
    match value:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(_flat(part) for part in parts)
    return json.dumps(value, separators=(",", ":"))
