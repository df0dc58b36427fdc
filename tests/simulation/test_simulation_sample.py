"""A few seeds of each mode. The other files of seeds take minutes."""

from __future__ import annotations

import pytest

from tests.simulation.runs import sound_runs


@pytest.mark.parametrize(
    ("mode", "seeds", "steps"),
    [
        ("calm", range(100, 105), 800),
        ("late", range(100, 105), 800),
        ("faults", range(100, 106), 800),
        ("half_well", range(100, 103), 800),
        ("narrow", range(100, 101), 400),
        ("timed_faults", range(100, 104), 1000),
    ],
)
def test_whatever_goes_wrong_every_promise_is_kept(mode: str, seeds: range, steps: int) -> None:
    assert sound_runs(seeds, mode, steps)["client: messages"] > 5 * len(seeds)
