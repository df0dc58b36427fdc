"""Selects a subscription's messages, by Amazon SNS's filter-policy syntax.

    {"store": ["example_corp"], "price": [{"numeric": [">", 0, "<=", 150]}], "region": [{"anything-but": ["eu", "us"]}]}

A message is taken if every name of the policy matches its attributes (AND). A name matches if any of its conditions
does (OR):

| condition | matches |
|---|---|
| `"text"` | exactly this text |
| `5`, `true`, `false`, `null` | this number; this keyword |
| `{"prefix": "text"}`, `{"suffix": "text"}` | text with this start or end |
| `{"wildcard": "a*b*"}` | this text with any text, or none, in place of each of up to three `*` |
| `{"equals-ignore-case": "text"}` | this text in small or capital letters |
| `{"cidr": "10.0.0.0/24"}` | an IP address, IPv4 or IPv6, in this network |
| `{"anything-but": ...}` | all but a text, a number, a list of them, or a `prefix`, `suffix` or `wildcard` |
| `{"numeric": ["=", 5]}`, `{"numeric": [">", 0, "<=", 150]}` | numbers in this range, by `=`, `<`, `<=`, `>`, `>=` |
| `{"exists": true}`, `{"exists": false}` | a message with this attribute; a message without it |

`"$or": [{...}, {...}]` beside the names matches if one of its policies does. As in SNS, only `exists: false` matches a
message without the attribute; `anything-but` does not. A message without any attributes is never taken.

The name `tidewheel.group` stands for the message's group. It takes the same conditions, and a message without a group
does not have it. A policy with this name tests messages without attributes too.

SNS looks at an attribute's type, but Tidewheel has only text. So text that is a JSON number is compared as text and as
a number (to five decimals, as in SNS). The text `true`, `false` or `null` is compared as text and as the keyword. A
JSON array of such values is read as SNS reads String.Array: it matches if any element matches, and `anything-but`
matches if every element does. An array's elements have JSON's types, so `"5"` in an array is text only. An empty array
counts as no attribute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from tidewheel.errors import InvalidValue
from tidewheel.model.filter_condition import COMPARISONS, DECIMALS, Test, attribute_test
from tidewheel.model.untrusted import json_of

MAX_NAMES = 5
MAX_COMBINATIONS = 150
MAX_BYTES = 256 * 1024
"""SNS's limits: names in a policy, the product of the numbers of their conditions, the policy's bytes."""

GROUP_NAME = "tidewheel.group"
"""The name in a policy for a message's group. A sender's attribute of this name is not tested."""

_FIELD = "filter_policy"
_LARGEST = 1_000_000_000
"""SNS's limit. A policy's numbers are from -10^9 to 10^9, exact to five decimals."""
_MAX_NAME_CHARACTERS = 256
_OR = "$or"
_MAX_WILDCARDS = 3
"""SNS's limit, of a text."""
_OPERATORS = ("anything-but", "cidr", "equals-ignore-case", "exists", "numeric", "prefix", "suffix", "wildcard")
_RANGE = 'give one comparison such as ["=", 5], or a range such as [">", 0, "<=", 150]'
_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode


_Policy = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterPolicy:
    """A checked policy for testing messages.

    `FilterPolicy.parse` makes a policy. Policies that differ only in order are equal.

    Attributes:
        tests_group: whether the policy names the message's group.
    """

    tests_group: bool
    _json: str
    _test: Test = field(compare=False, repr=False)

    @classmethod
    def parse(cls, policy: str | Mapping[str, Any]) -> FilterPolicy:
        """Reads and checks a policy.

        Args:
            policy: JSON text, or the equivalent mapping.

        Raises:
            InvalidValue: the policy is not JSON, is empty, is over SNS's limits, or has an invalid part. The error
                names the part.
        """
        try:
            names: set[str] = set()
            canonical, combinations = _check_policy(_read(policy), _FIELD, names)
            text = _TO_JSON(canonical)
            size_bytes = len(text.encode())
        except RecursionError:
            raise InvalidValue(_FIELD, type(policy), "nested too deeply; a policy has names and lists") from None
        except UnicodeEncodeError:
            raise InvalidValue(_FIELD, policy, "it holds half a surrogate pair, which no attribute can") from None
        if len(names) > MAX_NAMES:
            raise InvalidValue(_FIELD, sorted(names), f"{len(names)} names; SNS and Tidewheel take {MAX_NAMES}")
        if combinations > MAX_COMBINATIONS:
            how = f"its lists multiply to {combinations} combinations; at most {MAX_COMBINATIONS}, so shorten one"
            raise InvalidValue(_FIELD, policy, how)
        if size_bytes > MAX_BYTES:
            raise InvalidValue(_FIELD, policy, f"{size_bytes} bytes; at most {MAX_BYTES}")
        return cls(tests_group=GROUP_NAME in names, _json=text, _test=_policy_test(canonical))

    def matches(self, attributes: Mapping[str, str] | None, group: str | None = None) -> bool:
        """Returns whether a message with these attributes and this group is taken.

        A message without attributes is taken only by a policy that tests the group.
        """
        if self.tests_group:
            named = {name: value for name, value in (attributes or {}).items() if name != GROUP_NAME}
            return self._test(named if group is None else {**named, GROUP_NAME: group})
        return attributes is not None and len(attributes) > 0 and self._test(attributes)

    def to_json(self) -> str:
        """Returns the policy as JSON with sorted names and conditions.

        Equal policies have equal text.
        """
        return self._json


