"""Resolves references in a template, for comparison with the settings read by the SDK."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.infra.variants import Template
from tidewheel.model.settings import ServiceSettings

PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackName": "shop",
    "AWS::URLSuffix": "amazonaws.com",
}
HOME = f"{PSEUDO['AWS::Region']}:{PSEUDO['AWS::AccountId']}"


def resolved(template: Template, value: Any) -> Any:
    """Returns a value with all references resolved to logical ids."""
    if isinstance(value, list):
        return [resolved(template, each) for each in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Ref": str(name)}:
            return PSEUDO.get(name) or _ref(template, name)
        case {"Fn::GetAtt": [str(name), "Arn"]}:
            return _arn(template, name)
        case {"Fn::GetAtt": [str(name), "QueueName"]}:
            return name
        case {"Fn::Join": [str(delimiter), parts]}:
            return delimiter.join(resolved(template, parts))
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([\w:]+)\}", lambda name: resolved(template, {"Ref": name[1]}), text)
        case {"Fn::Split": [str(delimiter), text]}:
            return resolved(template, text).split(delimiter)
    return {name: resolved(template, each) for name, each in value.items()}


def settings_of(template: Template, service: str) -> ServiceSettings:
    """Returns a service's settings from its SSM parameter in the template."""
    for each in template["Resources"].values():
        name = resolved(template, each.get("Properties", {}).get("Name"))
        if each["Type"] == "AWS::SSM::Parameter" and name == f"/tidewheel/{service}/settings":
            return ServiceSettings.from_json(resolved(template, each["Properties"]["Value"]), "the template")
    raise LookupError(service)


def statements_of(template: Template, role: str) -> list[dict[str, Any]]:
    """Returns the policy statements of a role, with every action and resource in a list."""
    found = []
    for each in template["Resources"].values():
        if each["Type"] == "AWS::IAM::Policy" and any(r["Ref"][:-8] == role for r in each["Properties"]["Roles"]):
            found += resolved(template, each["Properties"]["PolicyDocument"]["Statement"])
    return [{**each, **{name: _many(each[name]) for name in ("Action", "Resource")}} for each in found]


def comparable(statements: list[dict[str, Any]]) -> set[str]:
    """Returns statements as normalized JSON texts, without duplicates or order."""
    return {
        json.dumps({**each, "Action": sorted(each["Action"]), "Resource": sorted(each["Resource"])}, sort_keys=True)
        for each in statements
    }


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _ref(template: Template, name: str) -> str:
    if template["Resources"].get(name, {}).get("Type") == "AWS::SQS::Queue":
        return f"https://sqs.us-east-1.amazonaws.com/{PSEUDO['AWS::AccountId']}/{name}"
    return name


def _arn(template: Template, name: str) -> str:
    type_ = template["Resources"][name]["Type"]
    service = type_.split("::")[1].lower()
    if type_ == "AWS::S3::Bucket":
        return f"arn:aws:s3:::{name}"
    return f"arn:aws:{service}:{HOME}:{name}"
