"""Actors of a small world. Each call of a port by a function or a client is a step, and may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.simulation.faults import CallFailed
from tests.simulation.interleaving import Died, Task
from tests.simulation.promises import Violation
from tests.stored_ports import STORED_PORTS
from tidewheel.clock import ManualClock
from tidewheel.errors import ConcurrentModification, PartLeased
from tidewheel.flows.ports import in_order
from tidewheel.memory import MemoryService

_PASSES_ON = ("new_",)
"""Calls that ask nobody."""


EXPECTED = (CallFailed, ConcurrentModification, PartLeased)
"""What a function may end with, besides well: its trigger comes again."""


class Fault(Enum):
    """A fault of a call."""

    DIES = "dies before"
    LOSES = "does, and hears no answer of,"
    TWICE = "does twice, as a client that repeats a call whose answer was lost,"


@dataclass(slots=True, kw_only=True)
class Actor:
    """A function or a client.

    Attributes:
        call: what it does, with ports of its own.
        skew_ms: how far its clock is ahead.
        again: whether something brings it again, if it did not end well.
        pending: the call that it makes next; None before the first.
        fault: what is to go wrong with that.
        second_page: buckets that it reads after all others.
    """

    name: str
    call: Callable[[Any], object]
    skew_ms: int = 0
    again: bool = False
    pending: str | None = None
    fault: Fault | None = None
    second_page: frozenset[str] = frozenset()
    task: Task = field(init=False)


class _Clock:
    def __init__(self, clock: ManualClock, skew_ms: int) -> None:
        self._clock, self._skew_ms = clock, skew_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms


class _Port:
    """A port whose every call is a step of an actor."""

    def __init__(self, name: str, port: Any, actor: Actor) -> None:
        self._name, self._port, self._actor = name, port, actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name.startswith(_PASSES_ON):
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            return step(self._actor, f"{self._name}.{name}", lambda: method(*args, **kwargs))

        return call


class _Objects(_Port):
    """The port of objects, with a listing in one step. An object written in pieces exists after the last piece."""

    def list(self, *args: Any) -> Iterator[Any]:
        return iter(step(self._actor, "objects.list", lambda: [*self._port.list(*args)]))

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        with self._port.create(name) as sink:
            yield sink
            step(self._actor, "objects.create", lambda: None)


class _Buckets(_Port):
    """The port of buckets, which lists in two pages. A write between the pages is in the second page or in neither."""

    def all(self, topic: str, unreadable: object = None) -> Any:
        second = self._actor.second_page

        def page(first: bool) -> Any:
            return [each for each in self._port.all(topic) if (each.id not in second) is first]

        found = step(self._actor, "buckets.all", lambda: page(True))
        return found + step(self._actor, "buckets.all", lambda: page(False))

    def in_order(self, topic: str, unreadable: object = None, **kwargs: Any) -> Iterator[Any]:
        """Reads in two pages by id. Skips the second page if the caller stops before.

        Hashes are arbitrary: what is written in between in the last slot of the first page sorts into the first page.
        """

        def page() -> list[Any]:
            return list(self._port.in_order(topic, **kwargs))

        found = step(self._actor, "buckets.in_order", page)
        first, known = found[: (len(found) + 1) // 2], {each.id for each in found}
        yield from first
        second = step(self._actor, "buckets.in_order", page)
        for each in second:
            if not first or each.id_slot > first[-1].id_slot or (each.id > first[-1].id and each.id in known):
                yield each


class ActorPorts:
    """All ports of a service for one actor."""

    def __init__(self, service: MemoryService, actor: Actor) -> None:
        special = {"buckets": _Buckets, "objects": _Objects}
        for name in (*STORED_PORTS, "queues", "wheel", "runs"):
            setattr(self, name, special.get(name, _Port)(name, getattr(service, name), actor))
        self.clock = _Clock(service.clock, actor.skew_ms)  # type: ignore[arg-type]
        self.parallel, self.max_skew_ms = in_order, service.max_skew_ms
        self.actor = actor


def step(actor: Actor, what: str, call: Callable[[], Any]) -> Any:
    """Makes a call of an actor when the actor is scheduled."""
    actor.pending = what
    actor.task.pause()
    fault, actor.fault = actor.fault, None
    if fault is Fault.DIES:
        actor.task.dead = True
        raise Died
    answer = call()
    if fault is Fault.TWICE:
        answer = call()
    if fault is Fault.LOSES:
        raise CallFailed(what)
    return answer


def void(_: object) -> None:
    """Ignores a result."""


def require(holds: bool, what: str) -> None:
    """Raises Violation unless something holds."""
    if not holds:
        raise Violation(what)
