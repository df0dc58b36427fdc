"""Damages all stored data, and tries hostile inputs of each decoder, at random. Prints the counts.

python -m tests.fuzz                      200,000 damages, 20,000 inputs of each decoder
python -m tests.fuzz 5000 --damages 0     5,000 inputs of each decoder, no damages
python -m tests.fuzz 0 --damages 10000    10,000 damages in each of three ways, no inputs
python -m tests.fuzz --save               also writes benchmarks/results/fuzz.json

Damage comes in three ways: of stored bytes; with the checksums right again, of what a sender or another program can
write; and the same of ledgers, which only the service's own functions write and Arrow parses. A death of a process
fails the first two. In the third it is counted.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from typing import Any

from benchmarks.arguments import INTERRUPTED, at_least, check_directory
from benchmarks.results import RESULTS, save
from tests.fuzz.damages import DAMAGE, LIE, Tally, What, table, troubles, try_all
from tests.fuzz.effort import EXAMPLES
from tests.fuzz.kinds import KINDS, LIES, OURS
from tidewheel.errors import InvalidValue

LEAST = 100
"""Of fewer inputs, those that are refused may by chance be none, and the tests ask for both."""
DAMAGES = 200_000
HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pytest takes texts
_WAYS = (
    ("damaged", DAMAGE, KINDS),
    ("damaged, checksum right", LIE, LIES),
    ("damaged by our own functions, checksum right", LIE, OURS),
)


def _none_or_at_least(text: str) -> int:
    return 0 if text == "0" else at_least(LEAST)(text)


def try_damages(count: int, seed: int) -> tuple[dict[str, dict[What, Tally]], bool]:
    """Tries a number of damages in each way, over all kinds, and prints tables. Returns whether all tries went well."""
    found: dict[str, dict[What, Tally]] = {}
    good = True
    for title, way, names in _WAYS:
        each = -(-count // len(names))
        found[title] = try_all([(way, name) for name in names], each, seed, workers=os.cpu_count() or 1)
        print(f"\n{title}, seed {seed}\n{table(found[title])}", flush=True)
        wrong = troubles(found[title], seed)
        if names is OURS:
            wrong = [line for tally in found[title].values() for _, line in tally.failures]
        print(*wrong[:20], sep="\n")
        good = good and not wrong
    return found, good


def _figures(found: dict[str, dict[What, Tally]]) -> dict[str, dict[str, int]]:
    return {
        f"{name} ({title})": {
            "inputs": each.tried,
            "refused": each.errors,
            "equal": each.equal,
            "deaths": len(each.deaths),
        }
        for title, tallies in found.items()
        for (_, name), each in tallies.items()
    }


def main(arguments: list[str]) -> int:
    """Tries the damages in separate processes, runs the tests of this folder in this process, and prints the counts.

    Returns:
        pytest's exit code; 1 after a death; 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="tries hostile input at random")
    parser.add_argument(
        "examples",
        type=_none_or_at_least,
        nargs="?",
        default=20_000,
        help="inputs of each decoder (default 20,000); bombs and batches, which are fixed, take a minute or two beside",
    )
    parser.add_argument(
        "--damages", type=_none_or_at_least, default=DAMAGES, help=f"in each way (default {DAMAGES:,}); 0: none"
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="of the damages (default: random)")
    parser.add_argument("--save", action="store_true", help="write the counts among the benchmarks' results")
    given = parser.parse_args(arguments)
    try:
        if given.save:
            check_directory(RESULTS)
    except InvalidValue as error:
        parser.error(str(error))
    figures: dict[str, Any] = {}
    code = 0
    try:
        if given.damages:
            found, good = try_damages(given.damages, given.seed)
            figures, code = _figures(found), 0 if good else 1
    except KeyboardInterrupt:
        print("stopped" + ("; nothing is saved" if given.save else ""))
        return INTERRUPTED
    if given.examples:
        code = _hostile(given.examples, figures) or code
    if code == INTERRUPTED:
        print("stopped; these were tried so far" + ("; nothing is saved" if given.save else ""))
    elif given.save and code == 0:
        save("fuzz", figures, command=f"make fuzz EXAMPLES={given.examples}")
    return code


def _hostile(examples: int, figures: dict[str, Any]) -> int:
    """Runs the tests of this folder with a number of inputs. Adds and prints the counts, and returns the exit code."""
    import pytest

    os.environ[EXAMPLES] = str(examples)
    code = int(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", HERE]))
    from tests.fuzz.effort import tried

    names = sorted(name for name in tried if not name.startswith("refused "))
    counts = {name: {"inputs": tried[name], "refused": tried[f"refused {name}"]} for name in names}
    for name, each in counts.items():
        print(f"{name:28} {each['inputs']:>9,} inputs {each['refused']:>9,} refused")
    print(f"{'all':28} {sum(tried[name] for name in names):>9,} inputs")
    figures.update(counts)
    return INTERRUPTED if code == pytest.ExitCode.INTERRUPTED else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
