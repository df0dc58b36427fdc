"""The functions' Python, on which archives are tried. No other is taken for it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidewheel.cdk.pinned_packages import LAMBDA, X86, Machine

MACHINES = {machine.architecture: machine for machine in (LAMBDA, X86)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The functions' Python on this machine, and the machine as packages are installed for it."""

    executable: str
    machine: Machine


def functions_python() -> Interpreter:
    """Returns the functions' Python; skips where this machine has none, and fails there in CI (the variable `CI`)."""
    machine = MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        pytest.skip(f"an archive for Lambda does not run on {sys.platform} {platform.machine()}")
    for path in _candidates():
        if _version(path) == machine.python:
            return Interpreter(executable=path, machine=machine)
    missing = f"the functions' archive runs on Python {machine.python}, which this machine lacks: install it"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def _candidates() -> list[str]:
    named = f"python{LAMBDA.python}"
    on_path = shutil.which(named)
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{LAMBDA.python}.*/bin/{named}"))
    return [sys.executable, *([on_path] if on_path else []), *map(str, of_pyenv)]


def _version(executable: str) -> str:
    """Returns the version of a Python; a name on the path may be a shim without a Python behind it."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip()
