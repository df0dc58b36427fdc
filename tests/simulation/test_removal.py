"""A guard is found in a function by name, exactly once, for any lines and local variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.simulation.guard import Guard, in_storage
from tests.simulation.removal import (
    Removal,
    instead,
    keyword,
    moved,
    never,
    reads,
    together,
    wrapped,
)

LIMIT = 3


@dataclass(frozen=True)
class _State:
    planned: int = 0
    version: int = 0
    steps: tuple[str, ...] = ()


def _noted(state: _State, step: str) -> _State:
    return replace(state, steps=(*state.steps, step))


def _first(state: _State) -> _State:
    return _noted(state, "first")


def _second(state: _State) -> _State:
    return _noted(state, "second")


def _commit(seen: _State, current: _State, *, wanted: int = 1) -> _State | None:
    if seen is None or current.planned > LIMIT:
        return None
    if (current.planned, current.version) != (seen.planned, seen.version):
        return None
    current = _first(current)
    current = _second(current)
    if wanted > 0:
        current = replace(current, planned=wanted, version=current.version + 1)
    return current


# fmt: off
def _commit_as_another_wrote_it(seen: _State, current: _State, *, wanted: int = 1) -> _State | None:
    if (
        seen is None or
        current.planned > LIMIT  # too much
    ):
        return None
    found = current
    if ((found.planned,
         found.version) != (seen.planned, seen.version)):
        return None
    found = _first(found)
    found = _second(found)
    if (wanted > 0):
        found = replace(
            found, version=found.version + 1, planned=wanted)
    return found
# fmt: on


_BOTH = ("first", "second")
_TAKEN_AWAY: dict[str, tuple[Removal, _State, _State, _State | None]] = {
    "an operand of or": (never("LIMIT"), _State(9), _State(9), _State(1, 1, _BOTH)),
    "a whole comparison": (never("planned version"), _State(), _State(1, 5), _State(1, 6, _BOTH)),
    "a test before a body": (never(before="replace"), _State(), _State(), _State(0, 0, _BOTH)),
    "a keyword": (keyword("replace", "version"), _State(), _State(), _State(1, 0, _BOTH)),
    "a call": (instead("_first", lambda _, state: state), _State(), _State(), _State(1, 1, ("second",))),
    "a constant": (reads("LIMIT", lambda limit: limit - 4), _State(), _State(), None),
    "an order": (moved("_first", after="_second"), _State(), _State(), _State(1, 1, ("second", "first"))),
    "a step into a body": (
        together(moved("_first", after="replace"), instead("_second", lambda _, state: state)),
        _State(),
        _State(),
        _State(1, 1, ("first",)),
    ),
    "a whole function": (
        wrapped(lambda commit, *states: commit(*states, wanted=2)),
        _State(),
        _State(),
        _State(2, 1, _BOTH),
    ),
}


@pytest.mark.parametrize("function", [_commit, _commit_as_another_wrote_it], ids=["one way", "another way"])
@pytest.mark.parametrize("what", _TAKEN_AWAY)
def test_a_guard_is_taken_away_by_name_in_any_spelling(function: Any, what: str) -> None:
    removal, seen, current, expected = _TAKEN_AWAY[what]
    before = function(seen, current)

    with Guard("none", function, removal).taken_away():
        without = function(seen, current)

    assert without == expected != before
    assert function(seen, current) == before


@pytest.mark.parametrize(
    ("removal", "said"),
    [
        (never("sealed"), r"_commit has 0 matches of a condition 'sealed', among: .*seen is None"),
        (never("planned"), r"2 matches of a condition 'planned', among: .*current.planned > LIMIT"),
        (keyword("replace", "waiting"), r"0 matches of replace\(waiting=...\), among: replace\(current, "),
        (instead("_third"), r"0 matches of a call of '_third', among: replace; _first; _second|_first; _second"),
        (reads("sealed", bool), r"0 matches of a read of 'sealed', among: .*current.version"),
    ],
)
def test_a_selector_that_does_not_match_once_says_its_findings(removal: Removal, said: str) -> None:
    with pytest.raises(ValueError, match=said), Guard("none", _commit, removal).taken_away():
        raise AssertionError("it was taken away")


def test_a_method_of_the_storage_is_found_by_its_file_and_an_unknown_method_is_refused() -> None:
    assert in_storage("plans.commit").__qualname__ == "Plans.commit"
    with pytest.raises(ValueError, match="wait_for_it is 0 functions"):
        in_storage("plans.wait_for_it")
