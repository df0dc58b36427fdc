"""Runs the Glue jobs on this machine, in this process or on local Spark.

The scripts are the same as on Glue. AWS is emulated, or a deployed stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import boto3

from tidewheel.clock import Clock
from tidewheel.jobs.job import Job, make_job
from tidewheel.jobs.location import local_access
from tidewheel.local.module_files import module_at
from tidewheel.shipped import GLUE_JOBS, shipped


def run_job(
    script: str,
    arguments: Mapping[str, str],
    *,
    stack_name: str,
    clock: Clock,
    endpoint_url: str | None = None,
    session: boto3.Session | None = None,
    cores: int = 1,
    spark: bool = False,
    say: Callable[[str], None] = lambda _: None,
    advance: Callable[[float, float], None] = lambda _done, _total: None,
) -> Any:
    """Runs a job to the end. Returns the job's result.

    Args:
        script: the stem of its file in glue_jobs.
        arguments: by name, with the dashes or without.
        stack_name: the stack with the settings.
        clock: the stack's time.
        endpoint_url: where AWS is; None: AWS itself.
        session: for credentials; by default boto3's, or made-up credentials for an endpoint on this machine.
        cores: tasks side by side.
        spark: run large work on local Spark.
        say: shows a line.
        advance: reports progress, as the finished and the total amount.

    Raises:
        ExtraMissing: `spark` is given, and pyspark is not installed.
        JavaMissing: `spark` is given, the work is large, and there is no Java.
    """
    named = {name.removeprefix("--"): value for name, value in arguments.items()} | {"stack": stack_name}
    job = make_job(named, session=session or _session(endpoint_url), clock=clock, endpoint_url=endpoint_url)
    job = replace(_with_spark(job, cores) if spark else job, cores=cores, say=say, advance=advance)
    if job.service.settings.merge_job is None:
        say(f"stack {stack_name}: it has no Spark jobs on AWS; this machine does all the work")
    return module_at(shipped(GLUE_JOBS) / f"{script}.py", f"_tidewheel_job_{script}").main(job)


def _with_spark(job: Job, cores: int) -> Job:
    from tidewheel.spark.ledger_scan import scan_on_spark
    from tidewheel.spark.session import local_session
    from tidewheel.spark.tasks import OnSpark

    spark = OnSpark(partial(local_session, cores))
    return replace(job, spark=spark, scan_on_spark=partial(scan_on_spark, spark.session))


def _session(endpoint_url: str | None) -> boto3.Session:
    access = local_access(endpoint_url)
    if access is None:
        return boto3.Session()
    return boto3.Session(aws_access_key_id=access, aws_secret_access_key=access, region_name="us-east-1")
