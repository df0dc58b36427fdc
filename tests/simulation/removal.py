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

`conditions` has selectors for the conditions and updates of stored writes.

A condition is a test, an operand of `and` or `or`, or a comparison. The smallest match is taken.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial, reduce
from types import CodeType, FunctionType
from typing import Any, TypeVar

_Node = TypeVar("_Node", bound=ast.AST)
_MOST_SHOWN = 12


@dataclass(slots=True)
class Place:
    """The syntax tree of a function, to remove a guard from.

    Attributes:
        given: functions that the changed code calls, by the names under which it finds them.
        wrappers: functions that are called instead of the whole function, the innermost first.
        around: entered while the function has lost the guard.
    """

    name: str
    tree: ast.FunctionDef
    given: dict[str, Any] = field(default_factory=dict)
    wrappers: list[Callable[..., Any]] = field(default_factory=list)
    around: list[Callable[[], AbstractContextManager[None]]] = field(default_factory=list)

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
        found = [each for each in calls if callee in _callees(each) and _mentions(each, mentioned)]
        return self.one(f"a call of {names!r}", found, [each.func for each in calls])

    def give(self, function: Callable[..., Any]) -> ast.Name:
        """Returns a name by which the changed code finds a function."""
        name = f"_given_{len(self.given)}"
        self.given[name] = function
        return ast.Name(name, ast.Load())

    def replace(self, old: ast.AST, new: ast.AST) -> None:
        """Puts an expression in the place of another."""

        class Replacing(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                return new if node is old else self.generic_visit(node)

        Replacing().visit(self.tree)


def _callees(call: ast.Call) -> set[str]:
    """Returns the names of a called function, `method` and `port.method`."""
    match call.func:
        case ast.Name(id=name):
            return {name}
        case ast.Attribute() as function:
            return _names(function)
    return set()


def _names(attribute: ast.Attribute) -> set[str]:
    match attribute.value:
        case ast.Name(id=owner) | ast.Attribute(attr=owner):
            return {attribute.attr, f"{owner}.{attribute.attr}"}
    return {attribute.attr}


def _mentions(node: ast.AST | list[ast.stmt], names: list[str]) -> bool:
    nodes = node if isinstance(node, list) else [node]
    found: set[str] = set()
    for each in (inner for outer in nodes for inner in ast.walk(outer)):
        match each:
            case ast.Name(id=name):
                found.add(name)
            case ast.Attribute(attr=name):
                found |= {f".{name}", *_names(each)}
    return found.issuperset(names)


Removal = Callable[[Place], None]
"""A change of a function, after which the function lacks a guard."""


def always(names: str = "", *, before: str = "") -> Removal:
    """Makes a condition hold always.

    Args:
        names: mentioned by the condition.
        before: mentioned by the body of the `if` to which the condition belongs.
    """
    return partial(_hold, True, names, before)


def never(names: str = "", *, before: str = "") -> Removal:
    """Makes a condition hold never. See `always` for the arguments."""
    return partial(_hold, False, names, before)


def _hold(holds: bool, selector: str, before: str, place: Place) -> None:
    names = selector.split()
    conditions = [*_tests(place.tree, before.split())] if before else [*_conditions(place.tree)]
    found = [each for each in conditions if _mentions(each, names)]
    if names:
        found = [each for each in found if not any(other in found for other in _below(each))]
    else:
        found = [each for each in found if not any(each in _below(other) for other in found)]
    wanted = f"a condition {selector!r}" + (f" before {before!r}" if before else "")
    old = place.one(wanted, found, [*conditions])
    place.replace(old, ast.Constant(holds))


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


def _below(node: ast.AST) -> list[ast.AST]:
    return [each for each in ast.walk(node) if each is not node]


def keyword(call: str, name: str) -> Removal:
    """Leaves a keyword out of a call."""

    def leave_out(place: Place) -> None:
        calls = [node for node in ast.walk(place.tree) if isinstance(node, ast.Call) and call in _callees(node)]
        found = [each for one in calls for each in one.keywords if each.arg == name]
        left_out = place.one(f"{call}({name}=...)", found, [*calls])
        next(one for one in calls if left_out in one.keywords).keywords.remove(left_out)

    return leave_out


def _nothing(*_: object, **__: object) -> None:
    return None


def instead(call: str, function: Callable[..., Any] = _nothing) -> Removal:
    """Calls `function` in place of a call, with the called function first, then its arguments."""

    def exchange(place: Place) -> None:
        found = place.call(call)
        found.args.insert(0, found.func)
        found.func = place.give(function)

    return exchange


def reads(name: str, value: Callable[[Any], Any]) -> Removal:
    """Reads `value` of an attribute's owner instead of the attribute, or `value` of a constant."""

    def exchange(place: Place) -> None:
        nodes = [*ast.walk(place.tree)]
        attributes = [each for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)]
        found: list[ast.expr] = [each for each in attributes if each.attr == name]
        found += [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
        old = place.one(f"a read of {name!r}", found, [*attributes])
        owner = old.value if isinstance(old, ast.Attribute) else ast.Name(name, ast.Load())
        place.replace(old, ast.Call(place.give(value), [owner], []))

    return exchange


def moved(call: str, *, after: str) -> Removal:
    """Moves the statement of a call behind another call. Behind the test of an `if` is the beginning of its body."""

    def move(place: Place) -> None:
        moving, aim = place.call(call), place.call(after)
        block, index = _statement(place.tree, moving)
        statement = block[index]
        block[index] = ast.Pass()
        block, index = _statement(place.tree, aim)
        before = block[index]
        if isinstance(before, ast.If):
            before.body.insert(0, statement)
        else:
            block.insert(index + 1, statement)

    return move


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


def together(*parts: Removal) -> Removal:
    """Makes several changes."""

    def make(place: Place) -> None:
        for part in parts:
            part(place)

    return make


def wrapped(wrapper: Callable[..., Any]) -> Removal:
    """Calls `wrapper` in place of the function, with the function first, then its arguments."""

    def wrap(place: Place) -> None:
        place.wrappers.append(wrapper)

    return wrap


def without(function: FunctionType, removal: Removal) -> tuple[CodeType, Place]:
    """Returns the code of a function without a guard, and the place of the removal.

    Raises:
        ValueError: a selector does not match exactly once.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree = module.body[0]
    assert isinstance(tree, ast.FunctionDef)
    place = Place(name, tree)
    removal(place)
    tree.decorator_list.clear()
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
    tree.args.kw_defaults = [None if each is None else ast.Constant(None) for each in tree.args.kw_defaults]
    flags = annotations.compiler_flag  # the feature of that name
    code = _inner(compile(ast.fix_missing_locations(module), f"<{name} without a guard>", "exec", flags))
    if place.wrappers:
        made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        made.__kwdefaults__ = function.__kwdefaults__
        place.given["_wrapped"] = reduce(lambda inner, wrapper: partial(wrapper, inner), place.wrappers, made)
        code = _inner(compile("lambda *args, **kwargs: _wrapped(*args, **kwargs)", name, "eval"))
    return code, place


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
    """Makes a read `<port>.<method>` at the beginning, before all others. The first argument has the ports."""
    name, _, method = read.partition(".")

    def wrapper(function: Callable[..., Any], ports: Any, topic: str, *rest: Any) -> Any:
        port = getattr(ports, name)
        answer = getattr(port, method)(topic, *args)
        return function(changed(ports, **{name: changed(port, **{method: lambda *_, **__: answer})}), topic, *rest)

    return wrapped(wrapper)
