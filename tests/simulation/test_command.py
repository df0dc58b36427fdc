"""A seed gives the same run in every process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Runs Python in another process."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    arguments = ("-m", "tests.simulation", "--seed", "3", "--mode", "faults", "--steps", "300", "--trace")

    first, second = (run(*arguments, hash_seed=each) for each in ("1", "2"))

    assert first.returncode == 0, first.stdout[-3000:] + first.stderr
    assert first.stdout.count("\n") > 200
    assert first.stdout == second.stdout
