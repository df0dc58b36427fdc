"""The effort of the fuzz tests, with a few fixed inputs or with EXAMPLES random inputs."""

from __future__ import annotations

import os
from collections import Counter

from hypothesis import HealthCheck, settings

from tidewheel.errors import TidewheelError

EXAMPLES = "TIDEWHEEL_FUZZ_EXAMPLES"
"""The environment variable that asks for more inputs of each decoder, at random."""

tried: Counter[str] = Counter()
"""Inputs so far, by decoder; `refused <decoder>`: those of them that it refused."""


def many(count: int) -> int:
    """Returns the number of inputs of a test. EXAMPLES overrides the default number."""
    return int(os.environ.get(EXAMPLES) or count)


def effort(examples: int) -> settings:
    """Returns the settings of a test with a default number of inputs."""
    return settings(
        max_examples=many(examples),
        derandomize=EXAMPLES not in os.environ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def try_one(name: str, decode: object, value: object) -> None:
    """Decodes a value. Accepts only the project's own errors."""
    assert callable(decode)
    tried[name] += 1
    try:
        decode(value)
    except TidewheelError:
        tried[f"refused {name}"] += 1
