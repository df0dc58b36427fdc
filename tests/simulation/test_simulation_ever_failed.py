"""Runs each seed that once broke a promise."""

import pytest

from tests.simulation.ever_failed import EVER_FAILED, STEPS
from tests.simulation.runs import sound_runs


@pytest.mark.parametrize(("mode", "seed"), [(mode, seed) for mode, seeds in EVER_FAILED.items() for seed in seeds])
def test_a_seed_that_broke_a_promise_keeps_all_now(mode: str, seed: int) -> None:
    sound_runs([seed], mode, STEPS)
