"""The suite asks before changes, removes everything it made, and can fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from moto.server import ThreadedMotoServer

from tests.artifact.oracle import Arrival
from tests.e2e import conftest, removal
from tests.e2e.account import ROOT, AccountCloud, JobFailed
from tests.e2e.cloud import PREFIX
from tests.e2e.removal import Removal, patient, remove
from tests.e2e.stage import Stage, percentile
from tests.e2e.usage import price
from tidewheel.clock import ManualClock
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import MessageId, Receipt

STACK = f"{PREFIX}test"
ACCOUNT = "123456789012"
DUE_MS = 1_800_000_000_000
READER = ("topic", "reader")
OUTPUTS = ("TableName", "S3BucketName", "MergeJob", "RebuildJob", "ImportJob")

DEPLOYING = f"""
import json, os, signal, sys
import boto3

stack = sys.argv[sys.argv.index("--stack") + 1]
outputs = {{name: {{"Value": name}} for name in {OUTPUTS}}}
bucket = {{"Type": "AWS::S3::Bucket", "Properties": {{"BucketName": stack + "-bucket"}}, "DeletionPolicy": "Retain"}}
template = {{"Resources": {{"Bucket": bucket}}, "Outputs": outputs}}
boto3.client("cloudformation").create_stack(StackName=stack, TemplateBody=json.dumps(template))
boto3.client("s3").put_object(Bucket=stack + "-bucket", Key="ledger", Body=b"x")
boto3.client("sqs").create_queue(QueueName=stack + "-topic-reader")
"""
"""Stands for the command that deploys: it makes a small stack, and what clients make beside it."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An account of moto's for other processes."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def aws(endpoint: str, service: Any) -> Any:
    session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1")
    return session.client(service, endpoint_url=endpoint)


def run(endpoint: str, folder: Path, ends: str, plant: str, answer: str) -> subprocess.CompletedProcess[str]:
    """Runs `make aws-smoke` without make, with a replaced deployment command and a plugin for an injected fault."""
    (folder / "deploying.py").write_text(DEPLOYING + ends)
    (folder / "plant.py").write_text(PLANT.format(script=str(folder / "deploying.py")) + plant)
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST_"))},
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
    }
    command = [sys.executable, "-m", "pytest", "tests/e2e/test_trouble.py", "-s", "-p", "plant", "-p", "no:xdist"]
    command += ["--account", "--region", "eu-west-1", "-k", "deleted_under_way"]
    return subprocess.run(
        command, cwd=ROOT, env=variables, input=answer, text=True, capture_output=True, timeout=300, check=False
    )


PLANT = """
import sys
from tests.e2e import account

account.METRICS_DELAY_S = 0
account.DEPLOY = (sys.executable, {script!r})
"""
INTERRUPTING = """
from tests.e2e.stage import Stage

def topic(*_, **__):
    raise KeyboardInterrupt

Stage.topic = topic
"""


@pytest.mark.parametrize(
    ("ends", "plant", "code", "said"),
    [
        pytest.param("sys.exit(3)", "", 1, "the deployment ended with 3", marks=pytest.mark.long),
        ("os.kill(os.getppid(), signal.SIGINT); signal.pause()", "", 2, "KeyboardInterrupt"),
        ("", INTERRUPTING, 2, "KeyboardInterrupt"),
        pytest.param("", "", 1, "ParameterNotFound", marks=pytest.mark.long),
    ],
    ids=["the deployment fails", "Ctrl-C while it is deployed", "Ctrl-C in a scenario", "a scenario fails"],
)
def test_whatever_happens_all_is_removed_and_the_verdict_says_so(
    endpoint: str, tmp_path: Path, ends: str, plant: str, code: int, said: str
) -> None:
    done = run(endpoint, tmp_path, ends, plant, f"{ACCOUNT}\n")
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    assert said in text and "removed: stack tidewheel-smoke-" in text
    assert done.stdout.rstrip().splitlines()[-1] != "passed" and "\nFAILED\n" in text
    assert "account 123456789012, Region eu-west-1, as arn:aws:" in text and "(environment smoke) is deployed" in text
    assert aws(endpoint, "cloudformation").describe_stacks()["Stacks"] == []
    assert aws(endpoint, "s3").list_buckets()["Buckets"] == []
    assert aws(endpoint, "sqs").list_queues().get("QueueUrls", []) == []


