"""Tries any number of hostile inputs of each decoder, at random, and says how many there were and were refused.

python -m tests.fuzz 20000           so many inputs of each decoder
python -m tests.fuzz 20000 --save    also writes benchmarks/results/fuzz.json
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.arguments import at_least, check_directory
from benchmarks.child import INTERRUPTED
from benchmarks.results import RESULTS, save
from tests.fuzz.effort import EXAMPLES
from tidewheel.errors import InvalidValue

LEAST = 100
"""Of fewer inputs, those that are refused may by chance be none, and the tests ask for both."""
HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pytest takes texts


def main(arguments: list[str]) -> int:
    """Runs the tests of this folder, in this process, and prints the counts.

    Returns:
        pytest's exit code; 130 after Ctrl-C.
    """
    import pytest

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="tries hostile inputs at random")
    parser.add_argument(
        "examples",
        type=at_least(LEAST),
        nargs="?",
        default=20_000,
        help="inputs of each decoder (default 20,000); bombs and batches, which are fixed, take a minute or two beside",
    )
    parser.add_argument("--save", action="store_true", help="write the counts among the benchmarks' results")
    given = parser.parse_args(arguments)
    try:
        if given.save:
            check_directory(RESULTS)
    except InvalidValue as error:
        parser.error(str(error))
    os.environ[EXAMPLES] = str(given.examples)
    code = int(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", HERE]))
    from tests.fuzz.effort import tried

    names = sorted(name for name in tried if not name.startswith("refused "))
    figures = {name: {"inputs": tried[name], "refused": tried[f"refused {name}"]} for name in names}
    for name, counts in figures.items():
        print(f"{name:28} {counts['inputs']:>9,} inputs {counts['refused']:>9,} refused")
    print(f"{'all':28} {sum(tried[name] for name in names):>9,} inputs")
    if code == pytest.ExitCode.INTERRUPTED:
        print("stopped; these were tried so far" + ("; nothing is saved" if given.save else ""))
        return INTERRUPTED
    if given.save and code == 0:
        save("fuzz", figures, command=f"make fuzz EXAMPLES={given.examples}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
