"""Tells changes, states and failures of a stack in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOLDS_DATA = {
    "AWS::DynamoDB::Table": "table",
    "AWS::S3::Bucket": "S3 bucket",
    "AWS::SQS::Queue": "queue",
    "AWS::KMS::Key": "key",
}
"""Types of resources that no deployment may remove or replace -> their names."""

MOST_NAMED = 5
"""Resources with the same change that a line names."""
_RUN_AGAIN = "then run tidewheel deploy again"
STUCK = {
    "CREATE_FAILED": f"its first deployment failed: remove the rest with tidewheel destroy, {_RUN_AGAIN}",
    "ROLLBACK_COMPLETE": f"its first deployment failed and was undone: remove it with tidewheel destroy, {_RUN_AGAIN}",
    "ROLLBACK_FAILED": "its first deployment failed, and could not be undone either: remove the rest with tidewheel "
    f"destroy, {_RUN_AGAIN}",
    "DELETE_FAILED": "its removal stopped in the middle: run tidewheel destroy again",
    "UPDATE_FAILED": f"an update stopped: run aws cloudformation rollback-stack --stack-name {{name}}, {_RUN_AGAIN}",
    "UPDATE_ROLLBACK_FAILED": "an update failed, and could not be undone either: mend the cause, run aws "
    f"cloudformation continue-update-rollback --stack-name {{name}}, {_RUN_AGAIN}",
    "IMPORT_ROLLBACK_FAILED": "an import failed, and could not be undone either: mend the cause, run aws "
    f"cloudformation continue-update-rollback --stack-name {{name}}, {_RUN_AGAIN}",
}
"""A state in which CloudFormation takes no update -> what to do."""

ADVICE = {
    r"not authorized to perform: ([\w:*]+)": "the caller, or the role of --role-arn, lacks the permission {0}",
    r"already exists": "a stack before this one left it: delete it, or let the stack have it with --import-existing",
    r"UnreservedConcurrentExecution|ConcurrentExecutions": "ask AWS for more concurrency: tidewheel docs deploy",
    r"[Gg]lue ?[Vv]ersion": "this Region may lack Glue 6.0: deploy with --no-spark",
    r"token.*expired|ExpiredToken": "renew the credentials, such as with: aws sso login",
    r"[Bb]ucket.*not empty": "a program still writes: stop it, and run tidewheel destroy again",
}
"""Pattern in AWS's reason -> what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A resource that a deployment changes.

    Attributes:
        action: `Add`, `Modify`, `Remove` or `Import`.
        type: CloudFormation's name of the resource's type.
        name: The resource's name if it exists, else its name in the template.
        replacement: `True`, `Conditional` or `False`.
        properties: The changed properties.
    """

    action: str
    type: str
    name: str
    replacement: str = "False"
    properties: tuple[str, ...] = ()

    @property
    def loses_data(self) -> bool:
        """Whether the change removes or replaces, or may replace, a resource that holds data."""
        return self.type in HOLDS_DATA and (self.action == "Remove" or self.replacement != "False")

    @property
    def what(self) -> str:
        """The type and the change in words."""
        ends = {"True": ", replaced", "Conditional": ", perhaps replaced"}.get(self.replacement, "")
        properties = f" ({', '.join(self.properties)})" if self.properties else ""
        return f"{kind(self.type)}{properties}{ends}"


def kind(type_: str) -> str:
    """Returns a resource's type in words, such as `Lambda Function`."""
    return type_.removeprefix("AWS::").replace("::", " ")


def all_new(template: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of a first deployment."""
    return [Change(action="Add", type=each["Type"], name=name) for name, each in template["Resources"].items()]


def changes_of(found: Iterable[Mapping[str, Any]]) -> list[Change]:
    """Returns the changes of a change set."""
    resources = [each["ResourceChange"] for each in found if "ResourceChange" in each]
    return [
        Change(
            action=each["Action"],
            type=each["ResourceType"],
            name=each.get("PhysicalResourceId") or each["LogicalResourceId"],
            replacement=each.get("Replacement") or "False",
            properties=tuple(sorted({_property(detail["Target"]) for detail in each.get("Details", [])})),
        )
        for each in resources
    ]


def _property(target: Mapping[str, Any]) -> str:
    return str(target.get("Name") or target.get("Attribute") or "?")


def lines(changes: Sequence[Change]) -> list[str]:
    """Returns the changes in words: new resources counted by type, others in groups of equal changes."""
    new = Counter(kind(each.type) for each in changes if each.action == "Add")
    counted = ", ".join(f"{count} {name}" for name, count in new.most_common())
    told = [f"new: {new.total()} resources ({counted})"] if new else []
    for action, word in {"Import": "taken over", "Modify": "changed", "Remove": "removed"}.items():
        groups: dict[str, list[str]] = {}
        for each in changes:
            if each.action == action:
                groups.setdefault(each.what, []).append(each.name)
        told += [f"{word}: {len(names)} {what}: {_listed(names)}" for what, names in groups.items()]
    return told


def _listed(names: Sequence[str]) -> str:
    """Returns names, of many only the first."""
    return ", ".join(names if len(names) <= MOST_NAMED + 1 else [*names[:MOST_NAMED], "others"])


def with_advice(reason: str) -> str:
    """Returns AWS's reason, with what to do if that is known."""
    for pattern, advice in ADVICE.items():
        if (match := re.search(pattern, reason)) is not None:
            return f"{reason.rstrip('. ')}; {advice.format(*match.groups())}"
    return reason
