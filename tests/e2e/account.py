"""Runs scenarios in an AWS account, deployed by the CDK's command line, with CloudWatch metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from tests.e2e.cloud import JOB_OUTPUTS, DeployFailed, Take, Usage, outputs, resources
from tests.e2e.usage import usage_since
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock, SystemClock
from tidewheel.model.received import ReceivedMessage

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = (sys.executable, "-m", "infra.deploy")
METRICS_DELAY_S = 180
"""CloudWatch shows the metrics of Lambda, SQS and DynamoDB after two or three minutes."""
_POLL_S = 10
_SIGNAL_WAIT_S = 20
_MAPPING_WAIT_S = 200
_JOB_RUNS = ("STARTING", "RUNNING", "STOPPING", "WAITING")


class JobFailed(Exception):
    """The run of a Glue job failed. The logs are in CloudWatch under /aws-glue/<stack>-<job>."""


class _PatientClient(Tidewheel):
    """A client with long polls, since a short poll asks only some of SQS's servers and may miss messages."""

    def receive(
        self, topic: str, subscription: str, *, max_messages: int = 10, wait_s: int = _POLL_S
    ) -> list[ReceivedMessage]:
        return super().receive(topic, subscription, max_messages=max_messages, wait_s=wait_s)


class AccountCloud:
    """The port `Cloud` on an AWS account."""

    def __init__(self, stack_name: str, environment: str, session: boto3.Session) -> None:
        self.stack_name = stack_name
        self.session = session
        self.clock: Clock = SystemClock()
        self._environment = environment
        self._began_ms = self.clock.now_ms()
        self._dpu_seconds = 0.0
        self._deaf = threading.Event()
        self._threads: list[threading.Thread] = []

    def deploy(self) -> None:
        """Runs the command of `make deploy` in a separate process group, so that Ctrl-C reaches only this program."""
        with tempfile.TemporaryDirectory() as folder:
            self._run(deploy_command(self.stack_name, self._environment, folder))
        missing = {"TableName", "S3BucketName", *JOB_OUTPUTS.values()} - outputs(self.session, self.stack_name).keys()
        if missing:
            raise DeployFailed(f"the stack has no outputs {', '.join(sorted(missing))}")

    def _run(self, command: list[str]) -> None:
        print(" ".join(command), flush=True)
        profile, region = self.session.profile_name, self.session.region_name or ""
        variables = os.environ | {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
        variables |= {"AWS_PROFILE": profile} if profile and profile != "default" else {}
        process = subprocess.Popen(command, cwd=ROOT, env=variables, start_new_session=True)
        try:
            code = process.wait()
        except BaseException:  # CloudFormation goes on by itself; the removal deletes what it has made
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(_SIGNAL_WAIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise
        if code:
            raise DeployFailed(f"the deployment ended with {code}; its output above says why")

    def client(self) -> Tidewheel:
        """Returns a client of the stack."""
        return _PatientClient(self.stack_name, session=self.session)

    def listen(self, url: str, take: Take) -> None:
        """Polls on a thread. Clients of boto3 serve all threads."""
        deaf = self._deaf

        def poll() -> None:
            while not deaf.is_set():
                if not take(_POLL_S):
                    deaf.wait(1)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        self._threads.append(thread)

    def deafen(self) -> None:
        """Ends the threads, after their polls under way."""
        self._deaf.set()
        for thread in self._threads:
            thread.join(_POLL_S + _SIGNAL_WAIT_S)
        self._threads.clear()
        self._deaf = threading.Event()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(max(0.0, seconds))

    @contextmanager
    def hastened_bulk(self) -> Iterator[None]:
        """Shortens the only long batch window of the stack. The end of the block restores the window."""
        lambda_ = self.session.client("lambda")
        uuids = [uuid for _, uuid in resources(self.session, self.stack_name)["AWS::Lambda::EventSourceMapping"]]
        windows = {
            uuid: lambda_.get_event_source_mapping(UUID=uuid).get("MaximumBatchingWindowInSeconds", 0) for uuid in uuids
        }
        [(bulk, window_s)] = [(uuid, window_s) for uuid, window_s in windows.items() if window_s > 1]
        try:
            self._set_window(bulk, 1)
            yield
        finally:
            self._set_window(bulk, window_s)

    def _set_window(self, uuid: str, window_s: int) -> None:
        lambda_ = self.session.client("lambda")
        lambda_.update_event_source_mapping(UUID=uuid, MaximumBatchingWindowInSeconds=window_s)
        for _ in range(0, _MAPPING_WAIT_S, _POLL_S):
            if lambda_.get_event_source_mapping(UUID=uuid)["State"] == "Enabled":
                return
            time.sleep(_POLL_S)
        raise TimeoutError(f"the event source {uuid} was not changed within {_MAPPING_WAIT_S} s")

    @contextmanager
    def throttled(self, function: str) -> Iterator[None]:
        """Sets the function's reserved concurrency to zero, which turns the function off."""
        lambda_, name = self.session.client("lambda"), f"{self.stack_name}-{function}"
        lambda_.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
        try:
            yield
        finally:
            lambda_.delete_function_concurrency(FunctionName=name)

    def file(self, name: str, text: str) -> str:
        """Puts an object at a path readable by the import job."""
        bucket = outputs(self.session, self.stack_name)["S3BucketName"]
        self.session.client("s3").put_object(Bucket=bucket, Key=f"imports/{name}", Body=text.encode())
        return f"s3://{bucket}/imports/{name}"

    def run_job(self, job: str, **arguments: str) -> None:
        """Starts the job on Glue and waits for the end."""
        glue = self.session.client("glue")
        name = outputs(self.session, self.stack_name)[JOB_OUTPUTS[job]]
        given = {f"--{option.replace('_', '-')}": value for option, value in arguments.items()}
        run_id = glue.start_job_run(JobName=name, Arguments=given)["JobRunId"]
        while (run := glue.get_job_run(JobName=name, RunId=run_id)["JobRun"])["JobRunState"] in _JOB_RUNS:
            time.sleep(_POLL_S)
        self._dpu_seconds += run.get("ExecutionTime", 0) * run.get("MaxCapacity", run.get("NumberOfWorkers", 0))
        if run["JobRunState"] != "SUCCEEDED":
            why = run.get("ErrorMessage", "no message")
            raise JobFailed(f"run {run_id} of {name} is {run['JobRunState']}: {why}")

    def usage(self) -> Usage:
        """Waits for CloudWatch's metrics, and returns the usage."""
        print(f"waiting {METRICS_DELAY_S} s for the metrics of CloudWatch", flush=True)
        time.sleep(METRICS_DELAY_S)
        now_ms = self.clock.now_ms()
        return usage_since(self.session, self.stack_name, self._began_ms, now_ms, self._dpu_seconds / 3600)

    def close(self) -> None:
        """Ends the threads."""
        self.deafen()


def deploy_command(stack_name: str, environment: str, folder: str) -> list[str]:
    """Returns the command of `make deploy` without make, with a separate folder for the cloud assembly."""
    place = ["--environment", environment, "--stack", stack_name, "--yes"]
    return [*DEPLOY, "deploy", *place, "--output", folder, "--progress", "events"]
