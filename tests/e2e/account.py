"""Runs scenarios in an AWS account, deployed by the CDK's command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import boto3

from tests.e2e.cloud import DeployFailed, Take
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import Clock, SystemClock
from tidewheel.model.received import ReceivedMessage

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = (sys.executable, "-m", "infra.deploy")
_POLL_S = 10
_SIGNAL_WAIT_S = 20


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
        self._deaf = threading.Event()
        self._threads: list[threading.Thread] = []

    def deploy(self) -> None:
        """Runs the command of `make deploy` in a separate process group, so that Ctrl-C reaches only this program."""
        with tempfile.TemporaryDirectory() as folder:
            self._run(deploy_command(self.stack_name, self._environment, folder))

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

    def close(self) -> None:
        """Ends the threads."""
        self.deafen()


def deploy_command(stack_name: str, environment: str, folder: str) -> list[str]:
    """Returns the command of `make deploy` without make, with a separate folder for the cloud assembly."""
    place = ["--environment", environment, "--stack", stack_name, "--yes"]
    return [*DEPLOY, "deploy", *place, "--output", folder, "--progress", "events"]
