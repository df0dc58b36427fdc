"""Imports read files in the process of the tests, with the answers of a child. It takes half a second to start one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidewheel.jobs.importing import child
from tidewheel.jobs.importing.work import FileProblem


@pytest.fixture
def children() -> None:
    """Lets the imports of a test read files in child processes, as they do."""


@pytest.fixture(autouse=True)
def without_children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the tasks here unless a test asks for children."""

    def call(apart: Any, item: Any) -> Iterator[Any]:
        for kind, answer in child.answers(apart.task, item):
            if kind == "result":
                yield answer
            elif kind != "end":
                raise (FileProblem if kind == "problem" else RuntimeError)(answer)

    if "children" not in request.fixturenames:
        monkeypatch.setattr(child.Apart, "__call__", call)
