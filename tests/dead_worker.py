"""Ends a test run when a worker of pytest-xdist dies.

By default pytest-xdist starts another worker, and with `--dist loadfile` the run may then wait for ever.
"""

from __future__ import annotations

from typing import NoReturn

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str) -> NoReturn:
    """Ends the run and names the test in which the worker died."""
    pytest.exit(f"a worker died in {crashitem}", returncode=pytest.ExitCode.TESTS_FAILED)
