"""An account with a CloudFormation of one stack whose answers a test scripts, and moto's S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import ClientError

ACCOUNT, STACK = "123456789012", "reminders"
STACK_ID = f"arn:aws:cloudformation:eu-central-1:{ACCOUNT}:stack/{STACK}/1"


def client_error(operation: str, code: str, message: str = "") -> ClientError:
    """Returns an answer of AWS that boto3 raises."""
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass
class FakeCloudFormation:
    """CloudFormation with one stack. A change takes two polls.

    Attributes:
        stack: The description of the stack; None: there is none.
        changes: The changes of the next change set.
        reason: Why the next change set fails; None: the change set can be executed.
        ends: The state in which each next change of the stack ends.
        failing: The events of resources during each change.
        refused: Operation -> the error that the operation raises.
        calls: The operations that changed anything, in order.
        request: The last request for a change set.
    """

    stack: dict[str, Any] | None = None
    changes: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    ends: list[str] = field(default_factory=lambda: ["CREATE_COMPLETE"])
    failing: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, Exception] = field(default_factory=dict)
    resources: list[dict[str, Any]] = field(default_factory=list)
    template: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    coming: list[dict[str, Any]] = field(default_factory=list)

    def __getattribute__(self, name: str) -> Any:
        refused = object.__getattribute__(self, "refused")
        if name in refused:
            raise refused[name]
        if name.startswith(("create_", "delete_", "execute_", "update_")):
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)

    def describe_stacks(self, *, StackName: str) -> Any:
        if self.stack is None:
            raise client_error("DescribeStacks", "ValidationError", f"Stack with id {StackName} does not exist")
        return {"Stacks": [{"Tags": self.request.get("Tags", []), **self.stack}]}

    def create_change_set(self, **request: Any) -> Any:
        assert request["ClientToken"] == request["ChangeSetName"]
        self.request = request
        if self.stack is None:
            self.stack = {"StackId": STACK_ID, "StackStatus": "REVIEW_IN_PROGRESS"}
            self._event("REVIEW_IN_PROGRESS")
        return {"Id": "change-set"}

    def describe_change_set(self, **_: Any) -> Any:
        status = "CREATE_COMPLETE" if self.reason is None else "FAILED"
        changes = [{"Type": "Resource", "ResourceChange": each} for each in self.changes]
        return {"Status": status, "StatusReason": self.reason or "", "StackId": STACK_ID, "Changes": changes}

    def delete_change_set(self, **_: Any) -> None: ...

    def execute_change_set(self, **_: Any) -> None:
        assert self.stack is not None
        self._begin("UPDATE_IN_PROGRESS" if "Outputs" in self.stack else "CREATE_IN_PROGRESS")

    def update_termination_protection(self, *, EnableTerminationProtection: bool, **_: Any) -> None:
        assert self.stack is not None
        self.stack["EnableTerminationProtection"] = EnableTerminationProtection

    def delete_stack(self, **_: Any) -> None:
        assert self.stack is None or not self.stack.get("EnableTerminationProtection")
        if self.stack is None or self.stack["StackStatus"] == "REVIEW_IN_PROGRESS":
            self.stack = None
        else:
            self._begin("DELETE_IN_PROGRESS")

    def describe_stack_events(self, **_: Any) -> Any:
        """Returns the events, and lets the next event happen for the next call."""
        found = list(reversed(self.events))
        if self.coming:
            self._happens(self.coming.pop(0))
        return {"StackEvents": found}

    def list_stack_resources(self, **_: Any) -> Any:
        return {"StackResourceSummaries": self.resources}

    def get_template(self, **_: Any) -> Any:
        return {"TemplateBody": self.template}

    def get_paginator(self, operation: str) -> Any:
        return FakePaginator(getattr(self, operation))

    def busy(self, status: str) -> None:
        """Lets somebody else begin a change."""
        self._begin(status)

    def _begin(self, status: str) -> None:
        assert self.stack is not None
        self.stack["StackStatus"] = status
        self._event(status)
        self.coming = [*self.failing, {"PhysicalResourceId": STACK_ID, "ResourceStatus": self.ends.pop(0)}]

    def _happens(self, event: Mapping[str, Any]) -> None:
        if event.get("PhysicalResourceId") == STACK_ID:
            assert self.stack is not None
            self.stack["StackStatus"] = event["ResourceStatus"]
            if "COMPLETE" in event["ResourceStatus"] and self.request:
                self.stack["Parameters"] = self.request["Parameters"]
                outputs = {"Environment": "development", "SettingsParameter": "/tidewheel/reminders/settings"}
                listed = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
                self.stack.setdefault("Outputs", listed)
            if event["ResourceStatus"] == "DELETE_COMPLETE":
                self.stack = None
        self._event(**event)

    def _event(self, ResourceStatus: str, **event: Any) -> None:
        given = {
            "PhysicalResourceId": STACK_ID,
            "LogicalResourceId": STACK,
            "ResourceType": "AWS::CloudFormation::Stack",
        }
        self.events.append({**given, "EventId": str(len(self.events)), "ResourceStatus": ResourceStatus, **event})


@dataclass
class FakePaginator:
    """Returns everything as one page."""

    call: Any

    def paginate(self, **request: Any) -> FakePaginator:
        self.request = request
        return self

    def __iter__(self) -> Any:
        yield self.build_full_result()

    def build_full_result(self) -> Any:
        return self.call(**self.request)


@dataclass
class FakeAccount:
    """A session of boto3: the fake CloudFormation, moto's S3, and other services' answers."""

    cloudformation: FakeCloudFormation = field(default_factory=FakeCloudFormation)
    region_name: str = "eu-central-1"
    concurrency: int = 1000
    queues: list[str] = field(default_factory=list)
    taken: Exception | None = None
    """S3's answer to the creation of a bucket."""

    def client(self, service: str, **options: Any) -> Any:
        if service == "s3":
            made = boto3.client("s3", region_name=self.region_name, config=options["config"])
            made.meta.events.register("provide-client-params.s3.*", self._check)
            return made
        return self.cloudformation if service == "cloudformation" else self

    def _check(self, params: dict[str, Any], event_name: str, **_: Any) -> None:
        """Checks that each call names the owner of the bucket. moto does not."""
        if not event_name.endswith(".CreateBucket"):
            assert params["ExpectedBucketOwner"] == ACCOUNT, event_name
        elif self.taken is not None:
            raise self.taken

    def get_caller_identity(self) -> Any:
        return {"Account": ACCOUNT}

    def get_account_settings(self) -> Any:
        return {"AccountLimit": {"ConcurrentExecutions": self.concurrency}}

    def list_queues(self, **_: Any) -> Any:
        return {"QueueUrls": self.queues}
