"""Prints the time and memory of a run, shown by `pytest tests/artifact -rP`."""

from __future__ import annotations

import time

from tests.artifact.cloud import Cloud
from tests.artifact.oracle import Verdict


def print_figures(cloud: Cloud, verdict: Verdict, began: float) -> None:
    """Prints the verdict, and each function's calls, cold start and memory.

    Args:
        began: When the run began, by the monotonic clock.
    """
    days = (cloud.clock.now_ms() - cloud.start_ms) / 86_400_000
    print(f"{verdict}; {days:.1f} days in {time.monotonic() - began:.0f} s")
    for spec in cloud.functions.specs.values():
        found = [each for each in cloud.functions.measures if each.function == spec.folder and each.calls]
        if found:
            print(
                f"{spec.folder}: {sum(each.calls for each in found)} calls in {len(found)} environments, "
                f"import {max(each.init_s for each in found):.1f} s, "
                f"first call {max(each.first_call_s for each in found):.1f} s, "
                f"peak {max(each.peak_mb for each in found):.0f} of {spec.memory_mb} MiB"
            )
