"""Runs benchmarks: each hot path beside its bare floor, in the same run.

    python -m benchmarks                        the fast ones
    python -m benchmarks --all                  all
    python -m benchmarks ledger merge           these
    python -m benchmarks --compare              beside the committed results; --compare DIR_OR_FILE: beside others
    python -m benchmarks --all --record         into the committed results; then: python -m benchmarks.report

Each benchmark is a process of its own, and its results are saved when it ends, so that Ctrl-C loses only the one that
runs; the exit code is 130 then. Goals that are reached are green.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import comparison, results
from benchmarks.arguments import check_directory
from benchmarks.child import INTERRUPTED
from benchmarks.figures import Benchmark
from benchmarks.registry import BENCHMARKS, chosen
from benchmarks.results import Result
from tidewheel.errors import InvalidValue

UNRECORDED = Path("build/benchmarks")
WRONG_USE, FAILED = 2, 1


def measure(benchmark: Benchmark, directory: Path, *, quick: bool) -> Result:
    """Runs one benchmark in a process of its own and saves its results.

    Raises:
        KeyboardInterrupt: somebody ended it.
        subprocess.CalledProcessError: it failed; its error is on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="tidewheel-bench-") as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "benchmarks.child", benchmark.name, str(file), *["--quick"] * quick]
        with subprocess.Popen(command) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.wait()  # Ctrl-C reached the child, too
                raise
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise subprocess.CalledProcessError(code, command)
        measured = json.loads(file.read_text())
    results.save(
        benchmark.name,
        measured["figures"],
        command=benchmark.command,
        directory=directory,
        load_at_start=measured["load_at_start"],
    )
    return results.load(benchmark.name, directory)


def measure_all(
    benchmarks: Sequence[Benchmark], directory: Path, console: Console, *, quick: bool
) -> tuple[dict[str, Result], bool]:
    """Runs benchmarks, one after the other; one that fails does not keep the others from being run.

    Returns:
        What was measured, by name, and whether Ctrl-C ended it.
    """
    found: dict[str, Result] = {}
    for number, benchmark in enumerate(benchmarks, 1):
        if benchmark.extra is not None and importlib.util.find_spec(benchmark.extra) is None:
            console.print(
                f"[yellow]{benchmark.name} is left out: it needs {benchmark.extra}, which is not installed[/]"
            )
            continue
        with console.status(f"{benchmark.name} ({number} of {len(benchmarks)}) ..."):
            try:
                found[benchmark.name] = measure(benchmark, directory, quick=quick)
            except KeyboardInterrupt:
                console.print(f"[yellow]Ended during {benchmark.name}; what was measured before is saved[/]")
                return found, True
            except subprocess.CalledProcessError as error:
                console.print(f"[red]{benchmark.name} failed (exit code {error.returncode})[/]")
    return found, False


def table(found: Mapping[str, Result]) -> Table:
    """Returns all figures, each with its spread and its goal."""
    drawn = Table(title_justify="left", title="Median (quartiles of the rounds)")
    drawn.add_column("")
    for heading in ("measured", "goal"):
        drawn.add_column(heading, justify="right")
    for name, result in found.items():
        for figure in BENCHMARKS[name].figures:
            value = figure.of(result.figures)
            if value is None:
                continue
            colour = {True: "green", False: "red", None: "default"}[figure.reached(value)]
            drawn.add_row(
                f"{name}: {figure.says}", f"[{colour}]{figure.shown_of(result.figures)}[/]", figure.shown_goal()
            )
        drawn.add_section()
    return drawn


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it from the command line; returns the exit code."""
    given = _parser().parse_args(arguments)
    console = Console()
    if (refused := _contradiction(given)) is not None:
        console.print(f"[red]{refused}[/]")
        return WRONG_USE
    directory = results.RESULTS if given.record else given.into or UNRECORDED
    try:
        benchmarks = chosen(given.names, slow=given.all)
        # Before they are overwritten, if they are.
        earlier = None if given.compare is None else comparison.read(given.compare)
        if earlier is not None:
            _check_comparable(earlier, benchmarks, given)
        check_directory(directory)
    except InvalidValue as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return WRONG_USE
    if results.is_busy(results.load_now()):
        console.print("[yellow]Other programs run on this machine: times are worth little until they have ended[/]")
    found, interrupted = measure_all(benchmarks, directory, console, quick=given.quick)
    console.print(table(found))
    if found:
        console.print(f"Saved in {directory}/: {', '.join(found)}")
    code = 0 if len(found) == len(benchmarks) else FAILED
    if interrupted:
        code = INTERRUPTED
    if earlier is not None:
        changes = comparison.changes(earlier, found)
        console.print(comparison.table(changes))
        for doubt in comparison.doubts(earlier, found):
            console.print(f"[yellow]{doubt}[/]")
        if given.fail and not interrupted and any(change.is_worse for change in changes):
            return FAILED
    return code


def _contradiction(given: argparse.Namespace) -> str | None:
    """Returns what is wrong with options that mean nothing together; None: nothing."""
    if given.record and given.quick:
        return "--record keeps figures that others read: not those of a quick run"
    if given.record and given.into is not None:
        return "--record and --into both say where to save: give one of them"
    if given.all and given.names:
        return "--all means all, and names mean these: give one of them"
    if given.fail and given.compare is None:
        return "--fail is about a comparison: give --compare with it"
    return None


def _check_comparable(
    earlier: Mapping[str, Result], benchmarks: Sequence[Benchmark], given: argparse.Namespace
) -> None:
    """Makes sure that a comparison has anything to compare.

    Raises:
        InvalidValue: the earlier results have none of these benchmarks at this scale.
    """
    if not any(
        each.name in earlier and bool(earlier[each.name].figures.get("quick")) == given.quick for each in benchmarks
    ):
        scale = "a quick run" if given.quick else "a whole run"
        raise InvalidValue(
            "compare", str(given.compare), f"Give results of {scale}, with one of these benchmarks at least."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    runnable = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {runnable}; all that are fast by default")
    parser.add_argument("--all", action="store_true", help="the slow ones, too")
    parser.add_argument("--quick", action="store_true", help="small: to see that it works, not how fast it is")
    parser.add_argument("--into", type=Path, help=f"where to save ({UNRECORDED})")
    parser.add_argument("--record", action="store_true", help="save where the documentation reads it")
    parser.add_argument(
        "--compare", type=Path, nargs="?", const=results.RESULTS, metavar="DIR_OR_FILE", help="beside an earlier run"
    )
    parser.add_argument("--fail", action="store_true", help="with --compare: exit code 1 if something is 10 %% worse")
    return parser


if __name__ == "__main__":
    sys.exit(main())
