"""Runs the simulation: many seeds in every mode, or one to look at.

    python -m tests.simulation                          seeds 0 to 99 in each mode
    python -m tests.simulation --seeds 1000:2000        these; a number n means 0:n
    python -m tests.simulation --seed 7 --mode faults   one; its violation with a short trace
    python -m tests.simulation --seed 7 --mode faults --trace      with every step

It ends with 1 if a promise was broken, and says how to see it again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.faults import MODES
from tests.simulation.runs import Figures, all_runs, table
from tests.simulation.service import STEPS, Simulation, Violation

MOST_SHOWN = 5
"""Failures that are shown with their traces."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the arguments ask for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="the real flows under one seed")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", default="100", help="n for 0 to n - 1, or a:b for a to b - 1 (default 100)")
    which.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all", help="what goes wrong (default all)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps before all is healed (default {STEPS})")
    parser.add_argument("--trace", action="store_true", help="show every step of --seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file")
    parser.add_argument("--save", action="store_true", help="write the figures to benchmarks/results/simulation.json")
    given = parser.parse_args(arguments)
    modes = list(MODES) if given.mode == "all" else [given.mode]
    if given.seed is not None:
        return max(_one(given.seed, mode, given.steps, given.trace) for mode in modes)
    try:
        first, end = _range(given.seeds)
    except ValueError:
        parser.error(f"--seeds {given.seeds}: give a number, or two as 100:200")
    figures = Figures()
    try:
        for run in all_runs(range(first, end), modes, given.steps, given.jobs):
            figures.add(run)
            if run.violation is not None and figures.failed <= MOST_SHOWN:
                print(f"\nseed {run.seed}, {run.mode}: {run.violation}\n{run.story}\n", flush=True)
    except KeyboardInterrupt:
        print("stopped; the numbers so far:")
    print(table(figures))
    command = f"python -m tests.simulation --seeds {first}:{end} --mode {given.mode} --steps {given.steps} --save"
    _keep(figures, given.json, given.save, command)
    return 1 if figures.failed else 0


def _one(seed: int, mode: str, steps: int, trace: bool) -> int:
    odds, unreliable = MODES[mode]
    simulation = Simulation(seed=seed, odds=odds, unreliable=unreliable, steps=steps)
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


def _range(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    return (int(first), int(end)) if colon else (0, int(first))


def _keep(figures: Figures, path: str | None, save: bool, command: str) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(figures.document(), indent=2) + "\n")
    elif save:
        from benchmarks import results

        results.save("simulation", figures.document(), command=command)


if __name__ == "__main__":
    sys.exit(main())