def test_nothing_is_made_unless_the_account_is_named(endpoint: str, tmp_path: Path) -> None:
    done = run(endpoint, tmp_path, "", "", "yes\n")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "nothing was made" in done.stdout + done.stderr
    assert aws(endpoint, "cloudformation").describe_stacks()["Stacks"] == []


# ---- removal


def refuse(session: boto3.Session, operation: str) -> None:
    """Makes every later call of "service.Operation" fail."""
    service, _, name = operation.partition(".")

    def deny(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": f"not {operation}"}}, name)

    session.events.register_first(f"before-call.{service}.{name}", deny)


def test_what_a_stack_retains_goes_with_it_and_again_there_is_nothing_to_do() -> None:
    with LocalTidewheel(stack_name=STACK) as stack:
        session, done, again = stack.session, Removal(), Removal()
        dynamodb, logs = session.client("dynamodb"), session.client("logs")
        [table] = dynamodb.list_tables()["TableNames"]
        dynamodb.update_table(TableName=table, DeletionProtectionEnabled=True)
        logs.create_log_group(logGroupName=f"/aws/lambda/{STACK}-late")
        sqs = session.client("sqs")
        sqs.create_queue(QueueName="somebody-elses")
        stack.client().create_topic("orders")
        refuse(session, "cloudformation.DeleteStack")  # stands for a stack that leaves all it retains
        remove(session, STACK, done)
        assert done.finished and {f"table {table}", f"log group /aws/lambda/{STACK}-late"} <= set(done.removed)
        assert not dynamodb.list_tables()["TableNames"] and not session.client("s3").list_buckets()["Buckets"]
        assert not logs.describe_log_groups()["logGroups"]
        assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["somebody-elses"]
        [left] = done.left
        assert left.startswith(f"stack {STACK}: ") and "not cloudformation.DeleteStack" in left
        assert left.endswith(f"aws cloudformation delete-stack --stack-name {STACK}")
        remove(session, STACK, again)
        assert again.finished and again.removed == []


@pytest.mark.parametrize(("left", "code"), [([], 0), (["queue q"], 1)])
def test_a_run_that_leaves_something_behind_fails(left: list[str], code: int) -> None:
    stash = pytest.Stash()
    stash[conftest.TRIAL] = conftest.Trial(removals=[Removal(left=left, finished=True)])
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=SimpleNamespace(stash=stash))
    conftest.pytest_sessionfinish(session)
    assert session.exitstatus == code


def test_the_first_interrupt_does_not_stop_a_removal_and_the_second_does() -> None:
    said: list[str] = []
    with patient(said.append):
        os.kill(os.getpid(), signal.SIGINT)
    assert len(said) == 1 and "Ctrl-C once more" in said[0]
    with pytest.raises(KeyboardInterrupt), patient(said.append):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_only_stacks_of_this_suite_can_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        removal.main(["tidewheel"])
    assert f"those begin with {PREFIX}" in capsys.readouterr().err


# ---- the stage


@pytest.fixture
def stage() -> Stage:
    """A stage without a service, with received messages given by the test."""
    clock = ManualClock(DUE_MS)
    cloud: Any = Mock(clock=clock, sleep=lambda seconds: clock.set_ms(clock.now_ms() + round(seconds * 1000)))
    stage = Stage(cloud)
    stage.subscribe(*READER)
    stage.expect(Receipt(id=MessageId("a"), topic=READER[0], deliver_at_ms=DUE_MS), "body", READER[1])
    return stage


GOOD = Arrival(id="a", body="body", due_ms=DUE_MS, earliest_ms=DUE_MS + 500, latest_ms=DUE_MS + 500)


def test_what_came_once_and_in_time_is_settled(stage: Stage) -> None:
    stage._came[READER] = [GOOD]
    stage.settle()
    assert stage.arrivals == [GOOD]


