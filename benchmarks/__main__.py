"""Runs benchmarks, which print tables and write a JSON file each.

    python -m benchmarks                 the fast ones
    python -m benchmarks --all           all
    python -m benchmarks ledger merge    these
    python -m benchmarks --all --record  into benchmarks/results, which the documentation quotes

Several benchmarks run one after the other, each in a process of its own: none finds the memory, threads or caches of
another. A benchmark that fails does not stop the others. Ctrl-C loses only the benchmark that runs, and exits with 130.

Processes keep the bytecode of what they import, whatever PYTHONDONTWRITEBYTECODE says, as a package from pip has it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import results
from benchmarks.arguments import INTERRUPTED, check_directory
from benchmarks.registry import BENCHMARKS, Benchmark
from benchmarks.tables import tables
from tidewheel.errors import InvalidValue

UNRECORDED = Path("build/benchmarks")


def run(benchmark: Benchmark, directory: Path, console: Console, *, quick: bool) -> int:
    """Runs a benchmark in this process, prints tables and saves the figures. Returns the exit code."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    load = results.load_now()
    if results.is_busy(load):
        console.print(f"[yellow]Other programs keep {load:.1f} cores busy: times are too long[/]")
    try:
        module = importlib.import_module(benchmark.module or f"benchmarks.bench_{benchmark.name}")
        figures = module.benchmark(quick=quick)
    except KeyboardInterrupt:
        console.print(f"[yellow]{benchmark.name} was stopped, and nothing is saved[/]")
        return INTERRUPTED
    for table in tables(benchmark.title, figures, {} if quick else benchmark.goals):
        console.print(table)
    path = results.save(
        benchmark.name,
        {"quick": True, **figures} if quick else figures,
        command=f"python -m benchmarks {benchmark.name}",
        directory=directory,
        load_at_start=load,
    )
    console.print(f"Saved: {path}")
    return 0


def run_each(benchmarks: Sequence[Benchmark], directory: Path, console: Console, *, quick: bool) -> int:
    """Runs benchmarks in processes of their own. Returns the exit code."""
    failed = 0
    for benchmark in benchmarks:
        command = [sys.executable, "-m", "benchmarks", benchmark.name, "--into", str(directory), *["--quick"] * quick]
        try:
            code = subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:
            return INTERRUPTED
        if code == INTERRUPTED:
            return code
        if code:
            console.print(f"[red]{benchmark.name} failed (exit code {code})[/]")
            failed = 1
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; the fast ones by default")
    parser.add_argument("--all", action="store_true", help="the slow ones, too")
    parser.add_argument("--quick", action="store_true", help="small: shows that it works, not how fast it is")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--into", type=Path, default=UNRECORDED, help=f"where to save ({UNRECORDED})")
    where.add_argument("--record", action="store_true", help="save in benchmarks/results")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if given.all and given.names:
        parser.error("give --all or names")
    if given.record and given.quick:
        parser.error("--record is for whole runs")
    directory = results.RESULTS if given.record else given.into
    try:
        check_directory(directory)
    except InvalidValue as error:
        parser.error(str(error))
    console = Console()
    console.width = max(console.width, 120)
    wanted = [BENCHMARKS[name] for name in given.names] or [
        each for each in BENCHMARKS.values() if given.all or not each.slow
    ]
    found = []
    for each in wanted:
        if each.extra is None or importlib.util.find_spec(each.extra) is not None:
            found.append(each)
        else:
            console.print(f"[yellow]{each.name} is left out: {each.extra} is not installed[/]")
    if len(found) == 1:
        return run(found[0], directory, console, quick=given.quick)
    return run_each(found, directory, console, quick=given.quick)


if __name__ == "__main__":
    sys.exit(main())
