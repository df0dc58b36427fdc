"""A pytest plugin that prevents imports of moto in this process."""

from __future__ import annotations

import importlib.util
import sys

import pytest


def forbid() -> None:
    """Makes every later import of moto fail."""
    assert "moto" not in sys.modules, "moto was imported before the first test"
    assert importlib.util.find_spec("moto") is not None, "moto is not installed: nothing would be shown"
    sys.modules["moto"] = None  # type: ignore[assignment]


def pytest_configure() -> None:
    """Forbids moto before the first test."""
    forbid()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a part of moto is in the process all the same."""
    if found := [name for name, module in sys.modules.items() if name.split(".")[0] == "moto" and module is not None]:
        print(f"moto was imported: {', '.join(found[:5])}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
