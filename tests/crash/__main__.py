"""Kills every flow at each of its AWS calls, by `python -m tests.crash [--all] [--story TEXT] [--jobs N] [--save]`.

With `--all`, each function also gets its event twice at one time, the second call before each call of the first, and
each batch of messages is refused in part.

Prints a table, a line a flow; exits with 1 if anything was lost, early, late beyond its bound, or left behind. Ctrl-C
leaves the flows that have ended, prints them, and exits with 130.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import INTERRUPTED, at_least, check_directory
from benchmarks.results import RESULTS, save
from tests.conftest import PROMISE_MS
from tests.crash.catalogue import STORIES
from tests.crash.death import When
from tests.crash.story import Report, Story, every_death_that_matters, everything, explore
from tests.crash.world import MortalTidewheel
from tidewheel.errors import InvalidValue

DEATHS = frozenset({When.BEFORE, When.AFTER})
REPEATS = frozenset({When.TWICE, When.HALF})
COMMAND = "python -m tests.crash --all --save"


def main(arguments: Sequence[str] | None = None) -> int:
    """Explores the stories. Returns the exit code."""
    given, stories = _asked(arguments)
    console = Console()
    reports: list[tuple[Story, Report]] = []
    chosen = everything if given.all else every_death_that_matters
    interrupted = False
    try:
        with MortalTidewheel() as stack, console.status("...") as status:
            for number, story in enumerate(stories, 1):
                status.update(f"{story.name} ({number} of {len(stories)}) ...")
                reports.append((story, explore(stack, story, chosen, jobs=given.jobs)))
    except KeyboardInterrupt:
        interrupted = True
    console.print(_table(reports))
    problems = [problem for _, report in reports for problem in report.problems]
    for problem in problems:
        console.print(problem, style="red", markup=False, highlight=False)
    if interrupted:
        kept = "; nothing is saved" if given.save else ""
        console.print(f"[yellow]Stopped after {len(reports)} of {len(stories)} flows{kept}[/]")
        return INTERRUPTED
    if given.save:
        console.print(f"{save('crash', _figures(reports), command=COMMAND)}")
    return 1 if problems else 0


def _asked(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[Story]]:
    """Returns the arguments and the selected stories. Ends the program with 2 for invalid arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--all",
        action="store_true",
        help="deaths that AWS cannot tell from each other, too, events twice and batches in part",
    )
    parser.add_argument("--story", default="", help="only stories with this text in their name")
    parser.add_argument("--jobs", type=at_least(1), default=os.cpu_count() or 1, help="branches at one time")
    parser.add_argument(
        "--save",
        action="store_true",
        help="with --all: keep the figures of all stories in benchmarks/results/crash.json",
    )
    given = parser.parse_args(arguments)
    stories = [story for story in STORIES if given.story in story.name]
    if not stories:
        parser.error(f"no story has {given.story!r} in its name")
    if given.save and (given.story or not given.all):
        parser.error("--save keeps figures that stand for everything: give --all with it, and no --story")
    try:
        if given.save:
            check_directory(RESULTS)
    except InvalidValue as error:
        parser.error(str(error))
    return given, stories


def _table(reports: Sequence[tuple[Story, Report]]) -> Table:
    deaths, repeats = (sum(count(report, when) for _, report in reports) for when in (DEATHS, REPEATS))
    title = f"{len(reports)} flows, {deaths} deaths, {repeats} repeats and refusals"
    table = Table(title=title, title_justify="left")
    for heading in ("flow", "AWS calls", "deaths", "repeats", "latest, s", "bound, s", "most copies", "since"):
        table.add_column(heading, justify="left" if heading in ("flow", "since") else "right")
    for story, report in reports:
        table.add_row(
            story.name,
            str(report.calls),
            str(count(report, DEATHS)),
            str(count(report, REPEATS)),
            f"{report.late_ms / 1000:.1f}",
            f"{bound_s(story):.1f}",
            str(max((each.copies for each in report.verdicts), default=0)),
            story.because,
            style="red" if report.problems else None,
        )
    return table


def count(report: Report, happenings: frozenset[When]) -> int:
    """Returns the number of runs with one of some happenings."""
    return sum(verdict.point is not None and verdict.point.when in happenings for verdict in report.verdicts)


def bound_s(story: Story) -> float:
    """Returns the maximum lateness of a message in seconds, after any death."""
    return PROMISE_MS / 1000 + story.late_s


def _figures(reports: Sequence[tuple[Story, Report]]) -> dict[str, object]:
    return {
        "flows": len(reports),
        "calls": sum(report.calls for _, report in reports),
        "deaths": sum(count(report, DEATHS) for _, report in reports),
        "repeats": sum(count(report, REPEATS) for _, report in reports),
        "problems": sum(len(report.problems) for _, report in reports),
        "stories": [
            {
                "flow": story.name,
                "calls": report.calls,
                "deaths": count(report, DEATHS),
                "repeats": count(report, REPEATS),
                "latest_s": report.late_ms / 1000,
                "bound_s": bound_s(story),
                "because": story.because,
                "most_copies": max((each.copies for each in report.verdicts), default=0),
                "problems": report.problems,
            }
            for story, report in reports
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
