"""Defines the commands `tidewheel merge`, `rebuild` and `import`, which run the Glue jobs on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from threading import Timer
from typing import Annotated, Any, NoReturn

import typer

from tidewheel import clock as clocks
from tidewheel.cli.administration import AsJson, TopicName
from tidewheel.cli.output import print_error, print_json, progress_bar
from tidewheel.cli.target import target
from tidewheel.errors import InvalidValue

END_S = 10
"""How long a job may go on after Ctrl-C, until its running tasks have ended and its leases are given back."""
SCHEDULES = "eventbridge-schedules"
_ENDS = (signal.SIGINT, signal.SIGTERM)
Cores = Annotated[int | None, typer.Option(min=1, help="Parallel tasks. The default is one for each processor.")]
Spark = Annotated[bool, typer.Option("--spark", help="Use local Spark for large work. It needs the extra spark.")]


def merge(
    ctx: typer.Context,
    topics: Annotated[list[str] | None, typer.Argument(help="The names of topics.")] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Merge all topics of the stack.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Merge all small ledgers, even if a topic has only a few.")
    ] = False,
    cores: Cores = None,
    spark: Spark = False,
    as_json: AsJson = False,
) -> None:
    """Merge many small ledgers of a topic into few.

    Ledgers are the S3 objects that hold waiting messages. The service merges them by itself above max_buckets.
    """
    if bool(topics) == all_topics:
        raise typer.BadParameter("give the names of topics, or --all-topics")
    arguments = {"topic": ",".join(topics or ()), "all": everything}
    if _run(ctx, "merge_buckets", arguments, cores, as_json, spark=spark) is None:
        raise typer.Exit(1)


def rebuild(
    ctx: typer.Context,
    topic: TopicName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing. Show the differences.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Also rebuild a topic whose items exist.")] = False,
    slot_s: Annotated[int | None, typer.Option(help="The topic's slot length, if no checkpoint is left.")] = None,
    cores: Cores = None,
    spark: Spark = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild a topic in the DynamoDB table, after a loss, from its ledgers and its last checkpoint in S3."""
    arguments = {"topic": topic, "dry-run": dry_run, "replace": replace, "slot-s": slot_s}
    _run(ctx, "rebuild_index", arguments, cores, as_json, spark=spark)


def _column(meaning: str) -> Any:
    """Returns an option for the name of an input's column."""
    return typer.Option(metavar="COLUMN", help=meaning)


def import_messages(
    ctx: typer.Context,
    topic: TopicName,
    files: Annotated[
        str, typer.Argument(metavar="FILES", help="A file, a folder or a glob, of Parquet, CSV or JSON lines.")
    ],
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="parquet, csv, json, delta, iceberg or eventbridge-schedules. The default follows from the files' "
            "names.",
        ),
    ] = None,
    deliver_at: Annotated[str | None, _column("The time at which a message is due.")] = None,
    body: Annotated[str | None, _column("The body of a message.")] = None,
    key: Annotated[str | None, _column("The key of a message.")] = None,
    attributes: Annotated[str | None, _column("The attributes of a message, a map of texts.")] = None,
    expires_at: Annotated[str | None, _column("The time at which a message expires.")] = None,
    group: Annotated[str | None, _column("The group of a message.")] = None,
    time_zone: Annotated[str | None, typer.Option(help="Time zone of times without a zone.")] = None,
    csv_escape: Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="What escapes a quote in a CSV value, such as '\\'. By default quotes are doubled.",
        ),
    ] = None,
    csv_quote: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="What stands around a CSV value. The default is '\"'.")
    ] = None,
    rejects: Annotated[str | None, typer.Option(help="Folder for refused rows, with the reasons.")] = None,
    input_role: Annotated[
        str | None, typer.Option(metavar="ARN", help="The role that may read the input in S3.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The import's own name. Another run with the same token adds nothing. The default follows from the "
            "files."
        ),
    ] = None,
    min_lead: Annotated[
        str | None, typer.Option(help="Refuse messages due sooner, such as 30m. The default is 1h.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Of EventBridge's schedules: take only what is due from this time on, ISO 8601."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of EventBridge's schedules: send nothing, print what each becomes.")
    ] = False,
    cores: Cores = None,
    as_json: AsJson = False,
) -> None:
    """Import many messages from files, or schedules of EventBridge Scheduler."""
    run = {"topic": topic, "rejects": rejects, "token": token, "min-lead": min_lead}
    reading = {"input": files, "input-role": input_role, "format": file_format, "time-zone": time_zone}
    reading |= {"csv-escape": csv_escape, "csv-quote": csv_quote}
    columns = {"deliver-at": deliver_at, "body": body, "key": key, "attributes": attributes}
    columns |= {"expires-at": expires_at, "group": group}
    arguments = {**run, **reading, **columns}
    _check_options(file_format, arguments, {"from": since, "dry-run": dry_run or None})
    if file_format == SCHEDULES:
        from tidewheel.cli.schedules import import_schedules

        import_schedules(ctx, topic, files, since, dry_run, as_json)
        return
    report = _run(ctx, "import_messages", arguments, cores, as_json)
    if report.failed or report.all_rejected:
        raise typer.Exit(1)


def _check_options(
    file_format: str | None, arguments: Mapping[str, object], for_schedules: Mapping[str, object]
) -> None:
    """Raises InvalidValue for an option of another format."""
    others, how = (arguments, "leave it out") if file_format == SCHEDULES else (for_schedules, "give it only")
    for name, value in others.items():
        if value is not None and name not in ("topic", "input", "format"):
            raise InvalidValue(f"--{name}", value, f"{how} with --format {SCHEDULES}")


def _run(
    ctx: typer.Context,
    script: str,
    arguments: Mapping[str, object],
    cores: int | None,
    as_json: bool,
    *,
    spark: bool = False,
) -> Any:
    """Runs a job, with a progress bar on standard error. The job's lines, or its result as JSON, are the output."""
    from tidewheel.local.job_runs import run_job

    chosen = target(ctx)
    session = chosen.session()
    given = {name: value for name, value in arguments.items() if value is not None and value is not False}
    texts = {name: "true" if value is True else str(value) for name, value in given.items()}
    before = {number: signal.signal(number, _interrupted) for number in _ENDS}
    try:
        with progress_bar(script.replace("_", " ")) as (say, advance):
            result = run_job(
                script,
                texts,
                stack_name=chosen.stack,
                clock=clocks.of(session),
                endpoint_url=chosen.endpoint_url,
                session=session,
                cores=cores or os.cpu_count() or 1,
                spark=spark,
                say=print_error if as_json else say,
                advance=advance,
            )
        if as_json:
            print_json(result)
        return result
    except KeyboardInterrupt:
        _end()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(_signal: int, _frame: object) -> NoReturn:
    """Lets the job give back its leases, for END_S. A second signal ends the process at once."""
    for number in _ENDS:
        signal.signal(number, lambda *_: _end())
    end = Timer(END_S, _end)
    end.daemon = True
    end.start()
    raise KeyboardInterrupt


def _end() -> NoReturn:
    """Ends this process, and with it the job's children and Java, without Spark's traceback."""
    print_error("interrupted. No message is lost. Run the command again.")
    os._exit(130)
