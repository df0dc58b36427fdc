"""Runs the scenarios and prints a table: `python -m benchmarks.soak`. Exit code 1 if a promise is broken.

Ctrl-C prints the scenarios that have ended, saves nothing, and exits with 130.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks import results
from benchmarks.arguments import INTERRUPTED, check_directory
from benchmarks.soak import backlog, burst, fan_out, outage, steady
from benchmarks.soak.outcome import Outcome
from tidewheel.errors import InvalidValue

Run = Callable[[], Outcome]

# The memory of the process is judged in the first one: nothing has run before it.
SCENARIOS = {"steady": steady, "burst": burst, "backlog": backlog, "fan_out": fan_out, "outage": outage}
_COLUMNS = ("messages", "copies", "late_p99_ms", "late_most_ms", "plans", "part_jobs", "part_jobs_twice", "cpu_s")


def soak(runs: Mapping[str, Run], console: Console) -> list[Outcome]:
    """Runs scenarios one after the other, and prints a row each and every broken promise.

    Returns:
        What came of them; of fewer, if Ctrl-C ended it.
    """
    table = Table(title="Soak", title_justify="left")
    for heading in ("scenario", *_COLUMNS, "promises"):
        table.add_column(heading.replace("_", " "), justify="left" if heading == "scenario" else "right")
    outcomes = []
    for name, run in runs.items():
        with console.status(f"{name} ..."):
            began_s = time.process_time()
            try:
                outcome = run()
            except KeyboardInterrupt:
                console.print(f"[yellow]Stopped during {name}; it is not in the table[/]")
                break
            outcome.figures["cpu_s"] = round(time.process_time() - began_s, 1)
        outcomes.append(outcome)
        colour = "red" if outcome.broken else "green"
        kept = f"[{colour}]{len(outcome.held)} of {len(outcome.held) + len(outcome.broken)} kept[/]"
        table.add_row(name, *(f"{outcome.figures[column]:,}" for column in _COLUMNS), kept)
    console.print(table)
    for outcome in outcomes:
        for sentence in outcome.broken:
            console.print(f"[red]broken[/] {outcome.name}: {sentence}")
    return outcomes


def main(arguments: Sequence[str] | None = None, runs: Mapping[str, Run] | None = None) -> int:
    """Runs what is asked for; returns the exit code.

    Args:
        arguments: of the command line; None: this process's.
        runs: scenarios instead of this module's.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--small", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(SCENARIOS)}, separated by commas")
    parser.add_argument("--verbose", action="store_true", help="print all figures and kept promises, too")
    parser.add_argument("--save", action="store_true", help="write the results file; for full runs of all scenarios")
    given = parser.parse_args(arguments)
    known = runs or {
        name: partial(module.run, module.SMALL if given.small else module.FULL) for name, module in SCENARIOS.items()
    }
    names = list(known) if given.only is None else given.only.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no such scenario: {', '.join(unknown)}; there are {', '.join(known)}")
    if given.save and (given.small or given.only):
        parser.error("--save is for full runs of all scenarios")
    if given.save:
        try:
            check_directory(results.RESULTS)
        except InvalidValue as error:
            parser.error(str(error))
    console = Console()
    console.width = max(console.width, 120)  # the table's
    outcomes = soak({name: known[name] for name in names}, console)
    if given.verbose:
        for outcome in outcomes:
            console.print(outcome.name, outcome.figures, *outcome.held, sep="\n  ")
    if len(outcomes) < len(set(names)):
        return INTERRUPTED
    if given.save:
        figures = {outcome.name: outcome.document() for outcome in outcomes}
        console.print(f"Saved: {results.save('soak', figures, command='make soak').name}")
    return int(any(outcome.broken for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
