"""Fixtures of the archives' tests, with the parts built once per test process."""

from __future__ import annotations

import pytest

from tests.artifact.cloud import Parts
from tests.artifact.parts import make_parts
from tests.packaging.conftest import package_index

__all__ = ["package_index"]


@pytest.fixture(scope="session")
def parts(package_index: None, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The archives, Lambda's runtime, the SDK and the template."""
    return make_parts(tmp_path_factory.mktemp("parts"))
