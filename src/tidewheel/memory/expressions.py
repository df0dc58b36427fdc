"""Parses DynamoDB's expressions into functions of an item.

    condition   and, or, not, parentheses, = <> < <= > >=, between, attribute_exists, attribute_not_exists,
                begins_with, contains
    update      set path = :value, remove path, add path :value
    projection  names

Everything else is an error. Operands are paths (`leases.#3`) and values (`:now`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

Item = dict[str, Any]
"""An item in the format of the low-level client: {"sealed": {"N": "17"}, ...}."""
Values = Mapping[str, dict[str, Any]]
Condition = Callable[[Item, Values], bool]
Path = tuple[str, ...]

_TOKEN = re.compile(r"\s*([#:]?\w+|<>|<=|>=|[=<>(),.])")
COMPARISONS: dict[str, Callable[[Any, Sequence[Any]], bool]] = {
    "=": lambda mine, others: bool(mine == others[0]),
    "<": lambda mine, others: bool(mine < others[0]),
    "<=": lambda mine, others: bool(mine <= others[0]),
    ">": lambda mine, others: bool(mine > others[0]),
    ">=": lambda mine, others: bool(mine >= others[0]),
    "BETWEEN": lambda mine, others: bool(others[0] <= mine <= others[1]),
    "begins_with": lambda mine, others: bool(mine.startswith(others[0])),
}
"""Operator -> the comparison of a value with others of its type, as Python compares them."""
_SETS = frozenset({"NS", "SS", "BS"})


class InvalidExpression(Exception):
    """An expression unknown to this parser, or refused by DynamoDB."""


class Comparison(NamedTuple):
    """A comparison of a path with values, as in key conditions.

    Attributes:
        operator: "=", "<", "<=", ">", ">=", "BETWEEN" or "begins_with".
        values: names of the values.
    """

    path: Path
    operator: str
    values: tuple[str, ...]


class Update(NamedTuple):
    """A clause of an update expression.

    Attributes:
        action: "SET", "REMOVE" or "ADD".
        value: the name of the value; None to remove.
    """

    action: str
    path: Path
    value: str | None


def comparable(wire: Mapping[str, Any]) -> tuple[str, Any]:
    """Returns a value's type, and the value as Python compares it."""
    ((kind, value),) = wire.items()
    if kind == "N":
        return kind, Decimal(value) if "." in value or "E" in value.upper() else int(value)
    if kind in _SETS:
        return kind, frozenset(comparable({kind[0]: each})[1] for each in value)
    return kind, value


def found(item: Item, path: Path) -> Any:
    """Returns the value at a path in the format of the low-level client. Returns None if there is none."""
    value: Any = {"M": item}
    for name in path:
        value = value.get("M", {}).get(name)
        if value is None:
            return None
    return value


def condition(text: str, names: tuple[tuple[str, str], ...]) -> Condition:
    """Returns a condition or a filter as a function.

    Raises:
        InvalidExpression: the text is not a condition that this parser knows.
    """
    parser = _Parser(text, dict(names))
    test = parser.any_of()
    parser.end()
    return test


def key_condition(text: str, names: tuple[tuple[str, str], ...]) -> tuple[Comparison, ...]:
    """Returns the comparisons of a query's key condition, which all hold.

    Raises:
        InvalidExpression: the text is not a key condition.
    """
    parser = _Parser(text, dict(names))
    comparisons = [parser.comparison()]
    while parser.takes("AND"):
        comparisons.append(parser.comparison())
    parser.end()
    return tuple(comparisons)


def updates(text: str, names: tuple[tuple[str, str], ...]) -> tuple[Update, ...]:
    """Returns the clauses of an update expression.

    Raises:
        InvalidExpression: the text is not an update that this parser knows.
    """
    parser = _Parser(text, dict(names))
    clauses: list[Update] = []
    sections = {"SET", "REMOVE", "ADD"}
    while parser.more():
        action = parser.one_of(*sections)
        sections.remove(action)
        while True:
            path = parser.path()
            if action == "SET":
                parser.one_of("=")
            clauses.append(Update(action, path, None if action == "REMOVE" else parser.value()))
            if not parser.takes(","):
                break
    for each in clauses:
        if sum(other.path[: len(each.path)] == each.path for other in clauses) > 1:
            raise InvalidExpression(f"Two document paths overlap with each other in {text!r}")
    return tuple(clauses)


