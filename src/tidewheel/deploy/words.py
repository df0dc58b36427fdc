"""Tells changes, states and failures of a stack in words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Change = Mapping[str, Any]
"""CloudFormation's `ResourceChange`."""

HOLDS_DATA = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::KMS::Key")
"""Types of resources that no deployment may remove or replace."""
ACTIONS = {"Add": "new", "Import": "taken over", "Modify": "changed", "Remove": "removed"}
REPLACED = {"True": ", replaced", "Conditional": ", perhaps replaced"}
MOST_NAMED = 5
"""Resources with the same change that a line names."""

_AGAIN = "then run tidewheel deploy again"
_MEND = "mend the cause, run aws cloudformation {0} --stack-name STACK, " + _AGAIN
_REMOVE = f"remove it with tidewheel destroy, {_AGAIN}"
STUCK = {
    "CREATE_FAILED": f"its first deployment failed: {_REMOVE}",
    "ROLLBACK_COMPLETE": f"its first deployment failed and was undone: {_REMOVE}",
    "ROLLBACK_FAILED": f"its first deployment failed, and could not be undone either: {_REMOVE}",
    "DELETE_FAILED": "its removal stopped in the middle: run tidewheel destroy again",
    "UPDATE_FAILED": f"an update stopped: {_MEND.format('rollback-stack')}",
    "UPDATE_ROLLBACK_FAILED": "an update failed, and could not be undone either: "
    + _MEND.format("continue-update-rollback"),
}
"""A state in which CloudFormation takes no update -> what to do."""

ADVICE = {
    r"not authorized to perform: ([\w:*]+)": "the caller, or the role of --role-arn, lacks the permission {0}",
    r"already exists": "an earlier stack left it: delete it, or let the stack have it with --import-existing",
    r"ConcurrentExecution": "ask AWS for more concurrency, as the warning says",
    r"[Gg]lue ?[Vv]ersion": "this Region may lack Glue 6.0: deploy with --no-spark",
    r"not empty": "a program still writes: stop it, and run tidewheel destroy again",
}
"""Pattern in AWS's reason -> what to do."""


def all_new(template: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of a first deployment."""
    resources = template["Resources"].items()
    return [{"Action": "Add", "ResourceType": each["Type"], "LogicalResourceId": name} for name, each in resources]


def loses_data(change: Change) -> bool:
    """Returns whether a change removes or replaces, or may replace, a resource that holds data."""
    gone = change["Action"] == "Remove" or change.get("Replacement", "False") != "False"
    return gone and change["ResourceType"] in HOLDS_DATA


def kind(type_: str) -> str:
    """Returns a resource's type in words, such as `Lambda Function`."""
    return type_.removeprefix("AWS::").replace("::", " ")


def name_of(change: Change) -> str:
    """Returns the name of a resource, or of a new resource in the template."""
    return str(change.get("PhysicalResourceId") or change["LogicalResourceId"]).rpartition("/")[2]


def lines(changes: Sequence[Change]) -> list[str]:
    """Returns the changes in words: new resources counted by type, others in groups of equal changes."""
    new = Counter(kind(each["ResourceType"]) for each in changes if each["Action"] == "Add")
    told = ["new: " + ", ".join(f"{count} {name}" for name, count in new.most_common())] if new else []
    groups = defaultdict(list)
    for each in changes:
        if each["Action"] != "Add":
            targets = {detail["Target"].get("Name") or "Tags" for detail in each.get("Details", [])}
            properties = f" ({', '.join(sorted(targets))})" if targets else ""
            what = f"{kind(each['ResourceType'])}{properties}{REPLACED.get(each.get('Replacement', ''), '')}"
            groups[f"{ACTIONS.get(each['Action'], each['Action'])}: {what}"].append(name_of(each))
    for what, names in groups.items():
        told.append(f"{what}: {', '.join(names[:MOST_NAMED])}{', ...' if len(names) > MOST_NAMED else ''}")
    return told


def with_advice(reason: str) -> str:
    """Returns AWS's reason, with advice if there is any."""
    for pattern, advice in ADVICE.items():
        if (match := re.search(pattern, reason)) is not None:
            return f"{reason.rstrip('. ')}; {advice.format(*match.groups())}"
    return reason
