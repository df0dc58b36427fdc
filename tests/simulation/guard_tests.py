"""The two tests of a family of guards; each family has a file of its own, so that several workers share them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.simulation.exploring import Found, Scenario, explore
from tests.simulation.mutant import MOST_SCHEDULES, Mutant
from tests.simulation.mutants import worlds_of


def guard_tests(mutants: Sequence[Mutant]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Returns the test of each mutant, and the test of each of their worlds with all guards in force."""

    @pytest.mark.parametrize("mutant", mutants, ids=lambda mutant: mutant.guard)
    def without_a_guard(mutant: Mutant) -> None:
        found = mutant.hunt()

        assert isinstance(found, Found), f"{mutant.world.name}: {found} schedules keep every promise without the guard"

    @pytest.mark.parametrize("world", worlds_of(mutants), ids=lambda world: world.name)
    def with_all_guards(world: Scenario) -> None:
        found = explore(world, MOST_SCHEDULES)

        assert not isinstance(found, Found), f"{found.violation}; {found.story}"
        assert found >= (1 if world.most == 0 else 3), "the world has no schedules to speak of"

    return without_a_guard, with_all_guards
