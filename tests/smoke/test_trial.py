"""What goes wrong in a trial is told, and what was made is removed all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError

from smoke import trial
from smoke.cloud import Usage
from smoke.interrupts import patient
from smoke.local_cloud import LocalCloud
from smoke.removal import Removal, remove
from smoke.report import Report
from tests.smoke.clouds import STACK, HalfDeployed, Interrupting, Losing, refuse, short_play


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "play", short_play)


@contextmanager
def tried(cloud: LocalCloud, *, keep: bool = False, refused: tuple[str, ...] = ()) -> Iterator[Report]:
    deploy = cloud.deploy

    def deploy_and_refuse() -> None:
        deploy()
        for operation in refused:
            refuse(cloud, operation)

    cloud.deploy = deploy_and_refuse  # type: ignore[method-assign]
    try:
        yield trial.run(cloud, rebuild_on="nowhere", keep=keep, say=print)
    finally:
        cloud.close()


def stacks(cloud: LocalCloud) -> list[str]:
    return [each["StackName"] for each in cloud.session.client("cloudformation").describe_stacks()["Stacks"]]


def failed(report: Report) -> dict[str, str]:
    return {check.name: check.detail for check in report.checks if not check.passed}


def test_a_trial_without_a_fault_passes() -> None:
    cloud = LocalCloud(STACK)
    with tried(cloud) as report:
        assert failed(report) == {} and report.passed
        assert stacks(cloud) == []


def test_a_deployment_that_breaks_off_is_removed() -> None:
    cloud = HalfDeployed(STACK)
    with tried(cloud, keep=True) as report:  # what is half there is of no use to anybody
        assert failed(report) == {"the trial comes to its end": "DeployFailed: cdk deploy ended with 1"}
        assert not report.passed and report.usage is None
        assert stacks(cloud) == [] and f"stack {STACK}" in report.removal.removed  # type: ignore[union-attr]


def test_a_message_that_never_arrives_is_named_and_everything_is_removed() -> None:
    cloud = Losing(STACK)
    with tried(cloud) as report:
        assert list(failed(report)) == ["every message arrives"]
        assert failed(report)["every message arrives"].endswith(" for short/reader")
        assert not report.passed and stacks(cloud) == []


def test_an_interrupted_trial_is_removed_even_if_it_was_to_be_kept() -> None:
    cloud = Interrupting(STACK)
    with tried(cloud, keep=True) as report:
        assert report.interrupted and not report.passed
        assert report.removal is not None and report.removal.finished
        assert stacks(cloud) == [] and cloud.session.client("sqs").list_queues().get("QueueUrls", []) == []
        assert "it was interrupted" in list(report.lines())


def test_an_error_of_aws_in_the_middle_ends_the_trial_and_everything_is_removed() -> None:
    cloud = LocalCloud(STACK)
    with tried(cloud, refused=("dynamodb.TransactWriteItems",)) as report:
        assert "AccessDenied" in failed(report)["the trial comes to its end"]
        assert stacks(cloud) == []


def test_metrics_that_cannot_be_read_are_a_failed_check() -> None:
    class Blind(LocalCloud):
        def usage(self, since_ms: int) -> Usage:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetMetricData")

    with tried(Blind(STACK)) as report:
        assert "GetMetricData" in failed(report)["the trial comes to its end"]


def test_a_kept_stack_stays_and_the_report_says_how_to_remove_it() -> None:
    cloud = LocalCloud(STACK)
    with tried(cloud, keep=True) as report:
        assert report.removal is None and report.passed
        assert stacks(cloud) == [STACK]
        assert f"kept; remove it with: python -m smoke --remove {STACK}" in list(report.lines())


def test_what_cannot_be_removed_is_told_with_the_command_that_does_it_by_hand() -> None:
    cloud = LocalCloud(STACK)
    with tried(cloud, refused=("cloudformation.DeleteStack", "sqs.DeleteQueue")) as report:
        assert report.removal is not None and not report.passed
        commands = [left.command for left in report.removal.leftovers]
        assert f"aws cloudformation delete-stack --stack-name {STACK}" in commands
        assert any(each.startswith("aws sqs delete-queue --queue-url ") for each in commands)
        assert any(each.startswith("aws dynamodb delete-table") for each in commands) is False  # that one goes
        text = "\n".join(report.lines())
        assert f"LEFT: stack {STACK}: " in text and "not cloudformation.DeleteStack" in text


def test_a_stack_that_retains_its_storage_is_removed_with_it() -> None:
    cloud = LocalCloud(STACK)
    with tried(cloud, keep=True):
        session = cloud.session
        [table] = session.client("dynamodb").list_tables()["TableNames"]
        session.client("dynamodb").update_table(TableName=table, DeletionProtectionEnabled=True)
        session.client("logs").create_log_group(logGroupName=f"/aws/lambda/{STACK}-late")
        refuse(cloud, "cloudformation.DeleteStack")  # stands for a stack that leaves all it retains
        removal = Removal()
        remove(session, STACK, removal, print)
        assert session.client("dynamodb").list_tables()["TableNames"] == []
        assert session.client("s3").list_buckets()["Buckets"] == []
        assert session.client("logs").describe_log_groups()["logGroups"] == []
        assert {f"table {table}", f"log group /aws/lambda/{STACK}-late"} <= set(removal.removed)


def test_a_removal_can_be_repeated() -> None:
    cloud = LocalCloud(STACK)
    with tried(cloud):
        again = Removal()
        remove(cloud.session, STACK, again, print)
        assert again.finished and again.leftovers == []


def test_the_first_interrupt_does_not_stop_a_removal_and_the_second_does() -> None:
    said: list[str] = []
    with patient(said.append):
        os.kill(os.getpid(), signal.SIGINT)
    assert len(said) == 1 and "Ctrl-C once more" in said[0]
    with pytest.raises(KeyboardInterrupt), patient(said.append):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_removal_that_is_stopped_says_so_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "remove", stopped)
    with tried(LocalCloud(STACK)) as report:
        assert report.interrupted and not report.passed
        assert f"the removal was broken off; go on with: python -m smoke --remove {STACK}" in list(report.lines())
