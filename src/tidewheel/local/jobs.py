"""The Glue jobs of a stack, run on Spark on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from tidewheel.clock import Clock
from tidewheel.local.emulator.starts import JobStart

JOB_ARGUMENT = "--tidewheel-job"
"""The default argument by which a job names its script; `tidewheel/cdk/spark_jobs.py` sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as the template describes it, all references resolved.

    Attributes:
        job_name: Glue's name of it.
        script: the stem of its file in glue_jobs: what people call the job.
        arguments: default arguments of a run.
        role_arn: the role with which it runs.
    """

    job_name: str
    script: str
    arguments: dict[str, str]
    role_arn: str | None = None


class JobRunner(Protocol):
    """Runs the script of a job, as Glue would."""

    def __call__(
        self, job: str, arguments: dict[str, str], *, stack_name: str, endpoint_url: str, clock: Clock
    ) -> object:
        """Runs a job to its end and returns what it returns.

        Args:
            job: the stem of its file in glue_jobs, such as merge_buckets.
            arguments: the job's default arguments, and those of the run over them; names begin with `--`.
            stack_name: the stack, by which the settings are found.
            endpoint_url: where AWS is.
            clock: the stack's time.

        Raises:
            Exception: the run failed.
        """
        ...


def run_on_spark(job: str, arguments: dict[str, str], *, stack_name: str, endpoint_url: str, clock: Clock) -> Any:
    """Runs a job on local Spark: the default `JobRunner`.

    Raises:
        ExtraMissing: pyspark is not installed.
        JavaMissing: there is no Java that Spark runs on.
    """
    from tidewheel.spark.local_jobs import run_job

    return run_job(job, arguments, stack_name=stack_name, endpoint_url=endpoint_url, clock=clock)


class Jobs:
    """The jobs of one stack.

    Args:
        specs: the jobs.
        runner: what runs their scripts.
        stack_name: the stack's name.
        endpoint_of: returns where a job with this role finds AWS; called at a run, since it starts a server.
        clock: the stack's clock.
    """

    def __init__(
        self,
        specs: Iterable[JobSpec],
        runner: JobRunner,
        *,
        stack_name: str,
        endpoint_of: Callable[[str | None], str],
        clock: Clock,
    ) -> None:
        self._specs = {spec.job_name: spec for spec in specs}
        self._runner = runner
        self._stack_name = stack_name
        self._endpoint_of = endpoint_of
        self._clock = clock

    def script(self, start: JobStart) -> str:
        """Returns what people call the job."""
        return self._specs[start.job_name].script

    def run(self, start: JobStart) -> None:
        """Runs a job to its end.

        Raises:
            Exception: whatever the run raised.
        """
        spec = self._specs[start.job_name]
        self._run(spec.script, {**spec.arguments, **start.arguments}, spec.role_arn)

    def run_by_hand(self, script: str, arguments: dict[str, str]) -> Any:
        """Runs a script with these arguments, and with the role of its job; returns what it returns.

        Raises:
            Exception: whatever the run raised.
        """
        roles = [spec.role_arn for spec in self._specs.values() if spec.script == script]
        return self._run(script, arguments, roles[0] if roles else None)

    def _run(self, script: str, arguments: dict[str, str], role_arn: str | None) -> Any:
        return self._runner(
            script,
            arguments,
            stack_name=self._stack_name,
            endpoint_url=self._endpoint_of(role_arn),
            clock=self._clock,
        )
