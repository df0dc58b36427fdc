"""Every flow of the service works with the roles of the template, and the roles allow nothing more.

`EXPLAINED` holds, with its reason, each grant that no flow here needs: what AWS itself does with a role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import pytest

from infra.local_template import normalized
from tests.infra.denied import DENIED, check_denied, names_of
from tests.infra.enforced import FLOWS, World
from tests.infra.needed_grants import Grant, grants_of, needed_grants
from tests.infra.roles import COMPACT, DISPATCH, FUNCTION_ROLES, INGEST, SCHEDULE, SWEEP, role_arn
from tests.infra.variants import template_of
from tidewheel.client.queue_tags import ROLE_TAG, STACK_TAG, SUBSCRIPTION
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.access import Denial

ROLES = (*FUNCTION_ROLES, SCHEDULE)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A reason for grants not needed by any flow."""

    roles: tuple[str, ...]
    actions: str
    where: str
    why: str


EXPLAINED = (
    Rule(roles=FUNCTION_ROLES, actions="logs:*", where="log-group:*", why="Lambda writes the logs"),
    Rule(roles=FUNCTION_ROLES, actions="xray:Put*", where="*", why="Lambda's X-Ray daemon sends the traces"),
    Rule(
        roles=(DISPATCH, COMPACT, SWEEP),
        actions="sqs:SendMessage",
        where="TimingWheelScheduleDeadLetters",
        why="Lambda puts asynchronous calls there that failed for good",
    ),
    Rule(roles=(DISPATCH, SWEEP), actions="s3:*Version*", where="S3*", why="no topic here has strict erasure"),
    Rule(roles=(COMPACT,), actions="dynamodb:Query", where="table/T*", why="no topic here has more than 64 KiB"),
)


@dataclass(kw_only=True)
class Ran:
    """The result of one flow."""

    error: BaseException | None = None
    failures: list[Any] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)


@dataclass(kw_only=True)
class Enforced:
    """The stack after all flows, still open.

    Attributes:
        ran: what came of each flow.
        needed: the grants without which some request of some flow is denied.
    """

    world: World
    ran: dict[str, Ran]
    needed: set[Grant]
    _role_arns: dict[str, str] = field(default_factory=dict)
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def role_arn(self, role: str) -> str:
        """The ARN of the role with a logical id."""
        if role not in self._role_arns:
            self._role_arns[role] = role_arn(self.world.stack, role)
        return self._role_arns[role]

    def client(self, role: str, service: str) -> Any:
        """Returns a cached client of an AWS service with a role's rights."""
        if (role, service) not in self._clients:
            session = self.world.stack._emulator.core_session(role_arn=self.role_arn(role))
            self._clients[role, service] = session.create_client(service)
        return self._clients[role, service]

    @cached_property
    def names(self) -> dict[str, str]:
        """Returns the values of the placeholders in the calls' parameters."""
        return {
            **names_of(self.world.settings),
            "{DEAD}": self._queue("WorkQueueDeadLetters"),
            "{INGEST_ROLE}": self.role_arn(INGEST),
            "{LOOKALIKE}": self._lookalike("tidewheel-secrets", {}),
            "{MAIL}": self.world.subscription_queue("ledgers"),
            "{NEIGHBOUR}": self._lookalike(
                "tidewheel-eu-orders-mail", {STACK_TAG: "tidewheel-eu", ROLE_TAG: SUBSCRIPTION}
            ),
        }

    def _queue(self, logical_id: str) -> str:
        """URL of the service's own queue with a logical id."""
        urls = self.world.stack.session.client("sqs").list_queues(QueueNamePrefix="tidewheel-")["QueueUrls"]
        [found] = [url for url in urls if logical_id in url]
        return found

    def _lookalike(self, name: str, tags: dict[str, str]) -> str:
        """Creates a queue without a subscription, despite the name. Returns the URL."""
        return self.world.stack.session.client("sqs").create_queue(QueueName=name, tags=tags)["QueueUrl"]

    def shown(self, grant: Grant) -> str:
        """Returns a grant's resource with stable names."""
        settings = self.world.settings
        where = grant.resource.rpartition(":")[2] if "log-group" not in grant.resource else "log-group:its own"
        where = where.replace(settings.s3_bucket, "S3").replace(settings.table, "T")
        where = "the key" if where.startswith("key/") else where
        return re.sub(r"^tidewheel-(\w+)[0-9A-F]{8}-\w+$", r"\1", where)


