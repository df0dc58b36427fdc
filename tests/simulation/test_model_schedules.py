"""The executable specification holds."""

from __future__ import annotations

from tests.simulation.model import run


def test_no_schedule_of_the_protocol_breaks_an_invariant() -> None:
    assert "no violation" in run("--runs", "200")
