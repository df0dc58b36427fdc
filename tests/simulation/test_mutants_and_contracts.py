"""Each condition of the ports in memory is held by a contract suite, which runs over those on AWS too."""

from __future__ import annotations

import inspect

import pytest

from tests.simulation.contract_runs import Run, runs
from tests.simulation.guards import elsewhere
from tests.simulation.mutant import Change
from tests.simulation.mutants import MUTANTS
from tidewheel.memory import MemoryTopics

_CHANGES = {
    (change.place, change.changes): change
    for change in (*MUTANTS, *elsewhere.CHANGES)
    if hasattr(MemoryTopics, change.place.rpartition(".")[2]) and change.place.startswith("tidewheel.memory.")
}
UNCONDITIONAL = {
    "_read": "it raises for a newer layout, which every read must: see the suite of layouts",
    "_step": "a part of a hand-out whose condition is _unmoved",
    "hand_out": "its condition is _unmoved",
    "delete_items": "it says whether it has come to the end",
    "delete_subscription": "its condition is _change",
    "release_park": "harmless if the park is gone",
    "release_part": "harmless if the delivery is gone",
}
"""Methods with an `if` that need no change of their own, and why."""


@pytest.fixture(scope="module")
def suites() -> list[Run]:
    """All runs of the contract suites, each of which passes."""
    found = list(runs())
    assert len(found) > 200, "the suites were not found"
    for run in found:
        run.call()
    return found


def _fails(run: Run) -> bool:
    try:
        run.call()
    except Exception:
        return True
    return False


@pytest.mark.parametrize("change", _CHANGES.values(), ids=lambda change: change.guard)
def test_without_a_condition_a_contract_suite_fails(change: Change, suites: list[Run]) -> None:
    with change.in_force():
        failing = next((run.name for run in suites if _fails(run)), None)

    assert failing is not None, f"no contract suite holds {change.place}: {change.changes}"


def test_every_method_in_memory_that_decides_something_is_changed_somewhere() -> None:
    changed = {place.rpartition(".")[2] for place, _ in _CHANGES}
    deciding = {
        name
        for name, method in inspect.getmembers(MemoryTopics, inspect.isfunction)
        if any(line.lstrip().startswith("if ") for line in inspect.getsource(method).splitlines())
    }

    assert deciding - changed - UNCONDITIONAL.keys() == set()


def test_a_change_of_what_is_not_there_any_more_says_so() -> None:
    change = Change(guard="none", function=MemoryTopics.seal, changes=(("if this was never there", ""),))

    with (
        pytest.raises(ValueError, match=r"0 times in tidewheel\.memory\.topics\.MemoryTopics\.seal"),
        change.in_force(),
    ):
        raise AssertionError("it was in force")


def test_what_was_changed_is_as_before_afterwards() -> None:
    before = MemoryTopics.seal.__code__
    change = Change(guard="none", function=MemoryTopics.seal, changes=(("current.sealed < slot", "True"),))

    with change.in_force():
        assert MemoryTopics.seal.__code__ is not before
    assert MemoryTopics.seal.__code__ is before