def run(world: World, name: str) -> Ran:
    """Runs a flow and returns the result."""
    ran = Ran()
    stack, before = world.stack, len(world.stack.denials)
    stack.failures.clear()
    try:
        FLOWS[name](world)
    except Exception as error:
        ran.error = error
    ran.failures, ran.denials = list(stack.failures), stack.denials[before:]
    return ran


@pytest.fixture(scope="module")
def enforced() -> Iterator[Enforced]:
    """Runs all flows in order on a stack with a KMS key."""
    jobs: list[tuple[str, str]] = []
    template = normalized(template_of("development with a key"))
    opened = LocalTidewheel(template=template, enforce_iam=True, job_runner=World.runner(jobs))
    with needed_grants() as needed, opened as stack:
        world = World(stack=stack, jobs=jobs)
        ran = {name: run(world, name) for name in FLOWS}
        yield Enforced(world=world, ran=ran, needed=set(needed))


# ---- what is needed is allowed


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_does_its_work_under_its_own_roles_and_nothing_is_denied(enforced: Enforced, name: str) -> None:
    ran = enforced.ran[name]
    assert ran.denials == []
    assert [str(each.error) for each in ran.failures] == []
    if ran.error is not None:
        raise ran.error


# ---- what is allowed is needed


@pytest.mark.parametrize("role", ROLES)
def test_each_grant_of_a_role_is_needed_by_some_flow_or_explained(enforced: Enforced, role: str) -> None:
    rules = [rule for rule in EXPLAINED if role in rule.roles]
    unexplained = [
        f"{grant.action} on {enforced.shown(grant)} {grant.conditions}"
        for grant in grants_of(enforced.role_arn(role)) - enforced.needed
        if not any(explains(rule, grant, enforced.shown(grant)) for rule in rules)
    ]
    assert unexplained == []


@pytest.mark.parametrize("role", ROLES)
def test_no_explanation_is_left_over(enforced: Enforced, role: str) -> None:
    unneeded = grants_of(enforced.role_arn(role)) - enforced.needed
    for rule in EXPLAINED:
        if role in rule.roles:
            assert any(explains(rule, grant, enforced.shown(grant)) for grant in unneeded), (role, rule)


def explains(rule: Rule, grant: Grant, where: str) -> bool:
    """Whether a rule is about a grant."""
    return fnmatchcase(grant.action, rule.actions) and fnmatchcase(where, rule.where)


# ---- what is not allowed is denied


CASES = [(name, role) for name, denied in DENIED.items() for role in denied.roles]


@pytest.mark.parametrize(("name", "role"), CASES)
def test_what_a_role_may_not_do_is_denied_by_name(enforced: Enforced, name: str, role: str) -> None:
    denied = DENIED[name]
    client = enforced.client(role, denied.service)
    check_denied(enforced.world.stack, client, denied, names=enforced.names, role=role)


def test_the_schedules_role_invokes_nothing_but_dispatch(enforced: Enforced) -> None:
    emulator = enforced.world.stack._emulator
    for function in ("ingest", "deliver", "compact", "sweep"):
        arn = f"arn:aws:lambda:us-east-1:123456789012:function:tidewheel-{function}"
        with pytest.raises(PermissionError, match="lambda:InvokeFunction"):
            emulator.check_invocation(enforced.role_arn(SCHEDULE), arn)
