"""Notes which grants of a role's policies are needed by the calls of a local stack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.iam.access import Access, role_name, statements_of
from tests.iam.iam_policy import Request, Statement, allowed, many


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Holds one action on one resource that a role's policies allow, with or without conditions.

    Attributes:
        role: the role, by name.
        action, resource: as in the policy.
        conditions: the policy's, as JSON; empty if there are none.
    """

    role: str
    action: str
    resource: str
    conditions: str


def grants_of(role_arn: str) -> set[Grant]:
    """Returns all grants of a role, each for one action on one resource."""
    role = role_name(role_arn)
    return {
        _grant(role, single) for each in statements_of(role) if each["Effect"] == "Allow" for single in _singles(each)
    }


def matching(statements: Sequence[Statement], request: Request) -> list[Statement]:
    """Returns the statements that allow a request."""
    return [each for each in statements if each["Effect"] == "Allow" and allowed([each], request)]


@contextmanager
def needed_grants() -> Iterator[set[Grant]]:
    """Notes each grant without which a request that was allowed would have been refused."""
    needed: set[Grant] = set()
    known: set[tuple[str, Request]] = set()
    allows = Access.allows

    def noting(self: Access, role: str, statements: Sequence[Statement], request: Request) -> bool:
        found = allows(self, role, statements, request)
        if found and (role, request) not in known:
            known.add((role, request))
            singles = (single for each in matching(statements, request) for single in _singles(each))
            grants = {_grant(role, single) for single in singles if matching([single], request)}
            needed.update(grants if len(grants) == 1 else ())
        return found

    with patch.object(Access, "allows", noting):
        yield needed


def _singles(statement: Statement) -> Iterator[Statement]:
    """Splits a statement into a statement for each action on each resource."""
    for action in many(statement["Action"]):
        for resource in many(statement["Resource"]):
            yield {**statement, "Action": action, "Resource": resource}


def _grant(role: str, single: Statement) -> Grant:
    conditions = json.dumps(single["Condition"], sort_keys=True) if "Condition" in single else ""
    return Grant(role=role, action=single["Action"], resource=single["Resource"], conditions=conditions)
