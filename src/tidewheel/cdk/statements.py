"""Adds statements to the policies of roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aws_cdk import aws_iam as iam


def allow(
    grantee: iam.IGrantable,
    actions: Iterable[str],
    resources: Iterable[str],
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Allows actions on resources, under conditions in the form of IAM's JSON."""
    statement = iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
    grantee.grant_principal.add_to_principal_policy(statement)
