"""A guard of the protocol, and its proof. Some schedule of a small world breaks a promise without the guard."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any
from unittest.mock import patch

from tests.simulation.exploring import Found, Scenario, explore
from tests.simulation.removal import Removal, without
from tidewheel import storage
from tidewheel.storage.storage import Storage

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
    """Returns a function of the storage, named `<attribute of Storage>.<method>` or `<file>.<function>`.

    Raises:
        ValueError: there is no such function.
    """
    place, _, function = name.partition(".")
    nothing: Any = None
    port = vars(Storage(nothing, nothing)).get(place)
    found = vars(type(port)).get(function)
    if found is None:
        found = vars(import_module(f"{storage.__name__}.{place}")).get(function)
    if not isinstance(found, FunctionType):
        raise ValueError(f"{name} is no function")
    return found
