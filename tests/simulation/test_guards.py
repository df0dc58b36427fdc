"""Without any one guard of the protocol a small world breaks a promise. With the guard it keeps all promises."""

from __future__ import annotations

import pytest

from tests.simulation.exploring import Found, Scenario, explore, run
from tests.simulation.guard import MOST_SCHEDULES, Guard
from tests.simulation.guards import GUARDS

HUNTED = [guard for guard in GUARDS if guard.world is not None]
"""A contract suite alone holds the others."""
WORLDS = list({guard.world.name: guard.world for guard in HUNTED if guard.world is not None}.values())


@pytest.mark.parametrize("guard", HUNTED, ids=lambda guard: guard.promise)
def test_a_schedule_breaks_a_promise_without_a_guard_and_none_with_it(guard: Guard) -> None:
    found = guard.hunt()

    assert isinstance(found, Found), f"{found} schedules keep every promise without the guard"
    assert guard.world is not None
    run(guard.world, found.schedule)


@pytest.mark.nightly
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_with_all_guards_every_schedule_keeps_every_promise(world: Scenario) -> None:
    found = explore(world, MOST_SCHEDULES)

    assert not isinstance(found, Found), f"{found.violation}; {found.story}"
    assert found >= (1 if world.most == 0 else 3), "the world has no schedules to speak of"
