"""A guard of the protocol, and its proof. Some schedule of a small world breaks a promise without the guard."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.exploring import Found, Scenario, explore
from tests.simulation.removal import Removal, without
from tidewheel import storage

MOST_SCHEDULES = 400
"""Of one world that are tried, the fewest deviations first."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition, a read or an order of steps needed by the protocol.

    Attributes:
        promise: the guard's effect, as a sentence that is true only with the guard.
        function: the function with the guard.
        removal: the change that takes the guard away.
        world: the small world that breaks a promise then. None: a contract suite alone holds the guard.
    """

    promise: str
    function: Callable[..., Any] | property
    removal: Removal
    world: Scenario | None = None

    @property
    def place(self) -> str:
        """The function's name, with the module's name."""
        return f"{self.code.__module__}.{self.code.__qualname__}"

    @property
    def code(self) -> FunctionType:
        """The function itself."""
        found = self.function.fget if isinstance(self.function, property) else self.function
        assert found is not None
        function = inspect.unwrap(found)
        assert isinstance(function, FunctionType)
        return function

    @contextmanager
    def taken_away(self) -> Iterator[None]:
        """Takes the guard away for the block, for every caller.

        Raises:
            ValueError: the function has no such guard, or more than one. A guard of a stored write is looked for as
                the function is called, so the error comes at the end of the block.
        """
        function = self.code
        code, place = without(function, self.removal)
        with ExitStack() as stack:
            stack.enter_context(patch.dict(function.__globals__, place.given))
            for each in place.around:
                stack.enter_context(each())
            kept, function.__code__ = function.__code__, code
            try:
                yield
            finally:
                function.__code__ = kept

    def hunt(self) -> Found | int:
        """Explores the world without the guard. Returns the answer of `explore`."""
        assert self.world is not None
        with self.taken_away():
            return explore(self.world, MOST_SCHEDULES)


def in_storage(name: str) -> FunctionType:
    """Returns a function of the storage, named `<file>.<method>` or `<file>.<function>`.

    Raises:
        ValueError: the file has no such function, or more than one.
    """
    file, _, method = name.partition(".")
    module = import_module(f"{storage.__name__}.{file}")
    holders = [module, *(each for _, each in inspect.getmembers(module, inspect.isclass))]
    found = [
        each
        for each in (vars(one).get(method) for one in holders)
        if isinstance(each, FunctionType) and each.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise ValueError(f"{name} is {len(found)} functions: {found}")
    return found[0]


def worlds_of(guards: Iterable[Guard]) -> tuple[Scenario, ...]:
    """Returns the worlds of some guards, each once."""
    return tuple({guard.world.name: guard.world for guard in guards if guard.world is not None}.values())


def guard_tests(guards: Sequence[Guard]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Returns the test of each guard, and the test of each world with all guards in force."""

    @pytest.mark.parametrize("guard", [each for each in guards if each.world], ids=lambda guard: guard.promise)
    def without_a_guard(guard: Guard) -> None:
        found = guard.hunt()

        assert isinstance(found, Found), f"{found} schedules keep every promise without the guard"

    @pytest.mark.parametrize("world", worlds_of(guards), ids=lambda world: world.name)
    def with_all_guards(world: Scenario) -> None:
        found = explore(world, MOST_SCHEDULES)

        assert not isinstance(found, Found), f"{found.violation}; {found.story}"
        assert found >= (1 if world.most == 0 else 3), "the world has no schedules to speak of"

    return without_a_guard, with_all_guards
