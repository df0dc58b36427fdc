"""Where a trial runs: an AWS account, or the emulated AWS of the local runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidewheel.clock import Clock

if TYPE_CHECKING:
    import boto3

    from tidewheel.sdk.client import Tidewheel

Take = Callable[[int], bool]
"""Receives all that one subscription has, waiting so many seconds for the first message; False if it could not."""


class DeployFailed(Exception):
    """The stack was not deployed; what the command said is above."""


class JobFailed(Exception):
    """A Glue job did not end well; its logs are in CloudWatch under /aws-glue/<stack>-<job>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a trial used, as far as it can be counted.

    Attributes:
        units: by kind of bill, as `tidewheel.local.meter` names them.
        gb_seconds: function time; None if it is not measured.
        invocations, errors, throttles: by function.
        unknown: what AWS bills and this does not count.
    """

    units: Mapping[str, float]
    gb_seconds: float | None = None
    invocations: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    throttles: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


class Cloud(Protocol):
    """Where a trial runs.

    Attributes:
        stack_name: the stack that `deploy` makes; no other has a name that begins like it.
        session: boto3's session, for everything that AWS and its emulation have in common.
        clock: this machine's clock, or the virtual one.
        has_alarms: whether its stacks have alarms, so that to find none is a fault.
    """

    @property
    def stack_name(self) -> str:
        """The stack."""
        ...

    @property
    def session(self) -> boto3.Session:
        """The session."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock."""
        ...

    @property
    def has_alarms(self) -> bool:
        """Whether there are alarms."""
        ...

    def deploy(self) -> None:
        """Makes the stack.

        Raises:
            DeployFailed: it was not made, or not wholly; removal takes away what there is.
        """
        ...

    def client(self) -> Tidewheel:
        """Returns a client of the stack."""
        ...

    def listen(self, take: Take) -> None:
        """Calls `take` again and again, until `deafen`: on a thread of its own, or whenever virtual time moves."""
        ...

    def deafen(self) -> None:
        """Ends all that `listen` began."""
        ...

    def sleep(self, seconds: float) -> None:
        """Lets time pass."""
        ...

    def hasten_bulk(self) -> None:
        """Has ingest take what is due in over an hour within seconds, not after the bulk queue's window of 300 s."""
        ...

    def rebuild_on_glue(self, topic: str, *, dry_run: bool) -> None:
        """Runs the rebuild job to its end; it replaces the index that there is.

        Raises:
            JobFailed: the run failed.
        """
        ...

    def usage(self, since_ms: int) -> Usage:
        """Returns what the stack used since a time; it may wait until that is known."""
        ...

    def close(self) -> None:
        """Lets go of what this process holds; removes nothing from the account."""
        ...


def outputs(session: boto3.Session, stack_name: str) -> dict[str, str]:
    """Returns a deployed stack's outputs."""
    [stack] = session.client("cloudformation").describe_stacks(StackName=stack_name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}


def resources(session: boto3.Session, stack_name: str) -> dict[str, list[tuple[str, str]]]:
    """Returns a stack's resources by type, each as logical and physical id."""
    pages = session.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack_name)
    found: dict[str, list[tuple[str, str]]] = {}
    for page in pages:
        for each in page["StackResourceSummaries"]:
            if each.get("PhysicalResourceId"):
                pair = (each["LogicalResourceId"], each["PhysicalResourceId"])
                found.setdefault(each["ResourceType"], []).append(pair)
    return found
