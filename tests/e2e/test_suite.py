"""The suite asks before changes, removes everything it made, and can fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from tests.e2e import conftest, removal
from tests.e2e.account import ROOT, AccountCloud
from tests.e2e.cloud import PREFIX
from tests.e2e.removal import Removal, patient, remove
from tidewheel.local import LocalTidewheel

pytestmark = pytest.mark.long

STACK = f"{PREFIX}test"
ACCOUNT = "123456789012"

DEPLOYING = """
import json, os, signal, sys
import boto3

stack = sys.argv[sys.argv.index("--stack") + 1]
bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": stack + "-bucket"}, "DeletionPolicy": "Retain"}
template = {"Resources": {"Bucket": bucket}}
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
    command = [sys.executable, "-m", "pytest", "tests/e2e/test_main_road.py", "-s", "-p", "plant", "-p", "no:xdist"]
    command += ["--account", "--region", "eu-west-1", "-k", "merges_small_ledgers"]
    return subprocess.run(
        command, cwd=ROOT, env=variables, input=answer, text=True, capture_output=True, timeout=300, check=False
    )


PLANT = """
import sys
from tests.e2e import account

account.DEPLOY = (sys.executable, {script!r})
"""
INTERRUPTING = """
from tidewheel.client.tidewheel import Tidewheel

def create_topic(*_, **__):
    raise KeyboardInterrupt

Tidewheel.create_topic = create_topic
"""


@pytest.mark.parametrize(
    ("ends", "plant", "code", "said"),
    [
        ("sys.exit(3)", "", 1, "the deployment ended with 3"),
        ("os.kill(os.getppid(), signal.SIGINT); signal.pause()", "", 2, "KeyboardInterrupt"),
        ("", INTERRUPTING, 2, "KeyboardInterrupt"),
    ],
    ids=["the deployment fails", "Ctrl-C while it is deployed", "Ctrl-C in a scenario"],
)
def test_whatever_happens_all_is_removed_and_the_run_fails(
    endpoint: str, tmp_path: Path, ends: str, plant: str, code: int, said: str
) -> None:
    done = run(endpoint, tmp_path, ends, plant, f"{ACCOUNT}\n")
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    assert said in text and "removed: stack tidewheel-smoke-" in text
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


def test_listeners_poll_on_threads_until_nobody_listens_whether_polls_fail_or_not() -> None:
    cloud = AccountCloud(STACK, "smoke", boto3.Session(region_name="eu-west-1"))
    polled, answers = threading.Semaphore(0), iter([False])

    def take(_wait_s: int) -> bool:
        polled.release()
        return next(answers, True)

    cloud.listen("url", take)
    assert polled.acquire(timeout=30) and polled.acquire(timeout=30) and polled.acquire(timeout=30)
    cloud.deafen()
    assert cloud._threads == []
