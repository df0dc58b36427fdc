"""Runs the Glue jobs of a stack on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tidewheel.clock import Clock
from tidewheel.local.emulator.starts import Call

JOB_ARGUMENT = "--tidewheel-job"
"""The default argument with the name of a job's script. `tidewheel/cdk/spark_jobs.py` sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Describes a job in the template, with all references resolved.

    Attributes:
        job_name: the job's name in Glue.
        script: the stem of its file in glue_jobs, which users know as the job's name.
        arguments: default arguments of a run.
        role_arn: the role of the job's runs.
    """

    job_name: str
    script: str
    arguments: dict[str, str]
    role_arn: str | None = None


JobRunner = Callable[..., object]
"""Runs the script of a job to the end, as Glue would, with the arguments of `run_here`. An error fails the run."""


def run_here(job: str, arguments: dict[str, str], *, stack_name: str, endpoint_url: str, clock: Clock) -> Any:
    """Runs a job in this process. This is the default `JobRunner`.

    Args:
        job: the stem of its file in glue_jobs, such as merge_buckets.
        arguments: the job's default arguments, overridden by the run's arguments; names begin with `--`.
        stack_name: the stack with the settings.
        endpoint_url: where AWS is.
        clock: the stack's time.
    """
    from tidewheel.local.job_runs import run_job

    return run_job(job, arguments, stack_name=stack_name, endpoint_url=endpoint_url, clock=clock)


class Jobs:
    """Runs the jobs of a stack.

    Args:
        specs: the jobs.
        runner: runs the jobs' scripts.
        stack_name: the stack's name.
        endpoint_of: returns the endpoint for a job with this role; called at each run, since it starts a server.
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
        self._runner, self._stack_name, self._endpoint_of, self._clock = runner, stack_name, endpoint_of, clock

    def script(self, call: Call) -> str:
        """Returns the script name of a called job, or the job's own name if the stack has no such job."""
        spec = self._specs.get(call.target)
        return call.target if spec is None else spec.script

    def run(self, call: Call) -> None:
        """Runs a job to the end.

        Raises:
            LookupError: the stack has no such job.
            Exception: any error of the run.
        """
        spec = self._specs[call.target]
        self._run(spec.script, {**spec.arguments, **call.event}, spec.role_arn)

    def run_by_hand(self, script: str, arguments: dict[str, str]) -> Any:
        """Runs a script with these arguments and the role of its job. Returns the result.

        Raises:
            Exception: any error of the run.
        """
        roles = [spec.role_arn for spec in self._specs.values() if spec.script == script]
        return self._run(script, arguments, roles[0] if roles else None)

    def _run(self, script: str, arguments: dict[str, str], role_arn: str | None) -> Any:
        return self._runner(
            script, arguments, stack_name=self._stack_name, endpoint_url=self._endpoint_of(role_arn), clock=self._clock
        )