@pytest.mark.parametrize(
    ("came", "fault"),
    [([], "lost: 1"), ([GOOD, GOOD], "doubled: 1"), ([GOOD, replace(GOOD, id="b")], "unexpected: 1")],
)
def test_whatever_else_came_fails_a_scenario(stage: Stage, came: list[Arrival], fault: str) -> None:
    stage._came[READER] = came
    with pytest.raises(pytest.fail.Exception, match=fault):
        stage.settle()


def test_copies_and_lateness_are_no_faults_after_trouble_and_a_poll_that_failed_is_one(stage: Stage) -> None:
    stage._late.add(READER)
    late = replace(GOOD, latest_ms=DUE_MS + 20_000)
    stage._came[READER] = [late, late]
    stage.settle(copies=True)
    stage._troubles.append("topic/reader: AccessDenied")
    with pytest.raises(pytest.fail.Exception, match="not received: 1, such as"):
        stage.settle(copies=True)


def test_a_scenario_that_expects_nothing_proves_nothing() -> None:
    with pytest.raises(pytest.fail.Exception, match="no message was expected"):
        Stage(Mock(clock=ManualClock(DUE_MS))).check()


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([7], 0.99, 7), ([1, 2], 0.5, 1), ([1, 2, 3], 0.5, 2), (list(range(200)), 0.99, 197), ([1, 2], 0.0, 1)],
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(
    values: list[int], share: float, expected: int
) -> None:
    assert percentile(values, share) == expected


# ---- what only an account has