# ---- reading and checking


def _read(policy: object) -> object:
    """Returns the policy as json.loads reads it, from text or a mapping."""
    how = 'give a JSON object of names with lists of conditions, such as {"store": ["example_corp"]}'
    if not isinstance(policy, (str, Mapping)):
        raise InvalidValue(_FIELD, policy, how)
    try:
        text = (
            policy
            if isinstance(policy, str)
            else json.dumps(policy, default=_to_dict, allow_nan=False, ensure_ascii=False)
        )
        if len(text) > MAX_BYTES:
            raise InvalidValue(_FIELD, policy, f"{len(text)} characters; at most {MAX_BYTES} bytes")
        return json_of(text, object_pairs_hook=_without_repetition)
    except InvalidValue:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidValue(_FIELD, policy, f"not JSON ({error}); {how}") from None


def _to_dict(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _without_repetition(pairs: list[tuple[str, Any]]) -> _Policy:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidValue(_FIELD, twice, "this name is there twice; give its conditions in one list")
    return result


def _check_policy(policy: object, where: str, names: set[str]) -> tuple[_Policy, int]:
    """Returns the canonical policy and the number of combinations. Adds to `names`."""
    if not isinstance(policy, dict):
        raise InvalidValue(where, policy, 'give an object of names with lists, such as {"store": ["example_corp"]}')
    if not policy:
        raise InvalidValue(where, policy, "an empty policy; name an attribute, or give no policy to take every message")
    canonical: _Policy = {}
    combinations = 1
    for name, conditions in policy.items():
        if name == _OR:
            canonical[name], count = _check_or(conditions, f"{where} {_OR}", names)
        else:
            names.add(name)
            canonical[name] = _check_name(name, conditions, where)
            count = len(canonical[name])
        combinations *= count
    return canonical, combinations


def _check_or(branches: object, where: str, names: set[str]) -> tuple[list[_Policy], int]:
    if not isinstance(branches, list) or len(branches) < 2 or not all(isinstance(each, dict) for each in branches):
        raise InvalidValue(where, branches, 'give a list of at least two policies: [{"a": [..]}, {"b": [..]}]')
    checked = []
    for number, branch in enumerate(branches):
        reserved = sorted(branch.keys() & _OPERATORS)
        if reserved:
            advice = f"{reserved[0]!r} is an operator; SNS takes no attribute of this name inside $or"
            raise InvalidValue(f"{where}[{number}]", branch, advice)
        checked.append(_check_policy(branch, f"{where}[{number}]", names))
    return _sorted([branch for branch, _ in checked]), sum(count for _, count in checked)


def _check_name(name: str, conditions: object, where: str) -> list[Any]:
    if not 1 <= len(name) <= _MAX_NAME_CHARACTERS:
        raise InvalidValue(where, name, f"an attribute's name has 1 to {_MAX_NAME_CHARACTERS} characters")
    if isinstance(conditions, dict):
        raise InvalidValue(f"{where} {name}", conditions, "attributes are not nested; give a list: [{...}]")
    if not isinstance(conditions, list) or not conditions:
        raise InvalidValue(f"{where} {name}", conditions, 'give a list of at least one condition, such as ["text"]')
    return _sorted([_check_condition(each, f"{where} {name}[{i}]") for i, each in enumerate(conditions)])


def _sorted(parts: Sequence[Any]) -> list[Any]:
    """Returns the distinct parts, in the order of their JSON."""
    by_text = {_TO_JSON(part): part for part in parts}
    return [by_text[text] for text in sorted(by_text)]


def _check_condition(condition: object, where: str) -> Any:
    if condition is None or isinstance(condition, (str, bool)):
        return condition
    if isinstance(condition, (int, float)):
        return _check_number(condition, where)
    if not isinstance(condition, dict):
        advice = 'give text, a number, true, false, null, or an operator such as {"prefix": "text"}'
        raise InvalidValue(where, condition, advice)
    if len(condition) != 1:
        raise InvalidValue(where, condition, "one operator in each object; give several objects in the list for OR")
    [(operator, operand)] = condition.items()
    return {operator: _check_operand(operator, operand, where)}


def _check_operand(operator: str, operand: object, where: str) -> Any:
    inside = f"{where} {operator}"
    if operator in ("prefix", "suffix", "equals-ignore-case", "wildcard", "cidr"):
        if not isinstance(operand, str) or not operand:
            raise InvalidValue(inside, operand, "give text of at least one character")
        if operator == "wildcard":
            _check_wildcards(operand, inside)
        return _network(operand, inside) if operator == "cidr" else operand
    if operator == "exists":
        if not isinstance(operand, bool):
            raise InvalidValue(inside, operand, "give true or false, without quotation marks")
        return operand
    if operator == "numeric":
        return _check_range(operand, inside)
    if operator == "anything-but":
        return _check_anything_but(operand, inside)
    raise InvalidValue(where, operator, f"unknown operator; use {', '.join(_OPERATORS)}")


def _check_wildcards(text: str, where: str) -> None:
    if text.count("*") > _MAX_WILDCARDS:
        raise InvalidValue(where, text, f"at most {_MAX_WILDCARDS} wildcards; use prefix, suffix or several conditions")
    if "\\" in text:
        raise InvalidValue(where, text, "no backslash: each * is a wildcard; use prefix, suffix or the whole text")


def _network(text: str, where: str) -> str:
    """Returns a network in its shortest notation. A single address is a network."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError as error:
        raise InvalidValue(where, text, f'give a network such as "10.0.0.0/24" or "2001:db8::/32" ({error})') from None


def _check_number(value: object, where: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidValue(where, value, f"give a number without quotation marks; {_RANGE}")
    if not -_LARGEST <= value <= _LARGEST:
        raise InvalidValue(where, value, f"numbers of a policy are from -{_LARGEST} to {_LARGEST}")
    rounded = round(float(value), DECIMALS)
    return int(rounded) if rounded.is_integer() else rounded


def _check_range(operand: object, where: str) -> list[Any]:
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        raise InvalidValue(where, operand, _RANGE)
    result: list[Any] = []
    for comparison, bound in zip(operand[::2], operand[1::2], strict=True):
        if not isinstance(comparison, str) or comparison not in COMPARISONS:
            raise InvalidValue(where, comparison, f"use one of {' '.join(COMPARISONS)}; {_RANGE}")
        result += [comparison, _check_number(bound, where)]
    if len(result) == 4:
        if result[0] not in (">", ">=") or result[2] not in ("<", "<="):
            how = "a range has its lower bound (> or >=) first and its upper (< or <=) last"
            raise InvalidValue(where, operand, how)
        if result[1] >= result[3]:
            raise InvalidValue(where, operand, "the lower bound must be below the upper one; nothing would match")
    return result


def _check_anything_but(operand: object, where: str) -> Any:
    if isinstance(operand, dict):
        if len(operand) != 1 or not operand.keys() <= {"prefix", "suffix", "wildcard"}:
            how = 'give {"prefix": "text"}, a suffix or a wildcard likewise, text, a number or a list'
            raise InvalidValue(where, operand, how)
        [(operator, text)] = operand.items()
        return {operator: _check_operand(operator, text, where)}
    refused = operand if isinstance(operand, list) else [operand]
    if not refused:
        raise InvalidValue(where, operand, 'give at least one value; {"exists": true} takes every value')
    for each in refused:
        if isinstance(each, bool) or not isinstance(each, (str, int, float)):
            raise InvalidValue(where, each, "give text, a number, or a list of them")
    return _sorted([each if isinstance(each, str) else _check_number(each, where) for each in refused])


# ---- asking


def _policy_test(policy: _Policy) -> Test:
    tests = [_or_test(each) if name == _OR else attribute_test(name, each) for name, each in policy.items()]
    if len(tests) == 1:
        return tests[0]
    return lambda attributes: all(test(attributes) for test in tests)


def _or_test(branches: list[_Policy]) -> Test:
    tests = [_policy_test(branch) for branch in branches]
    return lambda attributes: any(test(attributes) for test in tests)
