"""Installs packages from PyPI for another machine, as pinned with hashes in a lock file.

uv installs the packages, and fetches wheels for any machine.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.markers import Marker

from tidewheel.errors import BundleFailed

LOCK = Path(__file__).with_name("requirements.lock")
"""The repository's lock entries for bundles and jobs. `python -m infra.bundle_lock` writes this file."""

ENTRY = re.compile(
    r"^(?P<name>[a-z0-9][\w.-]*)(?P<pin>==\S+)(?: ; (?P<marker>[^\\]*))?(?P<hashes> \\\n(?:    --hash=.*\n)*)",
    re.MULTILINE,
)
"""An entry of a lock file."""

_UV_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The target machine of packages.

    Attributes:
        python: Python's version, such as "3.13".
        architecture: The name of the architecture in wheels' tags.
    """

    python: str
    architecture: str

    @property
    def markers(self) -> dict[str, str]:
        """The machine as values for the markers of a lock file."""
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "sys_platform": "linux",
            "platform_system": "Linux",
            "platform_machine": self.architecture,
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }


LAMBDA = Machine(python="3.13", architecture="aarch64")
"""The functions' machine: arm64, Python 3.13 on Amazon Linux 2023, whose glibc is 2.34."""

X86 = Machine(python="3.13", architecture="x86_64")
"""The functions' Python on x86-64, for tests that run the archive on developers' machines."""

MACHINES = {"arm64": LAMBDA, "x86_64": X86}
"""Lambda's name of an architecture -> the machine."""

GLUE = X86
"""The workers of Glue 6.0, which also have Python 3.13.
https://docs.aws.amazon.com/glue/latest/dg/migrating-version-60.html
"""


def pinned(packages: Iterable[str], machine: Machine = LAMBDA, lock: str | None = None) -> str:
    """Returns a machine's entries of packages in a lock file, by default LOCK, with hashes.

    Markers are left out, since pip would evaluate markers for the Python that runs pip, not for the target machine.

    Raises:
        BundleFailed: A package is not in the lock file.
    """
    found = ENTRY.finditer(LOCK.read_text(encoding="utf-8") if lock is None else lock)
    entries = {
        match["name"]: f"{match['name']}{match['pin']}{match['hashes'].rstrip()}".rstrip(" \\") + "\n"
        for match in found
        if match["marker"] is None or Marker(match["marker"].strip()).evaluate(machine.markers)
    }
    wanted = list(packages)
    missing = sorted(set(wanted) - set(entries))
    if missing:
        raise BundleFailed(f"requirements.lock does not pin {', '.join(missing)}: make it anew.")
    return "".join(entries[name] for name in wanted)


def install(requirements: str, target: Path, machine: Machine = LAMBDA) -> None:
    """Installs pinned packages for a machine into a folder.

    Raises:
        BundleFailed: uv is missing, or the installation failed with a message on stderr.
    """
    platform = f"--python-platform={machine.architecture}-manylinux_2_28"
    # Changes in an unpacked archive must not change uv's cache.
    options = ["--link-mode=copy", f"--python-version={machine.python}", platform, f"--target={target}"]
    if not run_uv(requirements, "pip", "install", f"--python={sys.executable}", *options):
        raise BundleFailed("uv could not install the packages of a bundle: it says why above.")


def run_uv(requirements: str, *arguments: str) -> bool:
    """Runs uv on pinned packages, as wheels with checked hashes. Returns whether uv succeeded.

    Raises:
        BundleFailed: uv is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(requirements, encoding="utf-8")
        given = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", f"--requirement={file}"]
        command, environment = [uv(), *arguments, *given], {**os.environ, **index_for_uv()}
        # jsii talks to node over stdout.
        done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
    return not done.returncode


def index_for_uv() -> dict[str, str]:
    """Returns the variables that make uv use pip's package indexes.

    uv does not read pip's configuration: without these variables, uv would ask PyPI instead of a team's index. Returns
    {} if uv has its own indexes, or if pip has none.
    """
    if any(os.environ.get(name) for name in _UV_INDEXES):
        return {}
    options = (("index-url", "UV_DEFAULT_INDEX"), ("extra-index-url", "UV_INDEX"))
    configured = _pip_configuration()
    found = {uv: value for pip, uv in options if (value := _pip_option(pip, configured))}
    # Like pip, look in all indexes for the pinned version: the hash identifies the right file.
    return {**found, "UV_INDEX_STRATEGY": "unsafe-best-match"} if found else {}


def _pip_option(name: str, configured: str) -> str:
    """Returns an option of pip, with spaces between its values. A variable overrides pip's files."""
    variable = os.environ.get(f"PIP_{name.replace('-', '_').upper()}")
    values = re.findall(rf"^(?:global|install)\.{name}=(.*)$", configured, re.MULTILINE)
    return " ".join((variable or (str(ast.literal_eval(values[-1])) if values else "")).split())


def _pip_configuration() -> str:
    """Returns pip's configuration, a line for each option with its value in Python's notation. Empty without pip."""
    if importlib.util.find_spec("pip") is None:
        return ""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@cache
def interpreter(version: str) -> str | None:
    """Returns the path of a Python of a minor version such as "3.13" that uv finds here. None: there is none."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    try:
        command = [uv(), "python", "find", "--no-project", "--no-python-downloads", version]
    except BundleFailed:
        return None
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def uv() -> str:
    """Returns the path of uv, from the package beside this Python or from the machine.

    Raises:
        BundleFailed: There is no uv.
    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise BundleFailed(f"There is no uv beside {sys.executable} or on the PATH: pip install 'tidewheel[deploy]'.")
    return found
