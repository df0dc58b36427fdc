"""`tidewheel deploy` and `tidewheel destroy` over moto's S3 and a CloudFormation whose answers are scripted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from tests.deploy.fake_aws import ACCOUNT, STACK, STACK_ID, FakeAccount, client_error
from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.deploy import assets, deploying, templates
from tidewheel.deploy import stack as stacks

TEMPLATE = {
    "Parameters": {
        "AssetsBucket": {},
        "AssetsKeyArn": {"Default": ""},
        "Architecture": {"Default": "arm64", "AllowedValues": ["arm64", "x86_64"]},
        "FunctionsKey": {},
        "LogLevel": {"Default": "INFO"},
    },
    "Resources": {
        "Table": {"Type": "AWS::DynamoDB::Table"},
        "Bucket": {"Type": "AWS::S3::Bucket"},
        "Ingest": {"Type": "AWS::Lambda::Function"},
        "Sweep": {"Type": "AWS::Lambda::Function"},
    },
}
NEW_CODE = {
    "Action": "Modify",
    "ResourceType": "AWS::Lambda::Function",
    "LogicalResourceId": "Ingest",
    "PhysicalResourceId": "reminders-ingest",
    "Replacement": "False",
    "Details": [{"Target": {"Attribute": "Properties", "Name": "Code"}}],
}


class Terminal:
    """A person before an account."""

    def __init__(self, account: FakeAccount, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account, self.cloudformation, self.stack = account, account.cloudformation, STACK
        monkeypatch.setattr(Target, "session", lambda _: account)

    def __call__(self, *arguments: str, answer: str | None = None, code: int = 0) -> str:
        """Runs a command. Returns all that it prints."""
        options = [] if answer is not None else ["--yes"]
        runner, target = CliRunner(), Target(stack=self.stack, region="eu-central-1", typed=("stack",))
        result = runner.invoke(app, [*arguments, *options], input=answer, obj=target)
        assert result.exit_code == code, (result.output, result.exception)
        return " ".join(result.output.split())

    def buckets(self) -> dict[str, set[str]]:
        """All buckets, with the names of their objects."""
        s3 = boto3.client("s3", region_name="eu-central-1")
        names = [each["Name"] for each in s3.list_buckets()["Buckets"]]
        return {name: {each["Key"] for each in s3.list_objects_v2(Bucket=name).get("Contents", [])} for name in names}

    def deployed(self, **settings: str) -> None:
        """Lets the stack be there, in the state in which a deployment leaves it."""
        self.cloudformation.changes = [{**NEW_CODE, "Action": "Add"}]
        self("deploy", *(f"--set={name}={value}" for name, value in settings.items()))
        self.cloudformation.calls.clear()
        self.cloudformation.changes, self.cloudformation.ends = [NEW_CODE], ["UPDATE_COMPLETE"]

    def parameters(self) -> dict[str, str]:
        """The parameters of the last change set."""
        return {each["ParameterKey"]: each["ParameterValue"] for each in self.cloudformation.request["Parameters"]}


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setattr(templates, "FOLDER", tmp_path)
    for environment in templates.ENVIRONMENTS:
        for spark in (True, False):
            text = json.dumps(TEMPLATE | {"Description": str(spark)})
            templates.file_of(environment, spark).write_text(text)
    code = tmp_path / "functions.zip"
    code.write_text("code")
    monkeypatch.setattr(deploying, "archive", lambda name, of: (f"{name}-{of}", partial(shutil.copy, code)))
    monkeypatch.setattr(stacks, "POLL_S", 0)
    # moto takes a policy's condition for true: that of plain HTTP, too.
    monkeypatch.setattr("moto.s3.models.FakeBucket.get_permission", lambda *_: None)
    with mock_aws():
        yield Terminal(FakeAccount(), monkeypatch)


def test_a_plan_of_a_new_stack_and_a_refusal_leave_nothing(terminal: Terminal) -> None:
    said = terminal("deploy", "--plan")
    assert f"stack reminders, account {ACCOUNT}, Region eu-central-1, environment development" in said
    assert "new: 2 Lambda Function, 1 DynamoDB Table, 1 S3 Bucket" in said
    assert terminal("deploy", answer="n\n", code=1).endswith("nothing was changed")
    assert (terminal.buckets(), terminal.cloudformation.calls) == ({}, [])


def test_a_new_stack_gets_a_private_bucket_first_and_an_update_keeps_its_settings(terminal: Terminal) -> None:
    terminal.cloudformation.changes = [{**NEW_CODE, "Action": "Add"}]
    said = terminal("deploy", "--set", "log_level=DEBUG", "--architecture", "x86_64", "--tag", "team=a", answer="y\n")
    assert "uploaded FunctionsKey-x86_64" in said and "deployed stack reminders" in said
    [(name, keys)] = terminal.buckets().items()
    assert keys == {"FunctionsKey-x86_64"} and len(name) <= 63
    s3 = boto3.client("s3", region_name="eu-central-1")
    assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    assert all(s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"].values())
    assert "aws:SecureTransport" in s3.get_bucket_policy(Bucket=name)["Policy"]
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] == "eu-central-1"
    request = terminal.cloudformation.request
    assert request["Tags"] == [{"Key": "team", "Value": "a"}] and name in request["TemplateURL"]

    terminal.cloudformation.changes, terminal.cloudformation.ends = [NEW_CODE], ["UPDATE_COMPLETE"]
    said = terminal("deploy", "--set", "assets_key_arn=arn:aws:kms:key", "--role-arn", "arn:role", "--tag", "of=b")
    assert "changed: Lambda Function (Code): reminders-ingest" in said and "uploaded" not in said
    wanted = {"LogLevel": "DEBUG", "Architecture": "x86_64", "AssetsKeyArn": "arn:aws:kms:key"}
    assert terminal.parameters().items() >= wanted.items()
    assert terminal.cloudformation.request["RoleARN"] == "arn:role"
    assert {each["Key"] for each in terminal.cloudformation.request["Tags"]} == {"team", "of"}
    rules = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == "arn:aws:kms:key"

    terminal("deploy", "--plan", "--set", "architecture=")
    assert terminal.parameters().items() >= {"LogLevel": "DEBUG", "Architecture": "arm64"}.items()

    terminal.cloudformation.reason = "The submitted information didn't contain changes."
    found = json.loads(terminal("deploy", "--json").partition("nothing is new ")[2])
    assert (found["deployed"], found["changes"], found["outputs"]["Environment"]) == (False, [], "development")


def test_names_and_values_that_no_stack_can_have_are_refused(terminal: Terminal) -> None:
    assert "--set='architecture=sparc': give one of arm64, x86_64" in terminal("deploy", "--architecture=sparc", code=1)
    assert "name one of architecture, assets_key_arn, log_level; " in terminal("deploy", "--set=Log=x", code=1)
    terminal.stack = "under_score"
    assert "--stack='under_score': give letters" in terminal("deploy", code=1)
    assert not terminal.buckets()


def test_the_end_of_the_input_is_no_and_leaves_no_change_set(terminal: Terminal) -> None:
    terminal.deployed()
    assert terminal("deploy", answer="", code=1).endswith("nothing was changed")
    assert terminal.cloudformation.calls == ["create_change_set", "delete_change_set"]


def test_a_plan_of_an_update_leaves_nothing(terminal: Terminal) -> None:
    terminal.deployed()
    before = terminal.buckets()
    assert terminal("deploy", "--plan").endswith(
        "changed: Lambda Function (Code): reminders-ingest nothing was changed"
    )
    assert terminal.cloudformation.calls == ["create_change_set", "delete_change_set"]
    assert terminal.buckets() == before
    [name] = before
    s3 = boto3.resource("s3", region_name="eu-central-1").Bucket(name)
    assert [each.key for each in s3.object_versions.all()] == ["FunctionsKey-arm64"]
    s3.object_versions.delete()
    s3.delete()
    assert f"S3 bucket {name} is gone" in terminal("deploy", "--plan", code=1)
    assert not terminal.buckets()


@pytest.mark.parametrize("type_", ["AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue"])
@pytest.mark.parametrize(
    "how", [{"Action": "Remove"}, {"Replacement": "True"}, {"Replacement": "Conditional"}], ids=str
)
def test_no_deployment_loses_data(terminal: Terminal, type_: str, how: dict[str, str]) -> None:
    terminal.deployed()
    terminal.cloudformation.changes = [NEW_CODE, {**NEW_CODE, "ResourceType": type_, "PhysicalResourceId": "it", **how}]
    said = terminal("deploy", code=1)
    assert "data would, or might, be lost with" in said and " it: deploy a second stack" in said
    assert terminal.cloudformation.calls == ["create_change_set", "delete_change_set"]


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ("ROLLBACK_COMPLETE", "remove it with tidewheel destroy"),
        ("ROLLBACK_FAILED", "remove it with tidewheel destroy"),
        ("CREATE_FAILED", "remove it with tidewheel destroy"),
        ("DELETE_FAILED", "run tidewheel destroy again"),
        ("UPDATE_FAILED", "aws cloudformation rollback-stack"),
        ("UPDATE_ROLLBACK_FAILED", "aws cloudformation continue-update-rollback"),
    ],
)
def test_a_stuck_stack_is_left_alone_with_advice(terminal: Terminal, status: str, advice: str) -> None:
    terminal.deployed()
    assert terminal.cloudformation.stack is not None
    terminal.cloudformation.stack["StackStatus"] = status
    said = terminal("deploy", code=1)
    assert status in said and advice in said and terminal.cloudformation.calls == []


@pytest.mark.parametrize(("first", "second"), [("UPDATE_COMPLETE", "changed:"), ("UPDATE_ROLLBACK_FAILED", "mend the")])
def test_a_change_that_runs_is_followed_to_its_end_first(terminal: Terminal, first: str, second: str) -> None:
    terminal.deployed()
    terminal.cloudformation.ends = [first, "UPDATE_COMPLETE"]
    terminal.cloudformation.busy("UPDATE_IN_PROGRESS")
    said = terminal("deploy", code=int(first != "UPDATE_COMPLETE"))
    assert "reminders is in UPDATE_IN_PROGRESS: following this change to its end" in said and second in said


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("User is not authorized to perform: iam:CreateRole on resource", "lacks the permission iam:CreateRole"),
        ("Log group /aws/lambda/reminders-sweep already exists", "--import-existing"),
        ("Glue version 6.0 is not supported", "--no-spark"),
        ("Specified ConcurrentExecutions decreases", "ask AWS for more concurrency"),
    ],
)
def test_the_first_failure_is_named_with_its_reason_and_advice(terminal: Terminal, reason: str, advice: str) -> None:
    failed = {"ResourceStatus": "CREATE_FAILED", "ResourceType": "AWS::Lambda::Function", "PhysicalResourceId": ""}
    terminal.cloudformation.failing = [
        {**failed, "LogicalResourceId": "Other", "ResourceStatusReason": "Resource creation cancelled"},
        {**failed, "LogicalResourceId": "Ingest", "ResourceStatusReason": reason},
        {**failed, "LogicalResourceId": "Sweep", "ResourceStatusReason": "later"},
    ]
    terminal.cloudformation.ends = ["ROLLBACK_COMPLETE"]
    said = terminal("deploy", code=1)
    assert f"First failure: AWS::Lambda::Function Ingest: {reason}" in said and advice in said
    assert "its first deployment failed and was undone" in said


def test_of_two_at_once_the_second_is_told_to_run_again(terminal: Terminal) -> None:
    terminal.deployed()
    gone = client_error("ExecuteChangeSet", "ChangeSetNotFound", "ChangeSet [x] does not exist")
    terminal.cloudformation.refused["execute_change_set"] = gone
    assert "another deployment changed the stack meanwhile: run tidewheel deploy again" in terminal("deploy", code=1)


@pytest.mark.parametrize(
    ("outputs", "parameters", "options", "said"),
    [
        (["SettingsParameter"], ["BootstrapVersion"], [], "the CDK deployed stack reminders, account"),
        (["WebsiteUrl"], [], [], "is no service of Tidewheel: give another --stack"),
        (["Environment"], ["AssetsBucket"], ["--environment", "production"], "has the environment Environment"),
        (["Environment"], ["AssetsBucket"], ["--set", "dedicated_topics=a"], "need the CDK: tidewheel docs constructs"),
        (["Environment"], ["AssetsBucket"], ["--set", "log_level"], "give NAME=VALUE"),
    ],
)
def test_what_the_command_does_not_do_is_refused(
    terminal: Terminal, outputs: list[str], parameters: list[str], options: list[str], said: str
) -> None:
    terminal.cloudformation.stack = {
        "StackId": STACK_ID,
        "StackStatus": "CREATE_COMPLETE",
        "Outputs": [{"OutputKey": name, "OutputValue": "development" if not options[1:] else name} for name in outputs],
        "Parameters": [{"ParameterKey": name, "ParameterValue": ""} for name in parameters],
    }
    if options[:1] == ["--set"]:
        terminal.cloudformation.stack["Outputs"][0]["OutputValue"] = "development"
    assert said in terminal("deploy", *options, code=1)
    assert terminal.cloudformation.calls == []


def test_another_region_has_its_own_bucket_and_no_spark_jobs_unless_glue_is_known(terminal: Terminal) -> None:
    terminal.account.region_name = "eu-south-1"
    assert "without Spark jobs, since eu-south-1 may lack Glue 6.0" in terminal("deploy")
    assert "without Spark" not in terminal("deploy", "--plan", "--spark")
    assert ["-eu-south-1-" in name for name in terminal.buckets()] == [True]


def test_little_concurrency_is_a_warning_with_the_request_to_make(terminal: Terminal) -> None:
    terminal.account.concurrency = 10
    assert "aws service-quotas request-service-quota-increase" in terminal("deploy", "--plan")


def test_a_bucket_of_another_account_is_not_used(terminal: Terminal) -> None:
    terminal.account.taken = client_error("CreateBucket", "BucketAlreadyExists")
    assert "another account owns the S3 bucket tidewheel-123456789012-eu-central-1-" in terminal("deploy", code=1)
    assert terminal.cloudformation.calls == []


def test_a_missing_permission_is_named(terminal: Terminal) -> None:
    terminal.deployed()
    denied = "User: x is not authorized to perform: cloudformation:CreateChangeSet on resource: y"
    terminal.cloudformation.refused["create_change_set"] = client_error("CreateChangeSet", "AccessDenied", denied)
    assert "you lack the permission cloudformation:CreateChangeSet" in terminal("deploy", code=1)


def test_after_ctrl_c_cloudformation_goes_on_and_the_same_command_follows(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    slow = {"ResourceStatus": "CREATE_COMPLETE", "LogicalResourceId": "Ingest", "PhysicalResourceId": ""}
    terminal.cloudformation.failing = [slow, slow, slow]
    with monkeypatch.context() as patch:
        patch.setattr(deploying, "Stack", partial(deploying.Stack, sleep=interrupted))
        assert (
            "CloudFormation goes on by itself. To follow: tidewheel --stack reminders --region eu-central-1 deploy"
            in terminal("deploy", code=130)
        )
    terminal.cloudformation.reason = "didn't contain changes"
    assert "following this change to its end" in terminal("deploy")


def test_ctrl_c_before_the_execution_leaves_no_stack(terminal: Terminal) -> None:
    terminal.cloudformation.refused["describe_change_set"] = KeyboardInterrupt()
    terminal("deploy", code=130)
    assert terminal.cloudformation.calls == ["create_change_set", "delete_change_set", "delete_stack"]
    assert terminal.cloudformation.stack is None


def test_production_is_protected_and_only_archives_for_a_rollback_stay(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal("deploy", "--environment", "production")
    assert terminal.cloudformation.stack is not None
    assert terminal.cloudformation.stack["EnableTerminationProtection"] is True
    terminal.cloudformation.stack["Outputs"][0]["OutputValue"] = "production"
    terminal.cloudformation.changes, terminal.cloudformation.ends = [NEW_CODE], ["UPDATE_COMPLETE"] * 2
    terminal("deploy", "--architecture", "x86_64")
    [keys] = terminal.buckets().values()
    assert keys == {"FunctionsKey-arm64", "FunctionsKey-x86_64"}
    terminal("deploy")  # both are younger than a day
    assert [*terminal.buckets().values()] == [keys]

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(UTC) + timedelta(days=2)

    monkeypatch.setattr(assets, "datetime", Later)
    terminal.cloudformation.ends = ["UPDATE_COMPLETE"]
    terminal("deploy")
    assert [*terminal.buckets().values()] == [{"FunctionsKey-x86_64"}]


def test_a_removal_empties_development_tries_again_and_ends_with_the_archives(terminal: Terminal) -> None:
    terminal.deployed()
    s3 = boto3.client("s3", region_name="eu-central-1")
    s3.create_bucket(Bucket="ledgers", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    s3.put_bucket_versioning(Bucket="ledgers", VersioningConfiguration={"Status": "Enabled"})
    for _ in range(2):
        s3.put_object(Bucket="ledgers", Key="a", Body=b"1")
    s3.delete_object(Bucket="ledgers", Key="a")
    terminal.cloudformation.template = TEMPLATE
    bucket = {"ResourceType": "AWS::S3::Bucket", "LogicalResourceId": "Bucket", "PhysicalResourceId": "ledgers"}
    terminal.cloudformation.resources = [{**bucket, "ResourceStatus": "CREATE_COMPLETE"}]
    assert terminal("destroy", answer="other\n", code=1).endswith("nothing was changed")
    terminal.cloudformation.ends = ["DELETE_FAILED", "DELETE_COMPLETE"]
    terminal.account.queues = ["https://sqs/reminders-orders-billing"]
    said = terminal("destroy", answer="reminders\n")
    assert "stays: queues of clients, or of stacks named reminders-...: https://sqs/reminders-orders-billing" in said
    assert terminal.cloudformation.calls == ["delete_stack", "delete_stack"]
    terminal.cloudformation.calls.clear()
    assert terminal.buckets() == {"ledgers": set()} and "Versions" not in s3.list_object_versions(Bucket="ledgers")
    assert "there is no stack reminders" in terminal("destroy", code=1)


def test_a_removal_that_fails_names_the_resource(terminal: Terminal) -> None:
    terminal.deployed()
    terminal.cloudformation.template = TEMPLATE
    terminal.cloudformation.ends = ["DELETE_FAILED"] * 3
    event = {"LogicalResourceId": "Bucket", "ResourceType": "AWS::S3::Bucket", "PhysicalResourceId": ""}
    reason = {"ResourceStatus": "DELETE_FAILED", "ResourceStatusReason": "The bucket you tried to delete is not empty"}
    terminal.cloudformation.failing = [{**event, **reason}]
    said = terminal("destroy", code=1)
    assert "run tidewheel destroy again. First failure: AWS::S3::Bucket Bucket: The bucket" in said


def test_what_production_keeps_is_named_with_its_removal(terminal: Terminal) -> None:
    terminal.deployed()
    assert terminal.cloudformation.stack is not None
    terminal.cloudformation.stack["EnableTerminationProtection"] = True
    kept = {name: {**each, "DeletionPolicy": "Retain"} for name, each in TEMPLATE["Resources"].items()}
    terminal.cloudformation.template = {"Resources": kept}
    terminal.cloudformation.resources = [
        {
            "ResourceType": each["Type"],
            "LogicalResourceId": name,
            "PhysicalResourceId": f"my-{name}",
            "ResourceStatus": "x",
        }
        for name, each in kept.items()
    ]
    terminal.cloudformation.ends = ["DELETE_COMPLETE"]
    said = terminal("destroy")
    assert "0 resources are removed, and 4 stay" in said
    assert "stays: DynamoDB Table my-Table. To remove it: aws dynamodb update-table" in said
    assert terminal.buckets() == {}
