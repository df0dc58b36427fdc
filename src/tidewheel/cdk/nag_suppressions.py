"""Findings of cdk-nag that stay: each is acknowledged beside the resource that it is about, with its reason.

The CDK itself keeps acknowledgements, as metadata of constructs that no template holds. So whoever uses these
constructs needs no cdk-nag; an app that checks itself with it finds nothing here that is not explained. A test fails on
a finding without a reason, and on a reason that no finding needs.
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
    """Say why a finding about a construct, or about what is in it, stays.

    Args:
        construct: What the finding is about.
        rule: Its id, such as `AwsSolutions-S1`.
        reason: Why it is right as it is.
    """
    if Validations is not None:
        Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcards(grantee: iam.IGrantable, resources: Iterable[str], reason: str) -> None:
    """Say why a role is allowed something on resources whose names have a `*`; the others need no reason.

    Args:
        grantee: A role, or what has one.
        resources: ARNs of one statement.
        reason: Why their names cannot be known.
    """
    role = grantee.grant_principal
    assert isinstance(role, iam.Role)  # the constructs here give every function and job one of its own
    for resource in resources:
        name = _flat(Stack.of(role).resolve(resource))
        if "*" in name:
            acknowledge(role, f"{WILDCARD}[Resource::{name}]", reason)


def _flat(value: Any) -> str:
    """Return a resolved value as one text, with references as `<name>`: as cdk-nag's ids have it."""
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
