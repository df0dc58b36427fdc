"""The archives, built for this machine and unpacked: what the functions run from, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tidewheel.cdk.bundling import fill
from tidewheel.cdk.pinned_packages import X86, install, pinned

RUNTIME_PACKAGES = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""Lambda's runtime interface client and what it needs: Lambda brings them, no archive has them."""

SDK_PACKAGES = (
    "boto3",
    "botocore",
    "cronsim",
    "jmespath",
    "numpy",
    "pyarrow",
    "pyroaring",
    "python-dateutil",
    "s3transfer",
    "six",
    "tzdata",
    "urllib3",
)
"""What `pip install tidewheel[read]` brings, as pinned."""


def functions_python() -> Path:
    """Returns the interpreter of the functions' version. Skips without one. In CI, where `CI` is set, fails."""
    named = f"python{X86.python}"
    on_path = shutil.which(named)
    candidates = [sys.executable, *([on_path] if on_path else [])]
    candidates += map(str, sorted(Path.home().glob(f".pyenv/versions/{X86.python}.*/bin/{named}")))
    program = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    for candidate in candidates:
        done = subprocess.run([candidate, "-I", "-c", program], capture_output=True, text=True, check=False)
        version, _, path = done.stdout.strip().partition(" ")
        if version == X86.python:
            return Path(path)
    reason = f"the functions run on Python {X86.python}, and this machine has none: install {named}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def unpack_archive(folder: Path) -> Path:
    """Builds the functions' archive for this machine, unpacked into a folder."""
    folder.mkdir(parents=True)
    fill(folder, X86)
    return folder


def install_runtime(folder: Path) -> Path:
    """Installs Lambda's runtime interface client into a folder of its own."""
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    install(pinned(RUNTIME_PACKAGES, X86, lock=lock), folder, X86)
    return folder


def install_sdk(folder: Path) -> Path:
    """Builds the wheel and installs it with the SDK's pinned packages, and nothing else, into a folder of its own."""
    built = folder.with_name(f"{folder.name}-wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    [wheel] = built.glob("*.whl")
    install(pinned(SDK_PACKAGES, X86), folder, X86)
    shutil.unpack_archive(wheel, folder, "zip")
    return folder


def patched(source: Path, target: Path, change: Callable[[Path], None]) -> Path:
    """Copies an unpacked archive and changes the copy: how a test makes another release of it.

    Files are hard links until `change` replaces them, so that a copy costs little.
    """
    shutil.copytree(source, target, copy_function=os.link)
    change(target)
    return target


def rewrite(path: Path, text: str) -> None:
    """Replaces a file of a copied archive without touching the one that it was copied from."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
