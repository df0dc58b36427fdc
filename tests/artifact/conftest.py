"""Fixtures of the archives' tests, with the parts built once per run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.artifact.cloud import Parts
from tests.artifact.parts import fill_parts, parts_in
from tests.interpreter import functions_machine, python_of
from tests.once import once
from tests.packaging.conftest import built, functions_archive, package_index, wheel

__all__ = ["built", "package_index", "wheel"]


@pytest.fixture(scope="session")
def parts(package_index: None, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The archives, Lambda's runtime, the SDK and the template."""
    machine = functions_machine()
    python = Path(python_of(machine))
    archive = functions_archive(tmp_path_factory, machine)
    return parts_in(once(tmp_path_factory, "parts", lambda folder: fill_parts(folder, python, archive, wheel)), python)
