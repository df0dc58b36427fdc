"""Imports read files in the process of the tests. It takes half a second to start a child."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidewheel.jobs.importing import driver


@pytest.fixture
def children() -> None:
    """Lets the imports of a test read files in child processes, as they do."""


def here(task: Any, work: Any, parts: Any) -> Iterator[Any]:
    """Runs a task as `apart` does, in this process."""
    return (told for told in task(work, parts) if not isinstance(told, int))


@pytest.fixture(autouse=True)
def without_children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the tasks here unless a test asks for children."""
    if "children" not in request.fixturenames:
        monkeypatch.setattr(driver, "apart", here)
