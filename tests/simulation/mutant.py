"""A guard of the protocol, taken away: a change of a function's source, in force for a while."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tests.simulation.exploring import Found, Scenario, explore

MOST_SCHEDULES = 400
"""Of one world that are tried, the fewest deviations first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A guard taken away.

    Attributes:
        guard: what it sees to, as a sentence that is true only with it.
        function: whose source is changed.
        changes: pieces of the source, each there exactly once, and what stands there instead.
    """

    guard: str
    function: Callable[..., Any]
    changes: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """The function's name, with its module's."""
        function = inspect.unwrap(self.function)
        return f"{function.__module__}.{function.__qualname__}"

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Changes the function for the block, for everybody who has it.

        Raises:
            ValueError: the source has no such piece, or more than one.
        """
        function = inspect.unwrap(self.function)
        assert isinstance(function, FunctionType)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in self.changes:
            if source.count(old) != 1:
                raise ValueError(f"{self.guard}: {old!r} is {source.count(old)} times in {self.place}; correct it here")
            source = source.replace(old, new)
        namespace: dict[str, Any] = {}
        code = compile(f"from __future__ import annotations\n{source}", f"<mutant of {self.place}>", "exec")
        exec(code, function.__globals__, namespace)
        made = namespace[function.__name__]
        changed = made.fget if isinstance(made, property) else made
        assert isinstance(changed, FunctionType)
        kept, function.__code__ = function.__code__, changed.__code__
        try:
            yield
        finally:
            function.__code__ = kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant(Change):
    """A guard taken away, and the small world in which that shows."""

    world: Scenario

    def hunt(self) -> Found | int:
        """Explores its world without the guard; what `explore` returns."""
        with self.in_force():
            return explore(self.world, MOST_SCHEDULES)


def early(ports: Any, read: str, *args: Any) -> Any:
    """Makes a read of `topics` now; who makes it later with the ports that are returned gets what was there now.

    For mutants: a read that comes too early.
    """
    answer = getattr(ports.topics, read)(*args)
    return _Early(ports, topics=_Early(ports.topics, **{read: lambda *_, **__: answer}))


class _Early:
    def __init__(self, base: Any, **instead: Any) -> None:
        self._base, self._instead = base, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead[name] if name in self._instead else getattr(self._base, name)
