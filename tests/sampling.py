"""Samples of cases that take long together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def some_of(cases: Sequence[Any], every: int) -> list[Any]:
    """Returns the cases of a test, of which CI runs every so many, and `make test-nightly` the others."""
    return [
        case if place % every == 0 else pytest.param(case, marks=pytest.mark.nightly)
        for place, case in enumerate(cases)
    ]
