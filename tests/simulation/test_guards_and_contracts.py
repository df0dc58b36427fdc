"""Each condition of a stored write is held by a contract suite, which runs over moto too.

The suites run in this process, without pytest's fixtures. A test takes `store`, and maybe the arguments of
`pytest.mark.parametrize`. Each set of arguments is a run.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from importlib import import_module
from itertools import product
from types import FunctionType
from typing import Any

import pytest

from tests.contract.builders import Store
from tests.simulation.conditions import checked, kind_of, told_writes, unchecked
from tests.simulation.guard import Guard
from tests.simulation.guards import GUARDS
from tidewheel import storage
from tidewheel.clock import ManualClock
from tidewheel.memory import MemoryService
from tidewheel.storage.writes import Write

_STORED = [guard for guard in GUARDS if guard.place.startswith(f"{storage.__name__}.")]
UNHELD = {
    ("checks.Checks.claim_daily", "ORPHANS", "next_at_ms"): "a guard holds it: this process remembers claims, too",
    ("checks.Checks.claim_daily", "OTHER", "next_at_ms"): "as above",
    ("checks.Checks.put_off_daily", "ORPHANS", "next_at_ms"): "nobody deletes the item of a claimed work",
    ("deliveries.Deliveries.delete", "DELIVERY", "parts"): "a read comes first; `finish` holds it",
    ("plans.Plans.again", "STATE", "layout"): "the plan of a newer layout is refused before",
    (
        "tombstones.Claims.show",
        "CLAIM",
        "cancelled",
    ): "nobody cancels a subscription; policies allow the write of a claim",
    ("topic_states.TopicStates.seal", "STATE", "layout"): "the answer of a newer layout is an error, sealed or not",
    (
        "topic_states.TopicStates.update_settings",
        "STATE",
        "layout",
    ): "a read comes first; the condition is for who comes in between",
    ("topic_states.TopicStates.update_settings", "STATE", "settings"): "as above",
    ("topic_states.TopicStates.update_settings", "STATE", "next_check_ms"): "as above",
}
"""(Method, kind of item, attribute) of conditions that no contract suite holds, and why."""


SUITES = (
    "buckets", "checks", "claims", "deletions", "deliveries", "keys", "layout", "merges", "parks", "plans",
    "recurring", "subscriptions", "tombstones", "topic_list", "topic_states",
)  # fmt: skip
"""Files of `tests/contract`, without their `test_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A test of a contract suite, with its parameters.

    Attributes:
        name: the file's and the function's.
        call: runs the test over an empty store in memory.
    """

    name: str
    call: Callable[[], None]

    @property
    def fails(self) -> bool:
        try:
            self.call()
        except Exception:
            return True
        return False


def _runs() -> Iterator[Run]:
    """Yields all tests whose only need is a store."""
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
    service = MemoryService.at(ManualClock(0))
    test(store=Store(service, object_names=service.objects.names), **arguments)


@pytest.fixture(scope="module")
def suites() -> list[Run]:
    """All runs of the contract suites, each of which passes."""
    found = list(_runs())
    assert len(found) > 200, "the suites were not found"
    for run in found:
        run.call()
    return found


@pytest.mark.parametrize("guard", _STORED, ids=lambda guard: guard.promise)
def test_without_a_guard_a_contract_suite_fails(guard: Guard, suites: list[Run]) -> None:
    own = guard.code.__module__.rpartition(".")[2]

    assert _any_fails(guard, sorted(suites, key=lambda run: not run.name.startswith(own))), guard.place


def test_without_any_condition_of_a_write_a_contract_suite_fails(suites: list[Run]) -> None:
    conditions: dict[tuple[str, str, str], set[str]] = {}

    def tell(write: Write) -> None:
        for attribute in checked(write):
            conditions.setdefault((_maker(), kind_of(write), attribute), set()).add(run.name)

    with told_writes(tell):
        for run in suites:
            run.call()
    unheld = {
        (method, kind, attribute)
        for (method, kind, attribute), meeting in conditions.items()
        for guard in [Guard("", _function(method), unchecked(attribute, kind))]
        if not _any_fails(guard, [each for each in suites if each.name in meeting])
    }

    assert unheld == UNHELD.keys()


def _any_fails(guard: Guard, runs: list[Run]) -> bool:
    with guard.taken_away():
        return any(run.fails for run in runs)


def _function(name: str) -> FunctionType:
    """Returns the function of the storage that `_maker` names."""
    file, *path = name.split(".")
    function: FunctionType = reduce(getattr, path, import_module(f"{storage.__name__}.{file}"))  # type: ignore[assignment]
    return function


def _maker() -> str:
    """Returns the storage method called by a test, as `<file>.<class>.<method>`."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        room, _, file = frame.f_globals["__name__"].rpartition(".")
        if room == storage.__name__:
            found = f"{file}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return found
