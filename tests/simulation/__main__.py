"""Runs the simulation with many seeds in every mode, or with one seed.

    python -m tests.simulation                          seeds 0 to 99 in each mode
    python -m tests.simulation --seeds 1000:2000        these; a number n means 0:n
    python -m tests.simulation --fresh 100              seeds that nobody has chosen; it says which
    python -m tests.simulation --seed 7 --mode faults   one; its violation with a short trace
    python -m tests.simulation --seed 7 --mode faults --trace      with every step

It ends with 1 if a promise was broken, and prints each failure with the command that shows it again.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from benchmarks.arguments import at_least
from tests.simulation.modes import MODES
from tests.simulation.runs import Run, all_runs, one_run, table
from tests.simulation.service import STEPS

MOST_TRACES = 5
"""Failures that are shown with their traces; of others, the violation and the command."""
_SEEDS = 1 << 40
"""Fresh seeds are below this number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the requested seeds. Returns the exit code."""
    given = _asked(arguments)
    modes = list(MODES) if given.mode == "all" else [given.mode]
    if given.seed is not None:
        return max(_one(given.seed, mode, given.steps, given.trace) for mode in modes)
    began_s = time.monotonic()
    ended = _run_all(given.seeds, modes, given.steps, given.jobs or os.cpu_count() or 1)
    print(table(ended, time.monotonic() - began_s))
    return int(any(run.violation is not None for run in ended))


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the arguments. Invalid arguments end the program with 2."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="the real flows under one seed")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--seeds",
        type=_range,
        default="100",
        metavar="N|A:B",
        help="n for 0 to n - 1, or a:b for a to b - 1 (default 100)",
    )
    which.add_argument("--fresh", type=at_least(1), metavar="N", help="n seeds in a row from a random one")
    which.add_argument("--seed", type=at_least(0), help="one seed")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all", help="what goes wrong (default all)")
    parser.add_argument(
        "--steps", type=at_least(1), default=STEPS, help=f"steps before all is healed (default {STEPS})"
    )
    parser.add_argument("--trace", action="store_true", help="show every step of --seed")
    parser.add_argument("--jobs", type=at_least(1), help="processes of --seeds (default: one a core)")
    given = parser.parse_args(arguments)
    if given.seed is None and given.trace:
        parser.error("--trace shows the steps of one run: give --seed with it")
    if given.fresh is not None:
        first = secrets.randbelow(_SEEDS)
        given.seeds = range(first, first + given.fresh)
        print(f"seeds {first}:{first + given.fresh}", flush=True)
    return given


def _run_all(seeds: range, modes: Sequence[str], steps: int, jobs: int) -> list[Run]:
    """Returns all runs. Shows each failed run as it ends."""
    ended: list[Run] = []
    total, failed = len(seeds) * len(modes), 0
    with Console(stderr=True).status(f"0 of {total:,} runs ...") as status:
        for run in all_runs(seeds, modes, steps, jobs):
            ended.append(run)
            if run.violation is not None:
                failed += 1
                shown = run.story if failed <= MOST_TRACES else run.story.partition("\n")[0]
                print(f"\nseed {run.seed}, {run.mode}: {run.violation}\n{shown}\n", flush=True)
            status.update(f"{len(ended):,} of {total:,} runs, {failed} broke a promise ...")
    return ended


def _one(seed: int, mode: str, steps: int, trace: bool) -> int:
    run = one_run(seed, mode, steps)
    if trace:
        print("\n".join(run.trace))
    if run.violation is None:
        print(f"seed {seed}, {mode}: {run.calls:,} steps, no promise was broken")
        return 0
    print(f"seed {seed}, {mode}: {run.violation}\n{run.story}")
    return 1


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    try:
        seeds = range(int(first), int(end)) if colon else range(int(first))
    except ValueError:
        seeds = range(0)
    if not seeds or seeds.start < 0:
        raise argparse.ArgumentTypeError(
            f"{text}: give a number, or two as 100:200: at least one seed, and none below 0"
        )
    return seeds


if __name__ == "__main__":
    sys.exit(main())
