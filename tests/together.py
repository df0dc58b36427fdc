"""Gives files that share something costly to one worker of pytest-xdist."""

from __future__ import annotations

from typing import Any

import pytest

TOGETHER = {"tests/infra/": "the CDK", "tests/spark/": "Spark"}
"""Beginnings of tests, and the process that they share in a worker. It takes seconds to start."""
APART = tuple(
    f"tests/infra/test_{name}"
    for name in (
        *("attackers", "client_", "declared", "enforcement", "policy_command", "viewer_"),
        *("deploy", "failure", "in_place", "permissions", "protection"),
    )
)
"""Beginnings of files that use no CDK."""
FIRST = (
    "tests/artifact_jobs/test_jobs.py",
    "the CDK",
    "Spark",
    "tests/artifact/test_whole.py",
    "tests/packaging/test_installed_cdk.py",
    "tests/packaging/test_installed.py",
    "tests/packaging/test_bundles.py",
    "tests/infra/test_enforcement.py",
    "tests/local/test_request_counts.py",
    "tests/simulation/test_model.py",
    "tests/simulation/test_seeds.py",
    "tests/unit/test_calls_end.py",
)
"""The groups that take longest, the longest first: else a worker may end long after the others."""


def group_of(test: str) -> str:
    """Returns the group of a test, by default its file."""
    together = () if test.startswith(APART) else TOGETHER
    found = (TOGETHER[beginning] for beginning in together if test.startswith(beginning))
    return next(found, test.partition("::")[0])


def place_of(test: str) -> int:
    """Returns the place of a test's group among those that take longest."""
    group = group_of(test)
    return FIRST.index(group) if group in FIRST else len(FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduling of `--dist loadfile` with groups of files."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Together(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Together(config, log) if config.option.dist == "loadfile" else None
