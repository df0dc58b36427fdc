"""Takes a guard out of a function, by name in the function's syntax tree.

A selector is some names, with blanks between: `"sealed"`, `"work_version next_slot"`. A node matches if it mentions all
of them as attributes, functions, constants or parameters. `".sealed"` is an attribute only. Selectors avoid local
variables and never contain text, so a guard survives a rename and a reformat.

    always, never   a condition holds always, or never
    keyword         a call without a keyword
    instead         another function is called; without another: none is called, and the answer is None
    reads           an attribute or a constant has another value
    moved           a statement comes later
    wrapped         a function of the test stands around the whole function
    together        several of them

A condition is a test, an operand of `and` or `or`, a comparison, or one pair of values in a comparison of tuples. The
smallest match is taken.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, TypeVar

_Node = TypeVar("_Node", bound=ast.AST)
_MOST_SHOWN = 12


@dataclass(slots=True)
class Place:
    """The syntax tree of a function that loses a guard.

    Attributes:
        given: functions that the changed code calls, by the names under which it finds them.
    """

    name: str
    tree: ast.FunctionDef
    given: dict[str, Any] = field(default_factory=dict)

    def one(self, wanted: str, found: list[_Node], others: list[ast.AST]) -> _Node:
        """Returns the only match.

        Raises:
            ValueError: there is none, or more than one.
        """
        if len(found) != 1:
            shown = "; ".join(ast.unparse(each) for each in (found or others)[:_MOST_SHOWN])
            raise ValueError(f"{self.name} has {len(found)} matches of {wanted}, among: {shown or 'nothing'}")
        return found[0]

    def call(self, names: str) -> ast.Call:
        """Returns the only call of a function. The first name is the function's, further names are mentioned."""
        callee, *mentioned = names.split()
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        found = [each for each in calls if _callee(each) == callee and _mentions(each, mentioned)]
        return self.one(f"a call of {names!r}", found, [each.func for each in calls])

    def give(self, function: Callable[..., Any]) -> ast.Name:
        """Returns a name by which the changed code finds a function."""
        name = f"_given_{len(self.given)}"
        self.given[name] = function
        return ast.Name(name, ast.Load())

    def replace(self, old: ast.AST, new: ast.AST) -> None:
        """Puts one expression in the place of another."""

        class Replacing(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                return new if node is old else self.generic_visit(node)

        Replacing().visit(self.tree)


def _callee(call: ast.Call) -> str | None:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def _mentions(node: ast.AST | list[ast.stmt], names: list[str]) -> bool:
    nodes = node if isinstance(node, list) else [node]
    found: set[str] = set()
    for each in (inner for outer in nodes for inner in ast.walk(outer)):
        match each:
            case ast.Name(id=name):
                found.add(name)
            case ast.Attribute(attr=name):
                found |= {name, f".{name}"}
    return found.issuperset(names)


@dataclass(frozen=True, slots=True)
class _Condition:
    holds: bool
    names: str
    before: str

    def edit(self, place: Place) -> None:
        names = self.names.split()
        conditions = [*_tests(place.tree, self.before.split())] if self.before else [*_conditions(place.tree)]
        found = [each for each in conditions if _mentions(each, names)]
        inner = [each for each in found if not any(other in found for other in _below(each))]
        if not names:
            inner = [each for each in found if not any(each in [*_below(other)] for other in found)]
        wanted = f"a condition {self.names!r}" + (f" before {self.before!r}" if self.before else "")
        old = place.one(wanted, inner, [*conditions])
        if names and isinstance(old, ast.Compare) and _drop_pair(old, names, self.holds):
            return
        place.replace(old, ast.Constant(self.holds))


def _tests(tree: ast.AST, before: list[str]) -> Iterator[ast.expr]:
    """Yields the tests of each `if` whose body mentions some names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _mentions(node.body, before):
            yield node.test
            yield from (each for each in _conditions(node.test) if each is not node.test)


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    seen: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                seen.append(test)
            case ast.comprehension(ifs=tests):
                seen += tests
            case ast.BoolOp(values=values):
                seen += values
            case ast.Compare():
                seen.append(node)
    yield from {id(each): each for each in seen}.values()


def _below(node: ast.AST) -> Iterator[ast.AST]:
    return (each for each in ast.walk(node) if each is not node)


def _drop_pair(compare: ast.Compare, names: list[str], holds: bool) -> bool:
    """Drops one pair of values from a comparison of tuples. Returns False if no single pair has the names."""
    match compare:
        case ast.Compare(
            left=ast.Tuple(elts=left), ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Tuple(elts=r)]
        ):
            places = [i for i, pair in enumerate(zip(left, r, strict=True)) if any(_mentions(x, names) for x in pair)]
            if len(places) == 1 and holds is isinstance(op, ast.Eq):
                del left[places[0]], r[places[0]]
                return True
    return False


@dataclass(frozen=True, slots=True)
class _Keyword:
    names: str
    keyword: str

    def edit(self, place: Place) -> None:
        calls = [node for node in ast.walk(place.tree) if isinstance(node, ast.Call) and _callee(node) == self.names]
        found = [each for call in calls for each in call.keywords if each.arg == self.keyword]
        keyword = place.one(f"{self.names}({self.keyword}=...)", found, [*calls])
        next(call for call in calls if keyword in call.keywords).keywords.remove(keyword)


@dataclass(frozen=True, slots=True)
class _Instead:
    names: str
    function: Callable[..., Any]

    def edit(self, place: Place) -> None:
        call = place.call(self.names)
        call.args.insert(0, call.func)
        call.func = place.give(self.function)


@dataclass(frozen=True, slots=True)
class _Reads:
    name: str
    value: Callable[[Any], Any]

    def edit(self, place: Place) -> None:
        nodes = [*ast.walk(place.tree)]
        attributes = [
            each
            for each in nodes
            if isinstance(each, ast.Attribute) and each.attr == self.name and isinstance(each.ctx, ast.Load)
        ]
        constants = [each for each in nodes if isinstance(each, ast.Name) and each.id == self.name]
        found: list[ast.expr] = [*attributes, *constants]
        old = place.one(f"a read of {self.name!r}", found, [each for each in nodes if isinstance(each, ast.Attribute)])
        owner = old.value if isinstance(old, ast.Attribute) else ast.Name(self.name, ast.Load())
        place.replace(old, ast.Call(place.give(self.value), [owner], []))


@dataclass(frozen=True, slots=True)
class _Moved:
    names: str
    after: str

    def edit(self, place: Place) -> None:
        moving, there = place.call(self.names), place.call(self.after)
        block, index = _statement(place.tree, moving)
        statement = block[index]
        block[index] = ast.Pass()
        block, index = _statement(place.tree, there)
        aim = block[index]
        if isinstance(aim, ast.If):
            block, index = aim.body, -1
        block.insert(index + 1, statement)


def _statement(tree: ast.AST, wanted: ast.AST) -> tuple[list[ast.stmt], int]:
    """Returns the place of the smallest statement with a node."""
    found = [
        (block, index)
        for node in ast.walk(tree)
        for block in (getattr(node, "body", []), getattr(node, "orelse", []), getattr(node, "finalbody", []))
        if isinstance(block, list)
        for index, each in enumerate(block)
        if wanted in ast.walk(each)
    ]
    return found[-1]


@dataclass(frozen=True, slots=True)
class _Together:
    parts: tuple[Removal, ...]

    def edit(self, place: Place) -> None:
        for part in self.parts:
            assert not isinstance(part, _Wrapped)
            part.edit(place)


@dataclass(frozen=True, slots=True)
class _Wrapped:
    wrapper: Callable[..., Any]


Removal = _Condition | _Keyword | _Instead | _Reads | _Moved | _Together | _Wrapped
"""A change of a function, after which it lacks a guard."""


def always(names: str = "", *, before: str = "") -> Removal:
    """Makes a condition hold always.

    Args:
        names: mentioned by the condition.
        before: mentioned by the body of the `if` to which the condition belongs.
    """
    return _Condition(True, names, before)


def never(names: str = "", *, before: str = "") -> Removal:
    """Makes a condition hold never. See `always` for the arguments."""
    return _Condition(False, names, before)


def keyword(call: str, name: str) -> Removal:
    """Leaves a keyword out of a call."""
    return _Keyword(call, name)


def _nothing(*_: object, **__: object) -> None:
    return None


def instead(call: str, function: Callable[..., Any] = _nothing) -> Removal:
    """Calls `function` instead, with the called function first, then its arguments."""
    return _Instead(call, function)


def reads(name: str, value: Callable[[Any], Any]) -> Removal:
    """Reads `value` of an attribute's owner instead of the attribute, or `value` of a constant."""
    return _Reads(name, value)


def moved(call: str, *, after: str) -> Removal:
    """Moves the statement of a call behind another call. Behind the test of an `if` is the beginning of its body."""
    return _Moved(call, after)


def together(*parts: Removal) -> Removal:
    """Makes several changes."""
    return _Together(parts)


def wrapped(wrapper: Callable[..., Any]) -> Removal:
    """Calls `wrapper` instead of the function, with the function first, then its arguments."""
    return _Wrapped(wrapper)


def code_of(function: FunctionType, removal: Removal) -> tuple[CodeType, dict[str, Any]]:
    """Returns the code of a function that lacks a guard, and the global names that the code needs.

    Raises:
        ValueError: a selector does not match exactly once.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    if isinstance(removal, _Wrapped):
        kept = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        kept.__kwdefaults__ = function.__kwdefaults__
        wrapper = removal.wrapper
        called = compile("lambda *args, **kwargs: _given_0(*args, **kwargs)", f"<guards of {name}>", "eval")
        return _inner(called), {"_given_0": lambda *args, **kwargs: wrapper(kept, *args, **kwargs)}
    module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree = module.body[0]
    assert isinstance(tree, ast.FunctionDef)
    place = Place(name, tree)
    removal.edit(place)
    tree.decorator_list.clear()
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
    tree.args.kw_defaults = [None if each is None else ast.Constant(None) for each in tree.args.kw_defaults]
    flags = annotations.compiler_flag  # the feature of that name
    compiled = compile(ast.fix_missing_locations(module), f"<guards of {name}>", "exec", flags=flags)
    return _inner(compiled), place.given


def _inner(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def changed(port: Any, **methods: Callable[..., Any]) -> Any:
    """Returns an object with other methods, or other attributes."""
    return _Changed(port, methods)


class _Changed:
    def __init__(self, port: Any, methods: dict[str, Any]) -> None:
        self._port, self._methods = port, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods[name] if name in self._methods else getattr(self._port, name)


def early(read: str, *args: object) -> Removal:
    """Makes a read at the beginning, before all others. The function's first argument is a port or all ports."""

    def wrapper(function: Callable[..., Any], ports: Any, topic: str, *rest: Any) -> Any:
        owners = [name for name in dir(ports) if not name.startswith("_") and hasattr(getattr(ports, name), read)]
        port = ports if hasattr(ports, read) else getattr(ports, owners[0])
        answer = getattr(port, read)(topic, *args)
        made = changed(port, **{read: lambda *_, **__: answer})
        return function(made if port is ports else changed(ports, **{owners[0]: made}), topic, *rest)

    return wrapped(wrapper)
