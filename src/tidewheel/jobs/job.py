"""Gives every job its arguments, the service's ports and the machines for its tasks.

A script in `glue_jobs/` is the entry point of its job, on Glue and on this machine: `main(job)` does the work,
`spark.glue.on_glue` makes the job from Glue's command line, `local.job_runs` makes it from an emulated AWS or a
deployed stack.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import boto3

from tidewheel.aws.service import Service
from tidewheel.aws.tries import JOB
from tidewheel.client.connection import Connection
from tidewheel.clock import Clock
from tidewheel.errors import InvalidValue
from tidewheel.flows.ports import Tasks
from tidewheel.flows.recovery.scan import LedgerScan, ScanRange
from tidewheel.jobs.location import Location
from tidewheel.jobs.tasks import InThreads
from tidewheel.storage.objects import StoredObject

MAX_JOB_S = 7_200
"""Time-out of every job in the stack."""
SMALL_BYTES = 1_000_000_000
"""Raw bytes of a merge, or bytes of a rebuild's ledgers, up to which one machine does the work without Spark. The
argument `spark-above-mb` has precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Holds the inputs of one job run.

    Attributes:
        arguments: by name, without the dashes.
        service: the ports that the driver uses.
        location: the S3 bucket, for tasks.
        cores: tasks that this process runs side by side, each in a thread.
        spark: runs large work on Spark, which starts with the first task; None: this process does all work.
        scan_on_spark: reads the ledgers of a large rebuild on the same Spark.
        say: shows a line to the user.
        advance: reports progress, as the finished and the total amount.
    """

    arguments: Mapping[str, str]
    service: Service
    location: Location
    cores: int = 1
    spark: Tasks | None = None
    scan_on_spark: Callable[[Job, Sequence[StoredObject], ScanRange], LedgerScan] | None = None
    say: Callable[[str], None] = print
    advance: Callable[[float, float], None] = field(default=lambda _done, _total: None)

    def tasks(self, raw_bytes: int) -> Tasks:
        """Returns the engine of tasks that read so many raw bytes together: Spark, if given, above `spark-above-mb`.

        Raises:
            InvalidValue: the argument `spark-above-mb` is not a number.
        """
        return self.spark if self.spark is not None and self.is_for_spark(raw_bytes) else InThreads(self.cores)

    def is_for_spark(self, size_bytes: int) -> bool:
        """Returns whether Spark is given, and the work is above `spark-above-mb`.

        Raises:
            InvalidValue: the argument `spark-above-mb` is not a number.
        """
        given = self.arguments.get("spark-above-mb", str(SMALL_BYTES // 1_000_000))
        if not given.isdecimal():
            raise InvalidValue("--spark-above-mb", given, "give a whole number of megabytes")
        if self.spark is None or size_bytes <= int(given) * 1_000_000:
            return False
        self.say(f"about {size_bytes / 1e6:,.0f} MB: on Spark's workers")
        return True

    def required(self, name: str) -> str:
        """Returns a required argument.

        Raises:
            InvalidValue: the argument is missing.
        """
        value = self.arguments.get(name)
        if not value:
            raise InvalidValue(f"--{name}", None, "this job needs it")
        return value

    def flag(self, name: str) -> bool:
        """Returns whether a switch is on, given as `--name true`.

        Raises:
            InvalidValue: the value is neither true nor false.
        """
        value = self.arguments.get(name, "false")
        if value not in ("true", "false"):
            raise InvalidValue(f"--{name}", value, "give true or false")
        return value == "true"


def structured(arguments: Mapping[str, str]) -> Callable[[str], None]:
    """Returns a logger of JSON lines with the same keys as the functions' logs.

    Glue has no Powertools.

    Args:
        arguments: the job's arguments, with the job's name and the run's id from Glue.
    """
    names = {"service": "JOB_NAME", "stack": "stack", "topic": "topic", "correlation_id": "JOB_RUN_ID"}
    keys = {key: arguments[name] for key, name in names.items() if name in arguments}

    def say(line: str) -> None:
        print(json.dumps({"level": "INFO", "message": line, **keys}), flush=True)

    return say


def make_job(
    arguments: Mapping[str, str], *, session: boto3.Session, clock: Clock, endpoint_url: str | None = None
) -> Job:
    """Makes a job for the stack named by the argument `stack`. See `Job` for the arguments.

    Raises:
        NotConfigured: there is no such stack.
    """
    stack = arguments.get("stack") or "tidewheel"
    connection = Connection(stack, session=session, settings=None, endpoint_url=endpoint_url)
    settings = connection.settings
    return Job(
        arguments=arguments,
        service=Service.of(settings, session, clock, endpoint_url=endpoint_url, tries=JOB),
        location=Location(
            root=f"s3://{settings.s3_bucket}",
            endpoint_url=endpoint_url,
            table=settings.table,
            region=session.region_name or "us-east-1",
            # boto3 says "default" if no profile is named. If "default" is named explicitly, the profile must exist.
            profile=None if session.profile_name == "default" else session.profile_name,
        ),
    )


def parse_arguments(argv: Sequence[str]) -> dict[str, str]:
    """Reads `--name value` pairs, as Glue passes them. Ignores everything else."""
    given = (pair for pair in pairwise(argv) if pair[0].startswith("--") and not pair[1].startswith("--"))
    return {name.removeprefix("--"): value for name, value in given}
