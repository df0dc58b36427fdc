"""The Python on which a bundle is tried: the functions' version if this machine has it, or else the tests' own."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidewheel.cdk.pinned_packages import LAMBDA, Machine
from tidewheel.cdk.shared_object import AARCH64, X86_64

ELF = {"x86_64": X86_64, "aarch64": AARCH64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python that runs here, and the machine that it is, as packages are installed for it."""

    executable: str
    machine: Machine


def this_machines() -> Interpreter:
    """Returns the Python that is nearest to the functions'."""
    architecture = platform.machine()
    if sys.platform != "linux" or architecture not in ELF:
        pytest.skip(f"a bundle for Linux does not run on {sys.platform} {architecture}")
    found = next((path for path in _candidates() if _version(path) == LAMBDA.python), sys.executable)
    machine = Machine(python=_version(found), architecture=architecture, elf=ELF[architecture])
    return Interpreter(executable=found, machine=machine)


def _candidates() -> list[str]:
    named = f"python{LAMBDA.python}"
    on_path = shutil.which(named)
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{LAMBDA.python}.*/bin/{named}"))
    return [sys.executable, *([on_path] if on_path else []), *map(str, of_pyenv)]


def _version(executable: str) -> str:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip()
