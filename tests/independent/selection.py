"""A pytest plugin that runs the contract suites on given endpoints, without the tests named in `EXCLUDED`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.aws_resources import has_endpoints
from tests.independent.differences import EXCLUDED

ELSEWHERE = ("memory", "folder")
"""Parameters of tests that no server takes part in: `make test` runs them."""


def pytest_configure() -> None:
    """Refuses to run on moto."""
    assert has_endpoints(), "AWS_ENDPOINT_URL_DYNAMODB is not set"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves excluded files out."""
    return True if collection_path.name in EXCLUDED else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects excluded tests and tests of other implementations. Fails for unknown excluded names."""
    names = {item: item.nodeid.rpartition("/")[2] for item in items}
    unknown = [name for name in EXCLUDED if "::" in name and name not in names.values()]
    if unknown:
        raise pytest.UsageError(f"excluded in tests/independent/differences.py, but no test: {', '.join(unknown)}")
    excluded = [
        item for item in items if names[item] in EXCLUDED or names[item].partition("[")[2].startswith(ELSEWHERE)
    ]
    config.hook.pytest_deselected(items=excluded)
    items[:] = [item for item in items if item not in excluded]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the excluded tests with reasons."""
    for name, reason in EXCLUDED.items():
        terminalreporter.line(f"excluded: {name}: {reason}")
