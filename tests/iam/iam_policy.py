"""Evaluates the part of IAM's policy language that Tidewheel's policies use.

Why: moto 5.2.5 treats a statement with a false condition as a denial, knows only `StringEquals` and similar operators
of trust policies, and reads a resource as a regular expression.

An unknown element, operator or condition key is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Any

Statement = Mapping[str, Any]

CONDITION_KEYS = frozenset(
    {
        "cloudwatch:namespace",
        "dynamodb:attributes",
        "dynamodb:leadingkeys",
        "iam:passedtoservice",
        "kms:viaservice",
        "s3:if-none-match",
        "kms:encryptioncontext:aws:s3:arn",
        "s3:prefix",
    }
)
"""Condition keys set by `iam_requests` and `iam_resources` wherever AWS has them, in lower case.

IAM ignores the case of condition keys.
"""
RESOURCE_TAG = "aws:ResourceTag/"
"""Prefix of a condition key with a tag's name, for queues only."""

_ELEMENTS = frozenset({"Sid", "Effect", "Principal", "Action", "Resource", "Condition"})
_ALL, _ANY, _IF_EXISTS = "ForAllValues", "ForAnyValue", "IfExists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Holds a single request of a call to IAM. A call on several resources has several requests.

    Attributes:
        action: such as sqs:SendMessage.
        resource: its ARN, or "*" where AWS has no resource for the action.
        context: condition keys of the call, with their values.
    """

    action: str
    resource: str
    context: tuple[tuple[str, tuple[str, ...]], ...] = ()


def allowed(statements: Iterable[Statement], request: Request) -> bool:
    """Returns whether some statement allows a request and none denies it.

    Raises:
        NotImplementedError: a statement about the action and resource has a part unknown to this evaluator.
    """
    effects = {statement["Effect"] for statement in statements if _applies(statement, request)}
    return "Allow" in effects and "Deny" not in effects


def names_action(statements: Iterable[Statement], action: str) -> bool:
    """Returns whether some statement names an action, for any resource."""
    return any(_has_action(statement, action) for statement in statements)


def many(value: str | Sequence[str]) -> list[str]:
    """Returns a list of a single text or several texts, since IAM allows both."""
    return [value] if isinstance(value, str) else list(value)


def like(pattern: str, text: str) -> bool:
    """Matches the wildcards * and ? as IAM does. Brackets have no special meaning.

    Raises:
        NotImplementedError: the pattern has a policy variable.
    """
    if "${" in pattern:
        raise NotImplementedError(f"policy variables, as in {pattern!r}")
    return _compiled(pattern).match(text) is not None


def _applies(statement: Statement, request: Request) -> bool:
    unknown = set(statement) - _ELEMENTS
    if unknown:
        raise NotImplementedError(f"policy elements {sorted(unknown)}")
    if not _has_action(statement, request.action):
        return False
    if not any(like(resource, request.resource) for resource in many(statement["Resource"])):
        return False
    given = {key.lower(): values for key, values in request.context}
    return all(
        _holds(operator, many(values), _values(given, key))
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    )


def _has_action(statement: Statement, action: str) -> bool:
    return any(like(each.lower(), action.lower()) for each in many(statement["Action"]))


def _values(given: Mapping[str, tuple[str, ...]], key: str) -> tuple[str, ...]:
    if key.lower() not in CONDITION_KEYS and not key.lower().startswith(RESOURCE_TAG.lower()):
        raise NotImplementedError(f"condition key {key}")
    return given.get(key.lower(), ())


def _equal(pattern: str, text: str) -> bool:
    return pattern == text


_COMPARISONS: dict[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_equal, True),
    "StringNotEquals": (_equal, False),
    "StringLike": (like, True),
    "StringNotLike": (like, False),
}
"""Operator -> function to compare a value with the policy's value, and whether a match is required."""


def _holds(operator: str, wanted: Sequence[str], given: Sequence[str]) -> bool:
    if operator == "Null":
        return not given if wanted == ["true"] else bool(given)
    quantifier, _, name = operator.rpartition(":")
    bare = name.removesuffix(_IF_EXISTS)
    if bare not in _COMPARISONS or quantifier not in ("", _ALL, _ANY):
        raise NotImplementedError(f"condition operator {operator}")
    compare, should_match = _COMPARISONS[bare]
    if not given:
        # Negated operators, ForAllValues and ...IfExists hold for a missing key.
        return quantifier == _ALL or (quantifier == "" and not should_match) or bare != name
    results = [any(compare(each, value) for each in wanted) is should_match for value in given]
    return any(results) if quantifier == _ANY else all(results)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern.replace("[", "[[]")))
