"""Gives files that share something costly to one worker of pytest-xdist."""

from __future__ import annotations

from typing import Any

import pytest

TOGETHER = {
    "tests/e2e/": "the CDK",
    "tests/infra/": "the CDK",
    "tests/local/test_end_to_end_merging": "Spark",
    "tests/local/test_topic_queues": "the CDK",
    "tests/spark/": "Spark",
}
"""Beginnings of tests, and the process that they share in a worker. It takes seconds to start."""


def group_of(test: str) -> str:
    """Returns the group of a test, by default its file."""
    found = (group for beginning, group in TOGETHER.items() if test.startswith(beginning))
    return next(found, test.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduling of `--dist loadfile` with groups of files."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Together(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Together(config, log) if config.option.dist == "loadfile" else None
