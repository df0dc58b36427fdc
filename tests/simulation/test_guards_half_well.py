"""Without any one guard against partial faults of AWS, the guard's test fails."""

import pytest

from tests.simulation.guards.half_well import GUARDS, Held


@pytest.mark.parametrize("held", GUARDS, ids=lambda held: held.guard.promise)
def test_a_test_fails_without_the_guard(held: Held) -> None:
    with held.guard.taken_away(), pytest.raises((Exception, pytest.fail.Exception)):
        held.test()
