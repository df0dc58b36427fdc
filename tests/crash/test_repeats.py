"""AWS delivers an event twice at one time, or accepts half a batch. All messages come, with at most one extra copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.crash import stories_delivery, stories_ingest, stories_requests, stories_upkeep
from tests.crash.death import Point, When
from tests.crash.story import Story, explore
from tests.crash.world import MortalTidewheel

REPEATED: tuple[Story, ...] = (
    stories_ingest.ingesting_urgent,
    stories_ingest.replacing,
    stories_delivery.dispatching_a_small_plan,
    stories_delivery.dispatching_parts,
    stories_delivery.delivering_parts,
    stories_delivery.draining_a_large_park,
    stories_upkeep.merging,
)
HALF_TAKEN: tuple[Story, ...] = (
    stories_ingest.sending,
    stories_ingest.ingesting_urgent,
    stories_delivery.dispatching_a_small_plan,
    stories_delivery.dispatching_parts,
    stories_delivery.delivering_parts,
    stories_delivery.catching_up,
    stories_requests.rescheduling,
    stories_requests.resuming,
    stories_upkeep.sweeping_a_delivery,
)
EVERY = 6
"""Of the calls before which the second run stands, every sixth is tried; `python -m tests.crash --all` tries all."""


@pytest.mark.parametrize("story", REPEATED, ids=lambda story: story.name)
def test_an_event_that_a_function_gets_twice_at_one_time_costs_a_copy_at_most(
    stack: MortalTidewheel, story: Story
) -> None:
    def chosen(point: Point) -> bool:
        return point.when is When.TWICE and point.number % EVERY == 0

    report = explore(stack, story, chosen)
    assert not report.problems, "\n".join(report.problems)
    assert report.verdicts


@pytest.mark.parametrize("story", HALF_TAKEN, ids=lambda story: story.name)
def test_what_a_queue_does_not_take_of_a_batch_is_sent_again_and_nothing_else(
    stack: MortalTidewheel, story: Story
) -> None:
    report = explore(stack, replace(story, late_s=max(story.late_s, story.late_anyway_s)), _half)
    assert not report.problems, "\n".join(report.problems)
    assert report.verdicts
    assert all(verdict.copies <= report.undisturbed.copies for verdict in report.verdicts)


def _half(point: Point) -> bool:
    return point.when is When.HALF
