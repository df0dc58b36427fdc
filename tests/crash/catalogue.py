"""All stories."""

from __future__ import annotations

from tests.crash import stories_delivery, stories_ingest, stories_requests, stories_upkeep
from tests.crash.story import Story

STORIES: tuple[Story, ...] = (
    *stories_ingest.STORIES,
    *stories_delivery.STORIES,
    *stories_requests.STORIES,
    *stories_upkeep.STORIES,
)
