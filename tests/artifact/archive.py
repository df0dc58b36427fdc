"""Packages that run beside the functions' archive on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.interpreter import functions_machine
from tidewheel.bundling.functions import PACKAGES
from tidewheel.bundling.pinned_packages import install, pinned

RUNTIME_PACKAGES = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""Lambda's runtime interface client and what it needs: Lambda brings them, no archive has them."""

SDK_PACKAGES = tuple(each for each in PACKAGES if each not in ("aws-lambda-powertools", "typing-extensions"))
"""What `pip install tidewheel[read]` brings: what the functions have, less Powertools and what that needs."""


def install_runtime(folder: Path) -> Path:
    """Installs Lambda's runtime interface client into a separate folder."""
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    machine = functions_machine()
    install(pinned(RUNTIME_PACKAGES, machine, lock=lock), folder, machine)
    return folder


def install_sdk(folder: Path, wheel: Path) -> Path:
    """Installs the wheel with only the SDK's pinned packages into a separate folder."""
    machine = functions_machine()
    install(pinned(SDK_PACKAGES, machine), folder, machine)
    shutil.unpack_archive(wheel, folder, "zip")
    return folder
