"""Ends a test run when a worker of pytest-xdist dies.

By default pytest-xdist starts another worker, and with `--dist loadfile` the run may then wait for ever.
"""

from __future__ import annotations

import faulthandler
from typing import NoReturn

import pytest

_END_S = 60
"""Most seconds that the other workers have to end. After them this process dumps its threads and exits."""


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str) -> NoReturn:
    """Ends the run and names the test in which the worker died."""
    reason = f"a worker died in {crashitem}"
    print(f"\n{reason}", flush=True)
    faulthandler.dump_traceback_later(_END_S, exit=True)
    pytest.exit(reason, returncode=pytest.ExitCode.TESTS_FAILED)
