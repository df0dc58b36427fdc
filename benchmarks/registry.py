"""All benchmarks by name, and how one is found and run.

A benchmark is a module with a function `benchmark(*, quick) -> figures`, run in a process of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.figures import Benchmark
from benchmarks.registry_fast import FAST
from benchmarks.registry_slow import SLOW
from tidewheel.errors import InvalidValue

BENCHMARKS: Mapping[str, Benchmark] = {each.name: each for each in (*FAST, *SLOW)}
"""In the order in which they are run and written down."""


def chosen(names: Sequence[str], *, slow: bool) -> list[Benchmark]:
    """Returns the benchmarks to run.

    Args:
        names: those that were asked for; all that are fast, if none.
        slow: whether the slow ones are meant, too, where none was asked for.

    Raises:
        InvalidValue: there is none of a name.
    """
    for name in names:
        if name not in BENCHMARKS:
            raise InvalidValue("benchmark", name, f"Use {', '.join(BENCHMARKS)}.")
    if names:
        return [BENCHMARKS[name] for name in dict.fromkeys(names)]
    return [each for each in BENCHMARKS.values() if slow or not each.slow]


def run(name: str, *, quick: bool) -> dict[str, Any]:
    """Runs a benchmark in this process and returns its figures, the scale among them."""
    [found] = chosen([name], slow=True)
    figures: dict[str, Any] = importlib.import_module(found.module).benchmark(quick=quick)
    return {"quick": True, **figures} if quick else figures
