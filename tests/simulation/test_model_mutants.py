"""Each guard of the executable specification is needed."""

from __future__ import annotations

from tests.simulation.model import run


def test_without_any_one_guard_an_invariant_breaks() -> None:
    assert "91 of 91 guards: the mutant is caught" in run("--all-mutants")
