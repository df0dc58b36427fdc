"""What is only done in an account: the CDK's command line, threads, event sources, Glue, CloudWatch."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from smoke import aws_cloud
from smoke.aws_cloud import AwsCloud, deploy_command
from smoke.cloud import DeployFailed, JobFailed
from smoke.usage import usage_since

STACK = "tidewheel-smoke-test"
ARN = "arn:aws:iam::123456789012:user/me"
URGENT, BULK = "14e0db71-5d35-4eb5-b481-8945cf9d10c1", "14e0db71-5d35-4eb5-b481-8945cf9d10c2"
OUTPUTS = ("TableName", "S3BucketName", "SettingsParameter", "RebuildJob")


class Stubbed(boto3.Session):
    """A session whose clients answer what a test says, and check requests against AWS's service models."""

    def __init__(self) -> None:
        super().__init__(aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1")
        self.stubs: dict[str, Stubber] = {}
        self._clients: dict[str, Any] = {}

    def client(self, service: str, *_: Any, **__: Any) -> Any:
        if service not in self._clients:
            self._clients[service] = super().client(service)
            self.stubs[service] = Stubber(self._clients[service])
        return self._clients[service]

    def answers(self, service: str, operation: str, answer: dict[str, Any], expected: Any = None) -> None:
        self.client(service)
        self.stubs[service].add_response(operation, answer, expected)
        self.stubs[service].activate()

    def has(self, *resources: tuple[str, str]) -> None:
        """The next list of the stack's resources has these, by type and name."""
        found = [
            {
                "LogicalResourceId": f"Logical{i}",
                "PhysicalResourceId": name,
                "ResourceType": kind,
                "LastUpdatedTimestamp": "2026-01-01T00:00:00Z",
                "ResourceStatus": "CREATE_COMPLETE",
            }
            for i, (kind, name) in enumerate(resources)
        ]
        self.answers("cloudformation", "list_stack_resources", {"StackResourceSummaries": found})

    def has_outputs(self, *names: str) -> None:
        stack = {
            "StackName": STACK,
            "CreationTime": "2026-01-01T00:00:00Z",
            "StackStatus": "CREATE_COMPLETE",
            "Outputs": [{"OutputKey": name, "OutputValue": f"{name}-value"} for name in names],
        }
        self.answers("cloudformation", "describe_stacks", {"Stacks": [stack]})


@pytest.fixture
def session() -> Iterator[Stubbed]:
    session = Stubbed()
    yield session
    for stub in session.stubs.values():
        stub.assert_no_pending_responses()


@pytest.fixture
def cloud(session: Stubbed, monkeypatch: pytest.MonkeyPatch) -> AwsCloud:
    monkeypatch.setattr(aws_cloud.time, "sleep", lambda _s: None)
    return AwsCloud(STACK, session, print)


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a script in the place of npx; its arguments and Region are in the file that is returned."""

    def install(script: str) -> Path:
        said, path = tmp_path / "said", tmp_path / "npx"
        path.write_text(f'#!/bin/sh\necho "$@ region=$AWS_REGION" > {said}\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return said

    return install


def test_the_stack_is_deployed_by_the_cdks_command_line(
    cloud: AwsCloud, session: Stubbed, npx: Callable[[str], Path]
) -> None:
    said = npx("exit 0")
    session.has_outputs(*OUTPUTS)
    cloud.deploy()
    text = said.read_text()
    assert f"aws-cdk deploy {STACK}" in text and f"--context stack={STACK}" in text
    assert "--context environment=smoke" in text and "--require-approval never" in text
    assert "region=eu-west-1" in text


def test_a_deployment_that_fails_is_told(cloud: AwsCloud, npx: Callable[[str], Path]) -> None:
    npx("exit 3")
    with pytest.raises(DeployFailed, match="cdk deploy ended with 3"):
        cloud.deploy()


def test_a_stack_without_its_outputs_is_not_deployed(
    cloud: AwsCloud, session: Stubbed, npx: Callable[[str], Path]
) -> None:
    npx("exit 0")
    session.has_outputs("TableName")
    with pytest.raises(DeployFailed, match="no outputs RebuildJob, S3BucketName, SettingsParameter"):
        cloud.deploy()


def test_without_npx_the_error_says_what_to_install(cloud: AwsCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DeployFailed, match="install Node"):
        cloud.deploy()


def test_an_interrupt_ends_the_command_line_too(
    cloud: AwsCloud, npx: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npx(f"trap 'echo ended > {tmp_path / 'ended'}; exit 1' INT; while :; do sleep 0.05; done")
    wait = aws_cloud.subprocess.Popen.wait
    waits: list[Any] = []

    def interrupted(process: Any, timeout: float | None = None) -> int:
        waits.append(timeout)
        if len(waits) > 1:
            return int(wait(process, timeout))
        with pytest.raises(aws_cloud.subprocess.TimeoutExpired):
            wait(process, 1.0)  # until the script has set its trap
        raise KeyboardInterrupt

    monkeypatch.setattr(aws_cloud.subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cloud.deploy()
    assert (tmp_path / "ended").exists()


def test_a_profile_is_passed_on() -> None:
    assert deploy_command(STACK, "out", "mine")[-2:] == ["--profile", "mine"]
    assert "--profile" not in deploy_command(STACK, "out", "default")


def test_listeners_poll_on_threads_until_nobody_listens(session: Stubbed) -> None:
    cloud, polled, waits = AwsCloud(STACK, session, print), threading.Semaphore(0), set[int]()

    def take(wait_s: int) -> bool:
        waits.add(wait_s)
        polled.release()
        return True

    cloud.listen(take)
    assert polled.acquire(timeout=10) and polled.acquire(timeout=10)
    cloud.deafen()
    assert waits == {10} and not any(thread.is_alive() for thread in cloud._threads)


def test_a_listener_that_fails_goes_on(session: Stubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws_cloud, "_PAUSE_S", 0.0)
    cloud, polled = AwsCloud(STACK, session, print), threading.Semaphore(0)

    def take(_wait_s: int) -> bool:
        polled.release()
        return False

    cloud.listen(take)
    assert all(polled.acquire(timeout=10) for _ in range(3))
    cloud.deafen()


def test_only_the_bulk_queues_window_is_shortened_and_waited_for(cloud: AwsCloud, session: Stubbed) -> None:
    session.has(("AWS::Lambda::EventSourceMapping", URGENT), ("AWS::Lambda::EventSourceMapping", BULK))
    session.answers("lambda", "get_event_source_mapping", {"State": "Enabled"}, {"UUID": URGENT})
    bulk = {"State": "Enabled", "MaximumBatchingWindowInSeconds": 300}
    session.answers("lambda", "get_event_source_mapping", bulk, {"UUID": BULK})
    shortened = {"UUID": BULK, "MaximumBatchingWindowInSeconds": 1}
    session.answers("lambda", "update_event_source_mapping", {"State": "Updating"}, shortened)
    for state in ("Updating", "Enabled"):
        session.answers("lambda", "get_event_source_mapping", {"State": state}, {"UUID": BULK})
    cloud.hasten_bulk()


@pytest.mark.parametrize(("dry_run", "mode"), [(True, "--dry-run"), (False, "--replace")])
def test_the_rebuild_job_is_started_and_waited_for(cloud: AwsCloud, session: Stubbed, dry_run: bool, mode: str) -> None:
    _start(session, mode)
    for state in ("STARTING", "RUNNING", "SUCCEEDED"):
        session.answers("glue", "get_job_run", {"JobRun": {"JobRunState": state}})
    cloud.rebuild_on_glue("rebuilt", dry_run=dry_run)


def test_a_run_that_fails_is_told_with_its_reason(cloud: AwsCloud, session: Stubbed) -> None:
    _start(session, "--replace")
    run = {"JobRunState": "FAILED", "ErrorMessage": "no such topic"}
    session.answers("glue", "get_job_run", {"JobRun": run})
    with pytest.raises(JobFailed, match="run-1 of RebuildJob-value is FAILED: no such topic"):
        cloud.rebuild_on_glue("rebuilt", dry_run=False)


def _start(session: Stubbed, mode: str) -> None:
    session.has_outputs("RebuildJob")
    started = {"JobName": "RebuildJob-value", "Arguments": {"--topic": "rebuilt", mode: "true"}}
    session.answers("glue", "start_job_run", {"JobRunId": "run-1"}, started)


def test_usage_is_what_cloudwatch_counted(session: Stubbed) -> None:
    session.has(
        ("AWS::Lambda::Function", f"{STACK}-ingest"),
        ("AWS::SQS::Queue", f"https://sqs.eu-west-1.amazonaws.com/123456789012/{STACK}-work"),
        ("AWS::DynamoDB::Table", f"{STACK}-table"),
    )
    sums = [[40, 2], [1], [3], [20_000], [90], [110], [70], [50]]  # in the order in which they are asked for
    results = [{"Id": f"m{i}", "Values": values} for i, values in enumerate(sums)]
    asked = {"MetricDataQueries": ANY, "StartTime": ANY, "EndTime": ANY}
    session.answers("cloudwatch", "get_metric_data", {"MetricDataResults": results}, asked)
    session.answers("lambda", "get_function_configuration", {"MemorySize": 512}, {"FunctionName": f"{STACK}-ingest"})
    usage = usage_since(session, STACK, 1_800_000_000_000, 1_800_001_200_000)
    assert usage.invocations == {"ingest": 42} and usage.errors == {"ingest": 1} and usage.throttles == {"ingest": 3}
    assert usage.gb_seconds == 0.5 * 20
    assert usage.units == {
        "lambda.invocation": 42,
        "dynamodb.read": 70,
        "dynamodb.write": 50,
        "sqs.request": 200 * 1.5,
    }
    assert usage.unknown


def test_the_caller_is_named(cloud: AwsCloud, session: Stubbed) -> None:
    session.answers("sts", "get_caller_identity", {"Account": "123456789012", "Arn": ARN, "UserId": "me"})
    caller = cloud.caller()
    assert (caller.account, caller.region, caller.arn) == ("123456789012", "eu-west-1", ARN)
