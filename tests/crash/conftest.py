"""One stack for the stories of a module. Each story runs in a copy of the process, and leaves the stack unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.crash.world import MortalTidewheel


@pytest.fixture(scope="module")
def stack() -> Iterator[MortalTidewheel]:
    if not hasattr(os, "fork"):
        pytest.skip("a story's deaths are copies of the process: this system cannot fork")
    with MortalTidewheel() as opened:
        yield opened
