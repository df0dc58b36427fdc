"""The caller's AWS account: the CDK's command line deploys, threads listen, CloudWatch counts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3

from smoke.cloud import DeployFailed, JobFailed, Take, Usage, outputs, resources
from smoke.usage import usage_since
from tidewheel.clock import Clock, SystemClock
from tidewheel.sdk.client import Tidewheel

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = "smoke"
"""The environment that leaves nothing behind when its stack is deleted, and has alarms."""
METRICS_DELAY_S = 180
"""CloudWatch shows Lambda's, SQS's and DynamoDB's metrics after two or three minutes."""
_WAIT_S = 10
_PAUSE_S = 1.0
_JOB_POLL_S = 15
_JOB_ENDS_WELL = "SUCCEEDED"
_JOB_RUNS = ("STARTING", "RUNNING", "STOPPING", "WAITING")
_MAPPING_POLLS, _MAPPING_POLL_S = 40, 5
_SIGNAL_WAIT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and where."""

    account: str
    region: str
    arn: str


class AwsCloud:
    """The port `Cloud` on an AWS account."""

    def __init__(self, stack_name: str, session: boto3.Session, say: Callable[[str], None]) -> None:
        self.stack_name = stack_name
        self.session = session
        self.clock: Clock = SystemClock()
        self.has_alarms = True
        self._say = say
        self._deaf = threading.Event()
        self._threads: list[threading.Thread] = []

    def caller(self) -> Caller:
        """Returns the account that would pay."""
        identity = self.session.client("sts").get_caller_identity()
        region = self.session.region_name or ""
        return Caller(account=identity["Account"], region=region, arn=identity["Arn"])

    def deploy(self) -> None:
        """Runs `cdk deploy` in a process group of its own, so that Ctrl-C reaches this program alone."""
        npx = shutil.which("npx")
        if npx is None:
            raise DeployFailed("there is no npx: install Node, which the CDK's command line runs on")
        with tempfile.TemporaryDirectory() as folder:
            self._run([npx, *deploy_command(self.stack_name, folder, self.session.profile_name)])
        found = outputs(self.session, self.stack_name)
        missing = {"TableName", "S3BucketName", "SettingsParameter", "RebuildJob"} - found.keys()
        if missing:
            raise DeployFailed(f"the stack has no outputs {', '.join(sorted(missing))}")

    def _run(self, command: list[str]) -> None:
        self._say(" ".join(command))
        credentials = {
            "AWS_REGION": self.session.region_name or "",
            "AWS_DEFAULT_REGION": self.session.region_name or "",
        }
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | credentials, start_new_session=True)
        try:
            code = process.wait()
        except BaseException:  # CloudFormation goes on by itself; removal deletes what it has made
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(_SIGNAL_WAIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise
        if code:
            raise DeployFailed(
                f"cdk deploy ended with {code}; is this account and Region bootstrapped? See docs/deploy.md"
            )

    def client(self) -> Tidewheel:
        """Returns a client of the stack."""
        return Tidewheel(self.stack_name, session=self.session)

    def listen(self, take: Take) -> None:
        """Polls on a thread; boto3's clients serve all threads."""

        def poll() -> None:
            while not self._deaf.is_set():
                if not take(_WAIT_S):
                    self._deaf.wait(_PAUSE_S)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        self._threads.append(thread)

    def deafen(self) -> None:
        """Ends the threads, after their polls under way."""
        self._deaf.set()
        for thread in self._threads:
            thread.join(_WAIT_S + _SIGNAL_WAIT_S)
        self._threads.clear()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(max(0.0, seconds))

    def hasten_bulk(self) -> None:
        """Shortens the batch window of the bulk queue's event source; it is the stack's only long one."""
        lambda_ = self.session.client("lambda")
        for _, uuid in resources(self.session, self.stack_name).get("AWS::Lambda::EventSourceMapping", []):
            if lambda_.get_event_source_mapping(UUID=uuid).get("MaximumBatchingWindowInSeconds", 0) > 1:
                lambda_.update_event_source_mapping(UUID=uuid, MaximumBatchingWindowInSeconds=1)
                self._await_mapping(uuid)

    def _await_mapping(self, uuid: str) -> None:
        lambda_ = self.session.client("lambda")
        for _ in range(_MAPPING_POLLS):
            if lambda_.get_event_source_mapping(UUID=uuid)["State"] == "Enabled":
                return
            time.sleep(_MAPPING_POLL_S)
        raise DeployFailed(f"the event source {uuid} was not changed within {_MAPPING_POLLS * _MAPPING_POLL_S} s")

    def rebuild_on_glue(self, topic: str, *, dry_run: bool) -> None:
        """Starts the stack's rebuild job and waits for it."""
        glue = self.session.client("glue")
        name = outputs(self.session, self.stack_name)["RebuildJob"]
        mode = "--dry-run" if dry_run else "--replace"
        run = glue.start_job_run(JobName=name, Arguments={"--topic": topic, mode: "true"})["JobRunId"]
        while True:
            found = glue.get_job_run(JobName=name, RunId=run)["JobRun"]
            state = found["JobRunState"]
            if state == _JOB_ENDS_WELL:
                return
            if state not in _JOB_RUNS:
                raise JobFailed(f"run {run} of {name} is {state}: {found.get('ErrorMessage', 'no message')}")
            time.sleep(_JOB_POLL_S)

    def usage(self, since_ms: int) -> Usage:
        """Waits until CloudWatch knows, and asks it."""
        self._say(f"waiting {METRICS_DELAY_S} s for CloudWatch's metrics")
        time.sleep(METRICS_DELAY_S)
        return usage_since(self.session, self.stack_name, since_ms, self.clock.now_ms())

    def close(self) -> None:
        """Ends the threads."""
        self.deafen()


def deploy_command(stack_name: str, folder: str, profile: str | None) -> list[str]:
    """Returns the arguments of npx; the cloud assembly goes to a folder of its own."""
    command = ["--yes", "aws-cdk", "deploy", stack_name, "--app", f"{sys.executable} app.py"]
    command += ["--context", f"stack={stack_name}", "--context", f"environment={ENVIRONMENT}"]
    command += ["--require-approval", "never", "--output", folder, "--progress", "events"]
    return command + (["--profile", profile] if profile and profile != "default" else [])
