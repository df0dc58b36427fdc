"""Changes a stack by CloudFormation's change sets, and follows CloudFormation's events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import ClientError

from tidewheel.deploy.words import STUCK, Change, changes_of, with_advice
from tidewheel.errors import DeployFailed, DeployRefused

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

POLL_S = 2
NOTHING_NEW = ("didn't contain changes", "No updates are to be performed")
"""What CloudFormation says of a change set without changes."""
REVIEW = "REVIEW_IN_PROGRESS"
"""The state of a stack whose first change set was never executed."""

Description = Mapping[str, Any]
Progress = Callable[[float, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """A change set that can be executed.

    Attributes:
        id: The ARN of the change set.
        stack_id: The ARN of the stack.
        changes: What the change set changes.
    """

    id: str
    stack_id: str
    changes: list[Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of a stack.

    Attributes:
        type: CloudFormation's name of the resource's type.
        name: The resource's name, or another identifier.
        kept: Whether the resource outlives the stack.
    """

    type: str
    name: str
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack of CloudFormation.

    Attributes:
        cloudformation: The client.
        name: The stack's name.
        sleep: Waits between two polls.
    """

    cloudformation: CloudFormationClient
    name: str
    sleep: Callable[[float], None] = time.sleep

    def describe(self, stack_id: str | None = None) -> Description | None:
        """Returns the stack. None: there is none, or only a change set that nobody executed."""
        try:
            [found] = self.cloudformation.describe_stacks(StackName=stack_id or self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return None if found["StackStatus"] in (REVIEW, "DELETE_COMPLETE") else found

    def settled(self, say: Callable[[str], None], progress: Progress) -> Description | None:
        """Returns the stack when nobody changes it. Follows a change that another call began, to its end."""
        while (found := self.describe()) is not None and found["StackStatus"].endswith("_IN_PROGRESS"):
            say(f"{self.name} is being changed ({found['StackStatus']}): following that first")
            last = self._last_event(found["StackId"])
            again = self.describe(found["StackId"])
            if again is not None and again["StackStatus"].endswith("_IN_PROGRESS"):
                self.follow(found["StackId"], last, progress, 0)
        return found

    def check_state(self, found: Description | None) -> None:
        """Refuses a stack in a state in which CloudFormation takes no update.

        Raises:
            DeployRefused: tells what to do.
        """
        status = "" if found is None else found["StackStatus"]
        if status in STUCK:
            raise DeployRefused(f"stack {self.name} is in {status}: {STUCK[status].format(name=self.name)}")

    def prepare(self, *, new: bool, **request: Any) -> ChangeSet | None:
        """Creates a change set. Returns None if nothing would change. Repeating a call whose answer was lost is safe.

        Raises:
            DeployRefused: CloudFormation does not accept the change.
        """
        name = f"tidewheel-{uuid4().hex}"
        kind: Any = "CREATE" if new else "UPDATE"
        made = self.cloudformation.create_change_set(
            StackName=self.name, ChangeSetName=name, ClientToken=name, ChangeSetType=kind, **request
        )
        found = self._made(made["Id"])
        if found["Status"] == "FAILED":
            reason = found.get("StatusReason", "")
            self.discard(made["Id"], made["StackId"] if new else None)
            if any(each in reason for each in NOTHING_NEW):
                return None
            raise DeployRefused(f"CloudFormation does not accept the change: {with_advice(reason)}")
        pages = self.cloudformation.get_paginator("describe_change_set").paginate(ChangeSetName=made["Id"])
        changes = [each for page in pages for each in page["Changes"]]
        return ChangeSet(id=made["Id"], stack_id=made["StackId"], changes=changes_of(changes))

    def _made(self, id_: str) -> Description:
        while (found := self.cloudformation.describe_change_set(ChangeSetName=id_))["Status"].startswith("CREATE_"):
            if found["Status"] == "CREATE_COMPLETE":
                break
            self.sleep(POLL_S)
        return found

    def discard(self, id_: str, empty_stack: str | None) -> None:
        """Deletes a change set, and the empty stack that came with the first change set."""
        self.cloudformation.delete_change_set(ChangeSetName=id_)
        if empty_stack is not None:
            self.cloudformation.delete_stack(StackName=empty_stack)

    def execute(self, change_set: ChangeSet, progress: Progress) -> None:
        """Executes a change set, and follows the change to its end.

        Raises:
            DeployRefused: Another change set was executed since, or is being executed.
            DeployFailed: The change failed, and CloudFormation undid the change or tried to.
        """
        last = self._last_event(change_set.stack_id)
        try:
            self.cloudformation.execute_change_set(ChangeSetName=change_set.id, ClientRequestToken=uuid4().hex)
        except ClientError as error:
            if error.response["Error"]["Code"] not in (
                "ChangeSetNotFound",
                "InvalidChangeSetStatus",
                "ValidationError",
            ):
                raise
            advice = "another deployment changed the stack meanwhile: run tidewheel deploy again"
            raise DeployRefused(f"{error}; {advice}") from None
        status, failure = self.follow(change_set.stack_id, last, progress, len(change_set.changes))
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
            what = STUCK.get(status, "the change was undone, and the stack is as before").format(name=self.name)
            raise DeployFailed(f"stack {self.name} is in {status}: {what}. First failure: {failure}")

    def resources(self, stack_id: str) -> list[Resource]:
        """Returns the resources of a stack that exist."""
        body: Any = self.cloudformation.get_template(StackName=stack_id)["TemplateBody"]
        template = json.loads(body) if isinstance(body, str) else body
        policies = {name: each.get("DeletionPolicy", "Delete") for name, each in template["Resources"].items()}
        pages = self.cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack_id)
        found = [each for page in pages for each in page["StackResourceSummaries"]]
        return [
            Resource(
                type=each["ResourceType"],
                name=each["PhysicalResourceId"],
                kept=policies.get(each["LogicalResourceId"], "Delete") != "Delete",
            )
            for each in found
            if "PhysicalResourceId" in each and not each["ResourceStatus"].startswith("DELETE_COMPLETE")
        ]

    def protect(self, wanted: bool) -> None:
        """Switches the protection against deletion on or off."""
        self.cloudformation.update_termination_protection(StackName=self.name, EnableTerminationProtection=wanted)

    def delete(self, stack_id: str, role_arn: str | None, progress: Progress) -> tuple[str, str | None]:
        """Deletes the stack. Returns the final state, and the first failure."""
        last = self._last_event(stack_id)
        role: Any = {} if role_arn is None else {"RoleARN": role_arn}
        self.cloudformation.delete_stack(StackName=stack_id, ClientRequestToken=uuid4().hex, **role)
        return self.follow(stack_id, last, progress, 0)

    def follow(self, stack_id: str, last: str | None, progress: Progress, total: int) -> tuple[str, str | None]:
        """Follows events after an event, until the stack's own final event. Returns the state and the first failure."""
        done: set[str] = set()
        failure = None
        while True:
            for event in self._events(stack_id, last):
                last, status = event["EventId"], event.get("ResourceStatus", "")
                reason = event.get("ResourceStatusReason", "")
                if event.get("PhysicalResourceId") == stack_id:
                    if not status.endswith("_IN_PROGRESS"):
                        return status, failure
                elif status.endswith("_FAILED") and failure is None and "cancelled" not in reason:
                    failure = f"{event['ResourceType']} {event['LogicalResourceId']}: {with_advice(reason)}"
                elif status.endswith("_COMPLETE"):
                    done.add(event["LogicalResourceId"])
            progress(len(done), total)
            self.sleep(POLL_S)

    def _events(self, stack_id: str, last: str | None) -> list[Any]:
        """Returns the events after an event, the oldest first."""
        found: list[Any] = []
        for page in self.cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id):
            for event in page["StackEvents"]:
                if event["EventId"] == last:
                    return found[::-1]
                found.append(event)
        return found[::-1]

    def _last_event(self, stack_id: str) -> str | None:
        found = self.cloudformation.describe_stack_events(StackName=stack_id)["StackEvents"]
        return found[0]["EventId"] if found else None