def projection(text: str, names: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Returns the attributes of a projection.

    Raises:
        InvalidExpression: the text has more than names.
    """
    parser = _Parser(text, dict(names))
    attributes = [parser.name()]
    while parser.takes(","):
        attributes.append(parser.name())
    parser.end()
    return tuple(attributes)


def placeholders(text: str) -> frozenset[str]:
    """Returns the `#names` and `:values` in an expression."""
    return frozenset(re.findall(r"[#:]\w+", text))


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self._text, self._names = text, names
        self._tokens = [*_tokens(text)]
        self._at = 0

    def more(self) -> bool:
        """Returns whether a token is left."""
        return self._at < len(self._tokens)

    def end(self) -> None:
        """Checks for the end of the tokens."""
        if self.more():
            raise self._unknown()

    def takes(self, word: str) -> bool:
        """Takes a word or sign if present."""
        if self._next().upper() != word:
            return False
        self._at += 1
        return True

    def one_of(self, *words: str) -> str:
        """Takes any of the given words or signs."""
        for word in words:
            if self.takes(word):
                return word
        raise self._unknown()

    def name(self) -> str:
        """Takes an attribute's name."""
        token = self._next()
        if not re.fullmatch(r"#?\w+", token):
            raise self._unknown()
        self._at += 1
        if not token.startswith("#"):
            return token
        if token not in self._names:
            raise InvalidExpression(f"{token} of {self._text!r} is not among the expression's names")
        return self._names[token]

    def path(self) -> Path:
        """Takes a path."""
        names = [self.name()]
        while self.takes("."):
            names.append(self.name())
        return tuple(names)

    def value(self) -> str:
        """Takes the name of a value."""
        token = self._next()
        if not token.startswith(":"):
            raise self._unknown()
        self._at += 1
        return token

    def any_of(self) -> Condition:
        """Takes conditions joined by OR."""
        tests = [self._all_of()]
        while self.takes("OR"):
            tests.append(self._all_of())
        return tests[0] if len(tests) == 1 else lambda item, values: any(test(item, values) for test in tests)

    def _all_of(self) -> Condition:
        tests = [self._one()]
        while self.takes("AND"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda item, values: all(test(item, values) for test in tests)

    def _one(self) -> Condition:
        if self.takes("NOT"):
            test = self._one()
            return lambda item, values: not test(item, values)
        if self.takes("("):
            test = self.any_of()
            self.one_of(")")
            return test
        return self._call() if self._next(1) == "(" and self._next() != "begins_with" else self._compare()

    def _call(self) -> Condition:
        function = self._next()
        self._at += 2
        path = self.path()
        if function in ("attribute_exists", "attribute_not_exists"):
            self.one_of(")")
            wanted = function == "attribute_exists"
            return lambda item, _: (found(item, path) is not None) is wanted
        if function != "contains":
            raise InvalidExpression(f"{function} of {self._text!r} is not known here")
        self.one_of(",")
        value = self.value()
        self.one_of(")")
        return lambda item, values: _contains(found(item, path), values[value])

    def _compare(self) -> Condition:
        path, operator, names = self.comparison()
        if operator == "<>":
            return lambda item, values: not _compares(found(item, path), "=", [values[names[0]]])
        return lambda item, values: _compares(found(item, path), operator, [values[each] for each in names])

    def comparison(self) -> Comparison:
        """Takes a comparison of a path with values."""
        if self.takes("BEGINS_WITH"):
            self.one_of("(")
            path = self.path()
            self.one_of(",")
            value = self.value()
            self.one_of(")")
            return Comparison(path, "begins_with", (value,))
        path = self.path()
        operator = self.one_of("=", "<>", "<=", ">=", "<", ">", "BETWEEN")
        first = self.value()
        if operator != "BETWEEN":
            return Comparison(path, operator, (first,))
        self.one_of("AND")
        return Comparison(path, operator, (first, self.value()))

    def _next(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else ""

    def _unknown(self) -> InvalidExpression:
        return InvalidExpression(f"{self._next() or 'the end'!r} in {self._text!r} is not known here")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidExpression(f"{text[at:]!r} in {text!r} is not known here")
        yield match[1]
        at = match.end()


def _compares(wire: Any, operator: str, values: Sequence[dict[str, Any]]) -> bool:
    """Returns whether an attribute compares with values so. An absent attribute, or one of another type, does not."""
    if wire is None:
        return False
    kind, mine = comparable(wire)
    others = [comparable(each) for each in values]
    if any(other != kind for other, _ in others):
        return False
    if operator != "=" and (kind not in ("N", "S", "B") or (kind == "N" and operator == "begins_with")):
        return False
    return COMPARISONS[operator](mine, [other for _, other in others])


def _contains(wire: Any, value: dict[str, Any]) -> bool:
    if wire is None:
        return False
    kind, mine = comparable(wire)
    other_kind, other = comparable(value)
    if kind in _SETS:
        return kind[0] == other_kind and other in mine
    return kind == other_kind and kind in ("S", "B") and other in mine
