"""Programs of tests, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

PATIENCE_S = 120
"""What a process may take for what needs a few seconds: the machine may be busy."""


class Programs:
    """Python programs in a shell without settings of AWS."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TIDEWHEEL_"))}
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env=kept | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


def until(true: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Waits until something is true, while a process lives."""
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Waits for the end of a process. Returns its exit code, and what it printed to standard output and error."""
    shown, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, shown, errors
