"""The executable specification holds, and each of its guards is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).with_name("protocol_model.py")


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, MODEL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout


def test_no_schedule_of_the_protocol_breaks_an_invariant() -> None:
    assert "no violation" in run("--runs", "1200")


def test_without_any_one_guard_an_invariant_breaks() -> None:
    assert "89 of 89 guards: the mutant is caught" in run("--all-mutants")
