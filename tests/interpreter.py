"""The Python of Lambda functions and Glue jobs. Archives are tested on no other."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidewheel.bundling.pinned_packages import LAMBDA, X86, Machine


def python_of(machine: Machine) -> str:
    """Returns the path of a machine's Python. Skips on other machines, and fails there in CI (the variable `CI`)."""
    missing = f"Python {machine.python} on Linux {machine.architecture} runs the archives: this machine has none"
    if (sys.platform, platform.machine()) == ("linux", machine.architecture):
        for path in _candidates(machine.python):
            if _version(path) == machine.python:
                return path
        missing += f", install python{machine.python}"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def functions_machine() -> Machine:
    """Returns the archive's machine type that runs on this machine. Unsupported machines are rejected by python_of."""
    return LAMBDA if platform.machine() == LAMBDA.architecture else X86


def _candidates(version: str) -> list[str]:
    named = f"python{version}"
    on_path = shutil.which(named)
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{named}"))
    return [sys.executable, *([on_path] if on_path else []), *map(str, of_pyenv)]


def _version(executable: str) -> str:
    """Returns the version of a Python, or an empty text for a shim without a Python."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip()
