"""A service in memory for the tests of a file, and a separate topic for each test.

The contract suites prove that memory behaves as moto does. A test with the mark `story` runs on both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel.client.worker import serving, worker
from tidewheel.local import LocalTidewheel, MemoryTidewheel


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a story on moto too, or on moto alone."""
    story = metafunc.definition.get_closest_marker("story")
    if story is not None:
        kinds = ["moto"] if story.kwargs.get("alone") else ["memory", "moto"]
        metafunc.parametrize("stack", kinds, indirect=True)


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets workers look for their end every 10 ms. By default each end takes a fifth of a second."""
    for each in (serving, worker):
        monkeypatch.setattr(each, "_LOOK_S", 0.01)


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A service for the topics of a module, either in memory or with the deployed functions on moto."""
    with LocalTidewheel() if getattr(request, "param", None) == "moto" else MemoryTidewheel() as opened:
        yield opened


@pytest.fixture
def topic(request: pytest.FixtureRequest, stack: Any) -> Iterator[Topic]:
    """A topic with the subscription "billing"."""
    number = sum(each.name.startswith("t-") for each in stack.client().topics())
    failed = len(stack.failures)
    made = Topic(stack, f"t-{number}-{re.sub('[^a-z]+', '-', request.node.name.lower())}"[:40].strip("-"))
    yield made
    assert stack.failures[failed:] == []


@pytest.fixture
def memory() -> MemoryTidewheel:
    """A service in memory for one test."""
    return MemoryTidewheel()
