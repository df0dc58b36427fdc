"""Runs the executable specification as its users do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).with_name("protocol_model.py")


def run(*arguments: str) -> str:
    """Returns the printed text. The exit code must be 0."""
    done = subprocess.run([sys.executable, MODEL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout
