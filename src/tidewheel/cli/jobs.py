"""`tidewheel merge`, `rebuild` and `import`: the Glue jobs, on Spark on this machine, for the stack that is named."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tidewheel.cli.output import print_error
from tidewheel.cli.target import Target
from tidewheel.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

TopicName = Annotated[str, typer.Argument(help="The topic's name.")]
Cores = Annotated[int | None, typer.Option(help="Tasks side by side; one for each processor by default.")]


def merge(
    ctx: typer.Context,
    topic: TopicName,
    everything: Annotated[bool, typer.Option("--all", help="Merge all small ledgers, however few they are.")] = False,
    cores: Cores = None,
) -> None:
    """Merge a topic's ledgers, if they are more than its max_buckets."""
    if _run(ctx, "merge_buckets", {"topic": topic, "all": everything}, cores) is None:
        raise typer.Exit(1)


def rebuild(
    ctx: typer.Context,
    topic: TopicName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what disagrees.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Rebuild a topic whose items exist.")] = False,
    slot_s: Annotated[int | None, typer.Option(help="The topic's slot length, where no checkpoint is left.")] = None,
    cores: Cores = None,
) -> None:
    """Make a topic's items anew from its ledgers and its last checkpoint."""
    arguments = {"topic": topic, "dry-run": dry_run, "replace": replace, "slot-s": slot_s}
    _run(ctx, "rebuild_index", arguments, cores)


def import_messages(
    ctx: typer.Context,
    topic: TopicName,
    files: Annotated[
        str, typer.Argument(metavar="FILES", help="A file, a folder or a glob: Parquet, CSV or JSON lines.")
    ],
    file_format: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or json. [default: by the files' names]")
    ] = None,
    deliver_at: Annotated[str | None, typer.Option(metavar="COLUMN", help="When it is due.")] = None,
    body: Annotated[str | None, typer.Option(metavar="COLUMN", help="What is sent.")] = None,
    key: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    attributes: Annotated[str | None, typer.Option(metavar="COLUMN", help="A map of texts.")] = None,
    expires_at: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    time_zone: Annotated[str | None, typer.Option(help="Of times that name none.")] = None,
    rejects: Annotated[str | None, typer.Option(help="Folder for the rows that are refused, with the reasons.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The import's name: the same one again adds nothing. [default: from the files]")
    ] = None,
    min_lead: Annotated[str | None, typer.Option(help="Refuse what is due sooner, such as 30m. [default: 1h]")] = None,
    cores: Cores = None,
) -> None:
    """Turn files of messages into ledgers, without a queue."""
    arguments = {
        "topic": topic,
        "input": files,
        "format": file_format,
        "deliver-at": deliver_at,
        "body": body,
        "key": key,
        "attributes": attributes,
        "expires-at": expires_at,
        "time-zone": time_zone,
        "rejects": rejects,
        "name": name,
        "min-lead": min_lead,
    }
    _run(ctx, "import_messages", arguments, cores)


def _run(ctx: typer.Context, script: str, arguments: Mapping[str, object], cores: int | None) -> Any:
    """Runs a job with a progress bar on standard error; its lines go to standard output."""
    from tidewheel.spark.local_jobs import run_job

    target: Target = ctx.obj
    given = {name: "true" if value is True else str(value) for name, value in arguments.items() if value}
    before = signal.signal(signal.SIGINT, _interrupted)
    try:
        with _progress(script.replace("_", " ")) as (say, advance):
            return run_job(
                script,
                given,
                stack_name=target.stack,
                clock=SystemClock(),
                endpoint_url=target.endpoint_url,
                session=target.session(),
                cores=cores,
                say=say,
                advance=advance,
            )
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted(_signal: int, _frame: object) -> NoReturn:
    """Ends at once: a job that is killed anywhere loses nothing, and Spark's own way out is 100 lines of traceback."""
    print_error("interrupted; nothing is lost: run it again")
    os._exit(130)


@contextmanager
def _progress(what: str) -> Iterator[tuple[Callable[[str], None], Callable[[float, float], None]]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def say(line: str) -> None:
            if sys.stdout.isatty():
                progress.console.print(line, markup=False, highlight=False)
            else:
                sys.stdout.write(line + "\n")

        yield say, lambda done, total: progress.update(task, completed=done, total=total)