class Stubbed(boto3.Session):
    """A session with stubbed clients, which check requests against AWS's service models."""

    def __init__(self) -> None:
        super().__init__(aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1")
        self.stubs: dict[str, Stubber] = {}
        self._clients: dict[str, Any] = {}

    def client(self, service: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        if service not in self._clients:
            self._clients[service] = super().client(service)
            self.stubs[service] = Stubber(self._clients[service])
            self.stubs[service].activate()
        return self._clients[service]

    def answers(self, service: str, operation: str, answer: dict[str, Any], expected: Any = None) -> None:
        self.client(service)
        self.stubs[service].add_response(operation, answer, expected)

    def has(self, *resources: tuple[str, str]) -> None:
        """The next list of the stack's resources has these, by type and name."""
        common = {"LastUpdatedTimestamp": "2026-01-01T00:00:00Z", "ResourceStatus": "CREATE_COMPLETE"}
        found = [
            {"LogicalResourceId": name[:9], "PhysicalResourceId": name, "ResourceType": kind, **common}
            for kind, name in resources
        ]
        self.answers("cloudformation", "list_stack_resources", {"StackResourceSummaries": found})

    def has_outputs(self) -> None:
        found = [{"OutputKey": name, "OutputValue": f"{name}-value"} for name in OUTPUTS]
        stack = {"StackName": STACK, "CreationTime": "2026-01-01T00:00:00Z", "StackStatus": "CREATE_COMPLETE"}
        self.answers("cloudformation", "describe_stacks", {"Stacks": [stack | {"Outputs": found}]})


@pytest.fixture
def session() -> Iterator[Stubbed]:
    session = Stubbed()
    yield session
    for stub in session.stubs.values():
        stub.assert_no_pending_responses()


@pytest.fixture
def cloud(session: Stubbed, monkeypatch: pytest.MonkeyPatch) -> AccountCloud:
    monkeypatch.setattr("tests.e2e.account.time.sleep", lambda _s: None)
    return AccountCloud(STACK, "smoke", session)


def test_listeners_poll_on_threads_until_nobody_listens_whether_polls_fail_or_not(cloud: AccountCloud) -> None:
    polled, answers = threading.Semaphore(0), iter([False])

    def take(_wait_s: int) -> bool:
        polled.release()
        return next(answers, True)

    cloud.listen("url", take)
    assert polled.acquire(timeout=30) and polled.acquire(timeout=30) and polled.acquire(timeout=30)
    cloud.deafen()
    assert cloud._threads == []


def test_only_the_bulk_queues_window_is_shortened_and_restored_whatever_happens(
    cloud: AccountCloud, session: Stubbed
) -> None:
    urgent, bulk = "14e0db71-5d35-4eb5-b481-8945cf9d10c1", "14e0db71-5d35-4eb5-b481-8945cf9d10c2"
    session.has(("AWS::Lambda::EventSourceMapping", urgent), ("AWS::Lambda::EventSourceMapping", bulk))
    session.answers("lambda", "get_event_source_mapping", {"State": "Enabled"}, {"UUID": urgent})
    session.answers("lambda", "get_event_source_mapping", {"MaximumBatchingWindowInSeconds": 300}, {"UUID": bulk})
    for window_s in (1, 300):
        changed = {"UUID": bulk, "MaximumBatchingWindowInSeconds": window_s}
        session.answers("lambda", "update_event_source_mapping", {"State": "Updating"}, changed)
        for state in ("Updating", "Enabled"):
            session.answers("lambda", "get_event_source_mapping", {"State": state}, {"UUID": bulk})
    with pytest.raises(ZeroDivisionError), cloud.hastened_bulk():
        raise ZeroDivisionError


def test_a_throttled_function_gets_its_concurrency_back_whatever_happens(cloud: AccountCloud, session: Stubbed) -> None:
    name = {"FunctionName": f"{STACK}-ingest"}
    session.answers("lambda", "put_function_concurrency", {}, name | {"ReservedConcurrentExecutions": 0})
    session.answers("lambda", "delete_function_concurrency", {}, name)
    with pytest.raises(ZeroDivisionError), cloud.throttled("ingest"):
        raise ZeroDivisionError


@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED"])
def test_a_job_is_started_and_waited_for_and_its_failure_told(cloud: AccountCloud, session: Stubbed, end: str) -> None:
    session.has_outputs()
    started = {"JobName": "ImportJob-value", "Arguments": {"--topic": "t", "--min-lead": "5m"}}
    session.answers("glue", "start_job_run", {"JobRunId": "run-1"}, started)
    for state in ("STARTING", "RUNNING", end):
        run = {"JobRunState": state, "ExecutionTime": 90, "MaxCapacity": 10.0, "ErrorMessage": "no such topic"}
        session.answers("glue", "get_job_run", {"JobRun": run})
    if end == "FAILED":
        with pytest.raises(JobFailed, match="run-1 of ImportJob-value is FAILED: no such topic"):
            cloud.run_job("import_messages", topic="t", min_lead="5m")
    else:
        cloud.run_job("import_messages", topic="t", min_lead="5m")
    session.has()
    assert cloud.usage().dpu_hours == 0.25


def test_usage_is_what_cloudwatch_counted_and_it_has_a_price(cloud: AccountCloud, session: Stubbed) -> None:
    session.has(
        ("AWS::Lambda::Function", f"{STACK}-ingest"),
        ("AWS::SQS::Queue", f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/{STACK}-work"),
        ("AWS::DynamoDB::Table", f"{STACK}-table"),
    )
    sums = [[40, 2], [1], [3], [20_000], [90], [110], [70], [50]]  # in the order in which they are asked for
    results = [{"Id": f"m{i}", "Values": values} for i, values in enumerate(sums)]
    asked = {"MetricDataQueries": ANY, "StartTime": ANY, "EndTime": ANY}
    session.answers("cloudwatch", "get_metric_data", {"MetricDataResults": results}, asked)
    session.answers("lambda", "get_function_configuration", {"MemorySize": 512}, {"FunctionName": f"{STACK}-ingest"})
    usage = cloud.usage()
    assert (usage.invocations, usage.errors, usage.throttles) == ({"ingest": 42}, {"ingest": 1}, {"ingest": 3})
    assert usage.gb_seconds == 0.5 * 20
    units = {"lambda.invocation": 42, "dynamodb.read": 70, "dynamodb.write": 50, "sqs.request": 200 * 1.5}
    assert usage.units == units
    assert price(usage)["Lambda"] == pytest.approx(42 * 0.2e-6 + 10 * 0.0000133334)
