"""Collections, merges and sweeps survive any death. All messages come in time, none early, and nothing is left."""

from __future__ import annotations

import pytest

from tests.crash.stories_upkeep import STORIES
from tests.crash.story import Story, every_death_that_matters, explore, thinned
from tests.crash.world import MortalTidewheel


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_death_at_any_call_loses_nothing_and_leaves_nothing(stack: MortalTidewheel, story: Story) -> None:
    report = explore(stack, story, thinned(every_death_that_matters, story.every))
    assert not report.problems, "\n".join(report.problems)
    assert report.verdicts
