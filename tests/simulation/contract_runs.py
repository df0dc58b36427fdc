"""Runs the contract suites of `Topics` over the in-memory implementation, in this process, without pytest's fixtures.

A test takes `store`, and maybe what `pytest.mark.parametrize` gives it; each set of that is a run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

from tests.contract.builders import Store
from tidewheel.memory import MemoryObjects, MemoryTopics

SUITES = (
    "collection",
    "deliveries",
    "imports",
    "keys",
    "layout",
    "marks",
    "merging",
    "parks",
    "plans",
    "purge",
    "rebuilding",
    "recurring",
    "replay",
    "topic_deletion",
)
"""Files of `tests/contract`, without their `test_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One test of a contract suite, with its parameters.

    Attributes:
        name: the file's and the function's.
        call: runs it over an empty store in memory; raises what the test raises.
    """

    name: str
    call: Callable[[], None]


def runs() -> Iterator[Run]:
    """Yields all that need nothing but a store."""
    for suite in SUITES:
        module = import_module(f"tests.contract.test_{suite}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                yield from _runs_of(f"{suite}.{name}", test)


def _runs_of(name: str, test: Callable[..., None]) -> Iterator[Run]:
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    given = [_sets(*mark.args[:2]) for mark in marks]
    known = {"store", *(argument for sets in given for argument in sets[0])}
    if set(inspect.signature(test).parameters) != known:
        return
    for chosen in product(*given):
        arguments = {argument: value for each in chosen for argument, value in each.items()}
        yield Run(name=name, call=partial(_call, test, arguments))


def _sets(names: str | tuple[str, ...], values: Any) -> list[dict[str, Any]]:
    arguments = [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]
    found = []
    for value in values:
        plain = getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
        if len(arguments) == 1 and not (isinstance(plain, tuple) and type(value).__name__ == "ParameterSet"):
            plain = (plain,)
        found.append(dict(zip(arguments, plain, strict=True)))
    return found


def _call(test: Callable[..., None], arguments: dict[str, Any]) -> None:
    topics, objects = MemoryTopics(), MemoryObjects()
    test(store=Store(topics=topics, objects=objects, object_names=objects.names), **arguments)
