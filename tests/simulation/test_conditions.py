"""A clause of a stored write's condition, or a part of an update, is found by the name of its attribute."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.conditions import checked, kind_of, unallowed, unchecked, unwritten
from tests.simulation.guard import Guard
from tests.simulation.removal import Removal, together
from tidewheel.storage.writes import Change, Put

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
        (unchecked("done"), [_EXISTS, _LEASE, _OPEN], {"expired", "state"}),
        (unchecked("leases"), [_EXISTS, _DONE, _OPEN], {"part", "state"}),
        (unchecked("state"), [_EXISTS, _DONE, _LEASE], {"part", "expired"}),
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
        (unchecked("sealed"), "'sealed': none"),
        (unchecked("tries"), "'tries': none"),
        (unallowed("done"), "'done': none"),
        (unwritten("done"), "'done': none"),
        (unchecked("pk"), "'pk': .*Put.*Change"),
        (unchecked("pk", "SUB#"), "'pk': none"),
    ],
)
def test_a_selector_that_does_not_match_once_is_an_error_at_the_end(removal: Removal, said: str) -> None:
    with pytest.raises(ValueError, match=said), Guard("none", _puts, removal).taken_away():
        _puts(3)
