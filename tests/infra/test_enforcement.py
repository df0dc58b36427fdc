"""Every flow of the service works with the roles of the template, and the roles allow nothing more.

`EXPLAINED` holds, with its reason, each grant that no flow here needs: what AWS itself does with a role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.iam.access import Denial
from tests.iam.stack import EnforcedTidewheel
from tests.infra.enforced import FLOWS, World
from tests.infra.needed_grants import Grant, grants_of, needed_grants
from tests.infra.roles import COMPACT, DISPATCH, FUNCTION_ROLES, SCHEDULE, SWEEP, role_arn
from tests.infra.variants import local_template_of

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

    def role_arn(self, role: str) -> str:
        """The ARN of the role with a logical id."""
        if role not in self._role_arns:
            self._role_arns[role] = role_arn(self.world.stack, role)
        return self._role_arns[role]

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
    template = local_template_of("development with a key")
    opened = EnforcedTidewheel(template=template, job_runner=World.runner(jobs))
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
