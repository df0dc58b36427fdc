"""No schedule of holding loses a row or makes more copies than failures allow, and each guard is needed."""

from __future__ import annotations

import pytest

from tests.simulation.hold_model import GUARDS, LACKING
from tests.simulation.hold_schedules import violation


@pytest.mark.parametrize("deviations", [1, pytest.param(2, marks=pytest.mark.long)])  # half a minute and more
def test_no_schedule_of_holding_breaks_its_invariant(deviations: int) -> None:
    assert violation(deviations=deviations) is None


@pytest.mark.parametrize("guard", [*GUARDS, *LACKING])
def test_each_guard_of_holding_is_needed(guard: str) -> None:
    assert violation(guard, deviations=1)
