"""No schedule of setting aside loses or doubles a row, and each guard is needed."""

from __future__ import annotations

import pytest

from tests.simulation import plan_anew_model
from tests.simulation.set_aside_model import GUARDS, violation


def test_no_schedule_of_setting_aside_breaks_its_invariant() -> None:
    assert violation() is None


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_of_setting_aside_is_needed(guard: str) -> None:
    assert violation(guard)


def test_no_schedule_of_making_a_plan_anew_breaks_its_invariant() -> None:
    assert plan_anew_model.violation() is None


@pytest.mark.parametrize("guard", plan_anew_model.GUARDS)
def test_each_guard_of_making_a_plan_anew_is_needed(guard: str) -> None:
    assert plan_anew_model.violation(guard)
