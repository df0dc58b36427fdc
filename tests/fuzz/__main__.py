"""Tries any number of hostile inputs of each decoder, at random, and says how many there were and were refused.

python -m tests.fuzz 20000           so many inputs of each decoder
python -m tests.fuzz 20000 --save    also writes benchmarks/results/fuzz.json
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.fuzz.effort import EXAMPLES

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pytest takes texts


def main(arguments: list[str]) -> int:
    """Runs the tests of this folder, in this process, and prints the counts; returns pytest's exit code."""
    import pytest

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="tries hostile inputs at random")
    parser.add_argument("examples", type=int, nargs="?", default=20_000, help="inputs of each decoder")
    parser.add_argument("--save", action="store_true", help="write the counts among the benchmarks' results")
    given = parser.parse_args(arguments)
    os.environ[EXAMPLES] = str(given.examples)
    code = int(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", HERE]))
    from tests.fuzz.effort import tried

    names = sorted(name for name in tried if not name.startswith("refused "))
    figures = {name: {"inputs": tried[name], "refused": tried[f"refused {name}"]} for name in names}
    for name, counts in figures.items():
        print(f"{name:28} {counts['inputs']:>9,} inputs {counts['refused']:>9,} refused")
    print(f"{'all':28} {sum(tried[name] for name in names):>9,} inputs")
    if given.save and code == 0:
        from benchmarks.results import save

        save("fuzz", figures, command=f"make fuzz EXAMPLES={given.examples}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
