"""Both implementations for every test of this folder, and a separate topic for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel.local import LocalTidewheel, MemoryTidewheel


@pytest.fixture(scope="module", params=["memory", "moto"])
def stack(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A service for the topics of a module, either in memory or with the deployed functions on moto."""
    with MemoryTidewheel() if request.param == "memory" else LocalTidewheel() as opened:
        yield opened


@pytest.fixture
def topic(request: pytest.FixtureRequest, stack: Any) -> Iterator[Topic]:
    """A topic with the subscription "billing". `make` creates a topic with settings."""
    number = sum(each.name.startswith("t-") for each in stack.client().topics())
    failed = len(stack.failures)
    made = Topic(stack, f"t-{number}-{re.sub('[^a-z]+', '-', request.node.name.lower())}"[:40].strip("-"))
    yield made
    assert stack.failures[failed:] == []
