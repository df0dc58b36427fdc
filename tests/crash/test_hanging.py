"""A function ends in time after AWS stops its answers at any call. All messages come, and none early."""

from __future__ import annotations

import pytest

from tests.crash import stories_delivery, stories_ingest, stories_upkeep
from tests.crash.death import Point, When
from tests.crash.story import Story, explore
from tests.crash.world import MortalTidewheel

STORIES: tuple[Story, ...] = (*stories_ingest.STORIES, *stories_delivery.STORIES, *stories_upkeep.STORIES)
EVERY = 20
"""Of the calls at which AWS begins to hang, every twentieth is tried. `python -m tests.crash --all` tries all.

Calls hang in the simulation, too.
"""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_function_whose_calls_hang_ends_in_its_time_and_its_work_comes_again(
    stack: MortalTidewheel, story: Story
) -> None:
    report = explore(stack, story, _hangs)
    assert not report.problems, "\n".join(report.problems)


def _hangs(point: Point) -> bool:
    return point.when is When.HANGS and point.number % EVERY == 1
