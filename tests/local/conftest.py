"""Fixtures of tests that run in memory and on local AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidewheel.local import LocalTidewheel, MemoryTidewheel

Stack = LocalTidewheel | MemoryTidewheel


@pytest.fixture(params=[MemoryTidewheel, LocalTidewheel])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A stack in memory, and then one on local AWS."""
    make: Callable[[], Any] = request.param
    with make() as opened:
        yield opened


@pytest.fixture
def memory() -> MemoryTidewheel:
    """A stack in memory."""
    return MemoryTidewheel()
