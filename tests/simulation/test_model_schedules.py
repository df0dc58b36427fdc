"""The executable specification holds."""

from __future__ import annotations

import pytest

from tests.simulation.model import run


@pytest.mark.parametrize(
    ("deviations", "runs", "most"), [("0", "40", "100"), pytest.param("1", "200", "250", marks=pytest.mark.long)]
)
def test_no_schedule_of_the_protocol_breaks_an_invariant(deviations: str, runs: str, most: str) -> None:
    assert "no violation" in run("--bound", deviations, "--runs", runs, "--most", most)
