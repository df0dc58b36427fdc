"""What the tests of builds share: whether packages can be fetched."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

import pytest


@pytest.fixture(scope="session")
def package_index() -> None:
    """Skips where packages cannot be fetched; in CI, where `CI` is set, they must be."""
    url = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple/"
    try:
        urllib.request.urlopen(f"{url.rstrip('/')}/six/", timeout=20).close()
    except (urllib.error.URLError, TimeoutError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{url} cannot be reached: {error}")
