"""No schedule of holding loses a row or makes more copies than failures allow, and each guard is needed."""

from __future__ import annotations

import pytest

from tests.simulation.hold_model import GUARDS, LACKING
from tests.simulation.hold_schedules import violation


def test_no_schedule_of_holding_breaks_its_invariant() -> None:
    assert violation(deviations=1) is None


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["s3", "away", "refuses all"])  # the others: 40 s of CPU
def test_no_schedule_with_two_deviations_breaks_its_invariant(scenario: str) -> None:
    assert violation(deviations=2, scenarios=[scenario]) is None


@pytest.mark.parametrize("guard", [*GUARDS, *LACKING])
def test_each_guard_of_holding_is_needed(guard: str) -> None:
    assert violation(guard, deviations=1)
