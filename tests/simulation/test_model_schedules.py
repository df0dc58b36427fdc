"""The executable specification holds."""

from __future__ import annotations

import pytest

from tests.simulation.model import run


@pytest.mark.parametrize(
    ("deviations", "runs"), [("0", "40"), pytest.param("1", "200", marks=pytest.mark.long)]
)  # of each scenario, and at random
def test_no_schedule_of_the_protocol_breaks_an_invariant(deviations: str, runs: str) -> None:
    assert "no violation" in run("--bound", deviations, "--runs", runs)
