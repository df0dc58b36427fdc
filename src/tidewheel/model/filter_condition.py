"""Compiles a filter policy's conditions on an attribute into a test.

`tidewheel.model.filter_policy` checks the conditions and documents their meaning.
"""

from __future__ import annotations

import fnmatch
import json
import math
import operator as op
import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

from tidewheel.model.untrusted import json_of

DECIMALS = 5
"""SNS compares numbers to five decimals."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {"=": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}

Test = Callable[[Mapping[str, str]], bool]
"""Returns whether a message with these attributes is taken."""

_KEYWORDS = {"true": True, "false": False, "null": None}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


class _Value(NamedTuple):
    """A value of an attribute, as text, number and keyword."""

    text: str | None
    number: float | None
    keyword: str | None


_Condition = Callable[[_Value], bool]


def attribute_test(name: str, conditions: Sequence[Any]) -> Test:
    """Returns a test of whether any condition on an attribute holds.

    Args:
        name: the attribute.
        conditions: checked conditions, as `FilterPolicy.to_json` writes them.
    """
    texts, numbers = _literals(conditions)
    keywords = frozenset(word for word, value in _KEYWORDS.items() if any(each is value for each in conditions))
    operators = [next(iter(each.items())) for each in conditions if isinstance(each, dict)]
    present, absent = ("exists", True) in operators, ("exists", False) in operators
    some = [
        _condition(operator, operand) for operator, operand in operators if operator not in ("exists", "anything-but")
    ]
    every = [_anything_but(operand) for operator, operand in operators if operator == "anything-but"]

    def one(value: _Value) -> bool:
        literal = value.text in texts or value.number in numbers or value.keyword in keywords
        return literal or any(matches(value) for matches in some)

    def test(attributes: Mapping[str, str]) -> bool:
        text = attributes.get(name)
        if text is None:
            return absent
        if text in texts:
            return True
        values = _values(text)
        if not values:
            return absent
        if present or any(map(one, values)):
            return True
        return any(all(map(matches, values)) for matches in every)

    return test


def _literals(conditions: Sequence[Any]) -> tuple[frozenset[str], frozenset[float]]:
    texts = frozenset(each for each in conditions if isinstance(each, str))
    return texts, frozenset(each for each in conditions if type(each) in (int, float))


def _condition(operator: str, operand: Any) -> _Condition:
    if operator == "prefix":
        return lambda value: value.text is not None and value.text.startswith(operand)
    if operator == "suffix":
        return lambda value: value.text is not None and value.text.endswith(operand)
    if operator == "equals-ignore-case":
        lower = operand.lower()
        return lambda value: value.text is not None and value.text.lower() == lower
    if operator == "wildcard":
        # fnmatch's expression takes time proportional to the text. A pair of brackets makes a character plain.
        matches = re.compile(fnmatch.translate(re.sub(r"[?[]", r"[\g<0>]", operand))).match
        return lambda value: value.text is not None and matches(value.text) is not None
    if operator == "cidr":
        network = ip_network(operand)
        return lambda value: (address := _address(value.text)) is not None and address in network
    bounds = [(COMPARISONS[operand[i]], operand[i + 1]) for i in range(0, len(operand), 2)]
    return lambda value: value.number is not None and all(compare(value.number, n) for compare, n in bounds)


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    try:
        return None if text is None else ip_address(text)
    except ValueError:
        return None


def _anything_but(operand: Any) -> _Condition:
    if isinstance(operand, dict):
        [(operator, text)] = operand.items()
        matches = _condition(operator, text)
        return lambda value: not matches(value)
    texts, numbers = _literals(operand)
    return lambda value: value.text not in texts and value.number not in numbers


def _values(text: str) -> list[_Value]:
    """Returns an attribute's values.

    The attribute is one value, or a JSON array of plain values.
    """
    if text.lstrip()[:1] == "[":
        try:
            elements = json_of(text)
        except ValueError:
            elements = None
        if isinstance(elements, list) and not any(isinstance(each, (dict, list)) for each in elements):
            return [_element(each) for each in elements]
    number = _rounded(float(text)) if _NUMBER.fullmatch(text) else None
    return [_Value(text, number, text if text in _KEYWORDS else None)]


def _element(element: object) -> _Value:
    if isinstance(element, str):
        return _Value(element, None, None)
    if isinstance(element, (int, float)) and not isinstance(element, bool):
        return _Value(None, _rounded(element), None)
    return _Value(None, None, json.dumps(element))


def _rounded(number: float) -> float | None:
    """Returns the number rounded to five decimals, or None if no float holds the number."""
    try:
        result = round(float(number), DECIMALS)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None
