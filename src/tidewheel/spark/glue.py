"""Runs a job on AWS Glue. An import there reads foreign files in child processes of the workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

import boto3
from pyspark.sql import SparkSession

from tidewheel.clock import SystemClock
from tidewheel.errors import NotAllImported
from tidewheel.jobs.importing.driver import import_messages
from tidewheel.jobs.importing.work import Imported
from tidewheel.jobs.job import Job, make_job, parse_arguments, structured
from tidewheel.spark.import_files import stage_on_spark
from tidewheel.spark.ledger_scan import scan_on_spark
from tidewheel.spark.tasks import OnSpark


def on_glue(main: Callable[[Job], object], argv: Sequence[str] = sys.argv) -> None:
    """Runs a job on Glue."""
    arguments = parse_arguments(argv[1:])
    # Glue's own environment may name no Region.
    session = boto3.Session(region_name=arguments.get("stack-region"))
    job = make_job(arguments, session=session, clock=SystemClock())
    title = f"{arguments.get('JOB_NAME', 'tidewheel')} {arguments.get('topic', '')}".strip()
    spark = OnSpark(SparkSession.builder.getOrCreate, title)
    job = replace(job, spark=spark, scan_on_spark=partial(scan_on_spark, spark.session))
    say = structured(arguments)
    main(replace(job, cores=os.cpu_count() or 1, say=say, advance=_each_minute(say)))


def _each_minute(say: Callable[[str], None]) -> Callable[[float, float], None]:
    """Returns a function that logs how many bytes of how many are done, at most once a minute."""
    told_s = monotonic()

    def advance(done: float, total: float) -> None:
        nonlocal told_s
        if monotonic() >= told_s + 60:
            told_s = monotonic()
            say(f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB are done, {100 * done / max(1, total):.0f} %")

    return advance


def import_on_spark(job: Job) -> Imported:
    """Imports files, and fails at the end if some were not imported, so that the job's run fails.

    Raises:
        NotAllImported: some files were not imported.
    """
    report = import_messages(job, stage_on_spark)
    if report.failed:
        raise NotAllImported(report)
    return report
