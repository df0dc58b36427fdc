"""No schedule of a repeated pack doubles or loses rows, and each guard is needed."""

from __future__ import annotations

import pytest

from tests.simulation.replaced_model import GUARDS, violation


def test_no_schedule_of_a_pack_that_comes_again_breaks_its_invariant() -> None:
    assert violation() is None


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_of_a_pack_that_comes_again_is_needed(guard: str) -> None:
    assert violation(guard)
