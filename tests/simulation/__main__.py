"""Runs the simulation with many seeds in every mode, or with one seed.

    python -m tests.simulation                          seeds 0 to 99 in each mode
    python -m tests.simulation --seeds 1000:2000        these; a number n means 0:n
    python -m tests.simulation --fresh 100              seeds that nobody has chosen; it says which
    python -m tests.simulation --seed 7 --mode faults   one; its violation with a short trace
    python -m tests.simulation --seed 7 --mode faults --trace      with every step

It ends with 1 if a promise was broken, and prints each failure with the command that shows it again. Ctrl-C prints the
sums of the runs that have ended, keeps no file of them, and ends with 130.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import results
from benchmarks.arguments import INTERRUPTED, at_least, check_directory, check_file
from tests.simulation.faults import EVERYTHING, MODES
from tests.simulation.runs import Figures, all_runs, table
from tests.simulation.service import STEPS, Simulation, Violation
from tidewheel.errors import InvalidValue

MOST_TRACES = 5
"""Failures that are shown with their traces; of others, the violation and the command."""
_SEEDS = 1 << 40
"""Fresh seeds are below this number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the requested seeds. Returns the exit code."""
    given = _asked(arguments)
    modes = list(EVERYTHING) if given.mode == "all" else [given.mode]
    try:
        if given.seed is not None:
            return max(_one(given.seed, mode, given.steps, given.trace) for mode in modes)
        figures = Figures()
        interrupted = _count(figures, given.seeds, modes, given.steps, given.jobs or os.cpu_count() or 1)
    except KeyboardInterrupt:
        print("stopped before it ended")
        return INTERRUPTED
    print(table(figures))
    if interrupted:
        total = len(given.seeds) * len(modes)
        kept = "; nothing is saved" if given.save or given.json else ""
        print(f"stopped after {sum(figures.runs.values()):,} of {total:,} runs{kept}")
        return INTERRUPTED
    seeds = f"{given.seeds.start}:{given.seeds.stop}"
    command = f"python -m tests.simulation --seeds {seeds} --mode {given.mode} --steps {given.steps} --save"
    _keep(figures, given.json, given.save, command)
    return 1 if figures.failed else 0


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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of --seeds to a file")
    parser.add_argument("--save", action="store_true", help="write them to benchmarks/results/simulation.json")
    given = parser.parse_args(arguments)
    if given.seed is None and given.trace:
        parser.error("--trace shows the steps of one run: give --seed with it")
    if given.seed is not None and (given.json or given.save or given.jobs):
        parser.error("--json, --save and --jobs are for the sums over --seeds: leave them out with --seed")
    if given.fresh is not None:
        first = secrets.randbelow(_SEEDS)
        given.seeds = range(first, first + given.fresh)
        print(f"seeds {first}:{first + given.fresh}", flush=True)
    try:
        if given.json is not None:
            check_file(given.json)
        if given.save:
            check_directory(results.RESULTS)
    except InvalidValue as error:
        parser.error(str(error))
    return given


def _count(figures: Figures, seeds: range, modes: Sequence[str], steps: int, jobs: int) -> bool:
    """Adds up the runs and shows the failed runs. Returns whether Ctrl-C stopped the count."""
    total = len(seeds) * len(modes)
    with Console(stderr=True).status(f"0 of {total:,} runs ...") as status:
        try:
            for number, run in enumerate(all_runs(seeds, modes, steps, jobs), 1):
                figures.add(run)
                if run.violation is not None:
                    shown = run.story if figures.failed <= MOST_TRACES else run.story.partition("\n")[0]
                    print(f"\nseed {run.seed}, {run.mode}: {run.violation}\n{shown}\n", flush=True)
                status.update(f"{number:,} of {total:,} runs, {figures.failed} broke a promise ...")
        except KeyboardInterrupt:
            return True
    return False


def _one(seed: int, mode: str, steps: int, trace: bool) -> int:
    simulation = Simulation(seed=seed, mode=MODES[mode], steps=steps)
    violation: Violation | None = None
    try:
        simulation.run()
    except Violation as error:
        violation = error
    if trace:
        print("\n".join(simulation.trace))
    if violation is None:
        print(f"seed {seed}, {mode}: {simulation.calls:,} steps, no promise was broken")
        return 0
    print(f"seed {seed}, {mode}: {violation}", *getattr(violation, "__notes__", ()), sep="\n")
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


def _keep(figures: Figures, path: Path | None, save: bool, command: str) -> None:
    if path is not None:
        path.write_text(json.dumps(figures.document(), indent=2) + "\n")
    if save:
        results.save("simulation", figures.document(), command=command)


if __name__ == "__main__":
    sys.exit(main())
