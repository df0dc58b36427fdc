"""Findings of cfn-lint in a template, without findings caused by the CDK."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cfnlint import ManualArgs, api

from tidewheel.cdk.declarations import ID
from tidewheel.client.operations.declared import SUBSCRIPTION_TYPE, TOPIC_TYPE

if TYPE_CHECKING:
    from tests.infra.variants import Template

REFERRED_TO_AS_WELL = "W3005"
"""A dependency that a reference makes already."""
DECLARED = (SUBSCRIPTION_TYPE, TOPIC_TYPE)
DECLARING = f"{ID}Declare"
"""In the logical id of the function behind what is declared."""


def findings(template: Template) -> list[str]:
    """Returns the lint findings of a template, one per line."""
    matches = api.lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"]))
    return [f"{each.rule.id} {each.path}: {each.message}" for each in matches if not _of_the_cdk(template, each)]


def _of_the_cdk(template: Template, match: Any) -> bool:
    """Whether the CDK wrote the dependency, and would whatever this package says.

    It makes a function depend on its role, to which it refers as well, and spells a dependency on a whole construct
    out, resource by resource: so what is declared depends on what it needs to live.
    """
    if match.rule.id != REFERRED_TO_AS_WELL:
        return False
    section, name, key, *place = match.path
    if (section, key) != ("Resources", "DependsOn"):
        return False
    resource = template["Resources"][name]
    if resource["Type"] in DECLARED:
        return True
    if resource["Type"] != "AWS::Lambda::Function":
        return False
    named = resource["DependsOn"]
    role = named[place[0]] if place else named
    return DECLARING in name or bool(resource["Properties"]["Role"] == {"Fn::GetAtt": [role, "Arn"]})
