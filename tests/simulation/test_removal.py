"""A guard is found by name, exactly once, in a function or in the condition of a stored write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.simulation.conditions import checked, kind_of, unallowed, unchecked, unwritten
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
from tidewheel.storage.writes import Change, Put

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


@pytest.mark.parametrize("what", _TAKEN_AWAY)
def test_a_guard_is_taken_away_by_name(what: str) -> None:
    removal, seen, current, expected = _TAKEN_AWAY[what]
    before = _commit(seen, current)

    with Guard("none", _commit, removal).taken_away():
        without = _commit(seen, current)

    assert without == expected != before
    assert _commit(seen, current) == before


@pytest.mark.parametrize(
    ("removal", "said"),
    [
        (never("sealed"), r"_commit has 0 matches of a condition 'sealed', among: .*seen is None"),
        (never("planned"), r"2 matches of a condition 'planned', among: .*current.planned > LIMIT"),
    ],
)
def test_a_selector_that_does_not_match_once_says_its_findings(removal: Removal, said: str) -> None:
    with pytest.raises(ValueError, match=said), Guard("none", _commit, removal).taken_away():
        raise AssertionError("it was taken away")


def test_a_method_of_the_storage_is_found_by_its_file_and_an_unknown_method_is_refused() -> None:
    assert in_storage("plans.commit").__qualname__ == "Plans.commit"
    with pytest.raises(ValueError, match="wait_for_it is no function"):
        in_storage("plans.wait_for_it")


# ---- conditions of stored writes
_KEY = ("T#orders", "DELIVERY#billing#1")


def _leases(part: int) -> Change:
    return Change(
        key=_KEY,
        condition="attribute_exists(pk) AND NOT contains(done, :part) AND "
        f"(attribute_not_exists(leases.#{part}) OR leases.#{part} < :expired) AND #state = :state",
        values={"part": part, "expired": 7, "state": "open"},
        sets={f"leases.#{part}": 9, "#state": "leased"},
        adds={"tries": 1},
    )


def _puts(part: int) -> list[Any]:
    put = Put(item={"pk": {"S": "T#orders"}, "sk": {"S": "PARK#7"}}, if_absent=True)
    return [put, _leases(part)]


_EXISTS = "attribute_exists(pk)"
_DONE = "NOT contains(done, :part)"
_LEASE = "(attribute_not_exists(leases.#3) OR leases.#3 < :expired)"
_OPEN = "#state = :state"


@pytest.mark.parametrize(
    ("removal", "left", "values"),
    [
        (unchecked("leases"), [_EXISTS, _DONE, _OPEN], {"part", "state"}),
        (unallowed("leases"), [_EXISTS, _DONE, "(attribute_not_exists(leases.#3))", _OPEN], {"part", "state"}),
        (together(unchecked("pk"), unchecked("done")), [_LEASE, _OPEN], {"expired", "state"}),
    ],
)
def test_a_clause_is_taken_out_with_its_values(removal: Removal, left: list[str], values: set[str]) -> None:
    with Guard("none", _leases, removal).taken_away():
        without = _leases(3)

    assert without.condition == " AND ".join(left)
    assert without.values.keys() == values
    assert (without.sets, without.adds) == (_leases(3).sets, _leases(3).adds)


def test_a_part_of_an_update_is_taken_out() -> None:
    with Guard("none", _leases, together(unwritten("leases"), unwritten("tries"))).taken_away():
        without = _leases(3)

    assert (without.sets, without.adds) == ({"#state": "leased"}, {})
    assert without.condition == _leases(3).condition


def test_a_write_of_one_kind_of_item_is_chosen_and_the_others_stay() -> None:
    with Guard("none", _puts, unchecked("pk", "PARK#")).taken_away():
        put, change = _puts(3)

    assert (put.if_absent, checked(put)) == (False, {"pk"})
    assert put.condition == "(attribute_exists(pk) OR attribute_not_exists(pk))"
    assert (kind_of(put), kind_of(change)) == ("PARK", "DELIVERY")
    assert checked(change) == {"pk", "done", "leases", "state"}


@pytest.mark.parametrize(
    ("removal", "said"),
    [
        (unwritten("done"), "'done': none"),
        (unchecked("pk"), "'pk': .*Put.*Change"),
    ],
)
def test_a_clause_that_does_not_match_once_is_an_error_at_the_end(removal: Removal, said: str) -> None:
    with pytest.raises(ValueError, match=said), Guard("none", _puts, removal).taken_away():
        _puts(3)
