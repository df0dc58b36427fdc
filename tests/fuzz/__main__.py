"""Tries hostile inputs of each decoder, and damages of each kind of stored data, at random. Prints the counts.

python -m tests.fuzz [20000]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

from benchmarks.arguments import at_least
from tests.fuzz.effort import EXAMPLES, tried

LEAST = 100
"""Of fewer inputs, those that are refused may by chance be none, and the tests ask for both."""


def main(arguments: list[str]) -> int:
    """Runs the tests of this folder with a number of inputs. Returns pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="tries hostile input at random")
    parser.add_argument("examples", type=at_least(LEAST), nargs="?", default=20_000, help="of each kind (20,000)")
    os.environ[EXAMPLES] = str(parser.parse_args(arguments).examples)
    code = int(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", str(Path(__file__).parent)]))
    for name, count in sorted(tried.items()):
        print(f"{count:>12,}  {name}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
