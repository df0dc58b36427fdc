"""Fixtures of the build tests, with access to packages, the wheel, and environments."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import REPOSITORY
from tests.once import once
from tests.packaging.installed import Environments, run

if TYPE_CHECKING:
    from tidewheel.bundling.pinned_packages import Machine


@pytest.fixture(scope="session")
def package_index() -> None:
    """Skips tests without access to packages, or fails in CI, where `CI` is set."""
    url = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple/"
    try:
        urllib.request.urlopen(f"{url.rstrip('/')}/six/", timeout=20).close()
    except (urllib.error.URLError, TimeoutError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{url} cannot be reached: {error}")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution, built as `make build` does, without a network."""
    build: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d"]
    return once(tmp_path_factory, "dist", lambda folder: run([*build, folder], REPOSITORY))


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """The wheel."""
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def environments(package_index: None, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """Environments with the wheel and nothing of the checkout."""
    return Environments(wheel=wheel, folder=tmp_path_factory.mktemp("environments"))


def functions_archive(factory: pytest.TempPathFactory, machine: Machine) -> Path:
    """Returns the content of the functions' archive for a machine, in a folder. Nothing may change it."""
    from tidewheel.bundling.functions import fill

    return once(factory, f"functions-{machine.architecture}", lambda folder: fill(folder, machine))
