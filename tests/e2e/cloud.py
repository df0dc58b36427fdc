"""The port for the environments of scenarios, an AWS account or the local stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidewheel.clock import Clock

if TYPE_CHECKING:
    import boto3

    from tidewheel.client.tidewheel import Tidewheel

PREFIX = "tidewheel-smoke-"
"""The start of the name of every stack that the suite makes. The suite removes no other stack."""

Take = Callable[[int], bool]
"""Receives all messages of one subscription and waits up to so many seconds for the first. False: it failed."""


class DeployFailed(Exception):
    """The stack was not deployed. The output above says why."""


class Cloud(Protocol):
    """Where the scenarios run.

    Attributes:
        stack_name: the stack that `deploy` makes.
        session: boto3's session, for everything that AWS and its emulation have in common.
        clock: this machine's clock, or the virtual one.
    """

    @property
    def stack_name(self) -> str: ...

    @property
    def session(self) -> boto3.Session: ...

    @property
    def clock(self) -> Clock: ...

    def deploy(self) -> None:
        """Makes the stack.

        Raises:
            DeployFailed: the stack was not made, or not wholly.
        """

    def client(self) -> Tidewheel:
        """Returns a client of the stack."""

    def listen(self, url: str, take: Take) -> None:
        """Calls `take` again and again until `deafen`, for a queue with messages or without."""

    def deafen(self) -> None:
        """Ends all listening."""

    def sleep(self, seconds: float) -> None:
        """Lets time pass."""

    def close(self) -> None:
        """Frees the resources of this process, and removes nothing from the account."""


def outputs(session: boto3.Session, stack_name: str) -> dict[str, str]:
    """Returns the outputs of a deployed stack."""
    [stack] = session.client("cloudformation").describe_stacks(StackName=stack_name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}


def resources(session: boto3.Session, stack_name: str) -> dict[str, list[tuple[str, str]]]:
    """Returns the resources of a stack by type, each as logical and physical id."""
    pages = session.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack_name)
    found: dict[str, list[tuple[str, str]]] = {}
    for page in pages:
        for each in page["StackResourceSummaries"]:
            if each.get("PhysicalResourceId"):
                pair = (each["LogicalResourceId"], each["PhysicalResourceId"])
                found.setdefault(each["ResourceType"], []).append(pair)
    return found
