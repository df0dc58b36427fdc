"""Builds and unpacks the functions' archives for this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.interpreter import functions_machine
from tidewheel.cdk.bundling import PACKAGES, fill
from tidewheel.cdk.pinned_packages import install, pinned

RUNTIME_PACKAGES = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""Lambda's runtime interface client and what it needs: Lambda brings them, no archive has them."""

SDK_PACKAGES = tuple(each for each in PACKAGES if each not in ("aws-lambda-powertools", "typing-extensions"))
"""What `pip install tidewheel[read]` brings: what the functions have, less Powertools and what that needs."""


def unpack_archive(folder: Path) -> Path:
    """Builds the functions' archive for this machine, unpacked into a folder."""
    folder.mkdir(parents=True)
    fill(folder, functions_machine())
    return folder


def install_runtime(folder: Path) -> Path:
    """Installs Lambda's runtime interface client into a separate folder."""
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    machine = functions_machine()
    install(pinned(RUNTIME_PACKAGES, machine, lock=lock), folder, machine)
    return folder


def install_sdk(folder: Path) -> Path:
    """Builds the wheel and installs it with only the SDK's pinned packages into a separate folder."""
    built = folder.with_name(f"{folder.name}-wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    [wheel] = built.glob("*.whl")
    machine = functions_machine()
    install(pinned(SDK_PACKAGES, machine), folder, machine)
    shutil.unpack_archive(wheel, folder, "zip")
    return folder


def patched(source: Path, target: Path, change: Callable[[Path], None]) -> Path:
    """Copies an unpacked archive and changes the copy, for another release.

    Files are hard links until `change` replaces them, so that a copy costs little.
    """
    shutil.copytree(source, target, copy_function=os.link)
    change(target)
    return target


def rewrite(path: Path, text: str) -> None:
    """Replaces a file of a copied archive without touching the original."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
