"""Changes a stack by CloudFormation's change sets, and follows CloudFormation's events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from tidewheel.deploy.words import STUCK, with_advice
from tidewheel.errors import DeployFailed, DeployRefused

POLL_S = 2
NOTHING_NEW = ("didn't contain changes", "No updates are to be performed")
"""CloudFormation's answers to a change set without changes."""
OVERTAKEN = ("ChangeSetNotFound", "InvalidChangeSetStatus", "ValidationError")
"""CloudFormation's answers to the execution of a change set that another execution made invalid."""
BEGUN = ("CREATE_PENDING", "CREATE_IN_PROGRESS")
"""States of a change set that is being created."""
REVIEW = "REVIEW_IN_PROGRESS"
"""The state of a stack whose first change set was never executed."""

Description = Mapping[str, Any]
Progress = Callable[[float, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack of CloudFormation.

    Attributes:
        api: The client.
        name: The stack's name.
        progress: Tells how many of how many resources are done.
        sleep: Waits between two polls.
    """

    api: Any
    name: str
    progress: Progress
    sleep: Callable[[float], None] = time.sleep

    def describe(self) -> Description | None:
        """Returns the stack. None: there is none, or only a change set that nobody executed."""
        try:
            [found] = self.api.describe_stacks(StackName=self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return None if found["StackStatus"] in (REVIEW, "DELETE_COMPLETE") else found

    def settled(self, say: Callable[[str], None]) -> Description | None:
        """Returns the stack when nobody changes it. Follows a change that another call began, to its end."""
        while (found := self.describe()) is not None and found["StackStatus"].endswith("_IN_PROGRESS"):
            say(f"{self.name} is in {found['StackStatus']}: following this change to its end")
            last = self._last_event(found["StackId"])
            if (again := self.describe()) is not None and again["StackStatus"].endswith("_IN_PROGRESS"):
                self.follow(found["StackId"], last, 0)
        return found

    def prepare(self, unless_done: ExitStack, *, new: bool, **request: Any) -> Description | None:
        """Creates a change set, and returns its description. Returns None if nothing would change.

        Args:
            unless_done: Deletes the change set when it closes.
            new: Whether there is no stack yet.
            **request: CloudFormation's request.

        Raises:
            DeployRefused: CloudFormation does not accept the change.
        """
        name = f"tidewheel-{uuid4().hex}"
        request |= {"StackName": self.name, "ChangeSetType": "CREATE" if new else "UPDATE"}
        # With the token, a repetition after a lost answer finds the change set.
        made = self.api.create_change_set(ChangeSetName=name, ClientToken=name, **request)["Id"]
        unless_done.callback(self._discard, made)
        pages = self.api.get_paginator("describe_change_set")
        found: dict[str, Any]
        while (found := pages.paginate(ChangeSetName=made).build_full_result())["Status"] in BEGUN:
            self.sleep(POLL_S)
        changes = [each["ResourceChange"] for each in found.get("Changes") or () if "ResourceChange" in each]
        if found["Status"] == "CREATE_COMPLETE":
            return {**found, "ChangeSetId": made, "Changes": changes}
        reason = found.get("StatusReason", "")
        if any(each in reason for each in NOTHING_NEW):
            return None
        raise DeployRefused(f"CloudFormation does not accept the change: {with_advice(reason)}")

    def _discard(self, change_set_id: str) -> None:
        """Deletes a change set, and a stack that has no more than this change set."""
        self.api.delete_change_set(ChangeSetName=change_set_id)
        [found] = self.api.describe_stacks(StackName=self.name)["Stacks"]
        if found["StackStatus"] == REVIEW:
            self.api.delete_stack(StackName=found["StackId"])

    def execute(self, change_set: Description) -> None:
        """Executes a change set, and follows the change to its end.

        Raises:
            DeployRefused: Another change set was executed since, or is being executed.
            DeployFailed: The change failed, and CloudFormation undid the change or tried to.
        """
        last = self._last_event(change_set["StackId"])
        try:
            self.api.execute_change_set(ChangeSetName=change_set["ChangeSetId"], ClientRequestToken=uuid4().hex)
        except ClientError as error:
            if error.response["Error"]["Code"] not in OVERTAKEN:
                raise
            advice = "another deployment changed the stack meanwhile: run tidewheel deploy again"
            raise DeployRefused(f"{error}; {advice}") from None
        status, failure = self.follow(change_set["StackId"], last, len(change_set["Changes"]))
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
            what = STUCK.get(status, "the change was undone, and the stack is as before")
            raise DeployFailed(f"stack {self.name} is in {status}: {what}. First failure: {failure}")

    def contents(self, stack_id: str) -> tuple[list[Description], list[Description]]:
        """Returns the resources that outlive the stack, and all others."""
        body = self.api.get_template(StackName=stack_id)["TemplateBody"]
        template = json.loads(body) if isinstance(body, str) else body
        kept = {
            name for name, each in template["Resources"].items() if each.get("DeletionPolicy", "Delete") != "Delete"
        }
        pages = self.api.get_paginator("list_stack_resources").paginate(StackName=stack_id)
        found = [each for page in pages for each in page["StackResourceSummaries"]]
        found = [
            each for each in found if each.get("PhysicalResourceId") and each["ResourceStatus"] != "DELETE_COMPLETE"
        ]
        return (
            [each for each in found if each["LogicalResourceId"] in kept],
            [each for each in found if each["LogicalResourceId"] not in kept],
        )

    def protect(self, wanted: bool) -> None:
        """Switches the protection against deletion on or off."""
        self.api.update_termination_protection(StackName=self.name, EnableTerminationProtection=wanted)

    def delete(self, stack_id: str, total: int, **request: Any) -> tuple[str, str | None]:
        """Deletes the stack of `total` resources. Returns the final state, and the first failure."""
        last = self._last_event(stack_id)
        self.api.delete_stack(StackName=stack_id, ClientRequestToken=uuid4().hex, **request)
        return self.follow(stack_id, last, total)

    def follow(self, stack_id: str, last: str | None, total: int) -> tuple[str, str | None]:
        """Follows events after an event, until the stack's own final event. Returns the state and the first failure."""
        done, failure = set(), None
        while True:
            for event in self._events(stack_id, last):
                last, status, logical = event["EventId"], event["ResourceStatus"], event["LogicalResourceId"]
                reason = event.get("ResourceStatusReason", "")
                if event.get("PhysicalResourceId") == stack_id:
                    if not status.endswith("_IN_PROGRESS"):
                        return status, failure
                elif status.endswith("_COMPLETE"):
                    done.add(logical)
                elif status.endswith("_FAILED") and failure is None and "cancelled" not in reason:
                    failure = f"{event['ResourceType']} {logical}: {with_advice(reason)}"
            self.progress(len(done), total)
            self.sleep(POLL_S)

    def _events(self, stack_id: str, last: str | None) -> list[Any]:
        """Returns the events after an event, the oldest first."""
        found: list[Any] = []
        for page in self.api.get_paginator("describe_stack_events").paginate(StackName=stack_id):
            for event in page["StackEvents"]:
                if event["EventId"] == last:
                    return found[::-1]
                found.append(event)
        return found[::-1]

    def _last_event(self, stack_id: str) -> str | None:
        found = self.api.describe_stack_events(StackName=stack_id)["StackEvents"]
        return found[0]["EventId"] if found else None
