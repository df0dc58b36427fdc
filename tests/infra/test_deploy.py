"""`make deploy`, `make diff` and `make destroy` are pinned, ask first, and use the named Region."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from infra import deploy
from tests.conftest import REPOSITORY
from tests.docs.test_snippets import DOCUMENTS

REGION = "eu-central-1"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account."""
    monkeypatch.setenv("AWS_REGION", REGION)
    with mock_aws():
        yield


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The CDK's arguments, one list per run."""
    monkeypatch.setattr(deploy, "_command_line", lambda: ["cdk"])
    return []


def run(commands: list[list[str]], *arguments: str, answer: str = "", code: int = 0) -> int:
    def note(command: Sequence[str], variables: Mapping[str, str]) -> int:
        assert variables["AWS_REGION"] == variables["AWS_DEFAULT_REGION"] == REGION
        commands.append(list(command[1:]))
        return code

    return deploy.main(arguments, ask=lambda _question: answer, run=note)


def bootstrap() -> None:
    client = boto3.client("ssm", region_name=REGION)
    client.put_parameter(Name=deploy.BOOTSTRAP_PARAMETER, Value="31", Type="String")


def test_a_deployment_says_what_it_changes_and_does_nothing_without_a_yes(
    account: None, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(commands, "deploy", "--environment", "production", "--stack", "reminders", answer="n") == 1
    assert commands == []
    told = capsys.readouterr().out
    assert "stack reminders, environment production, account 123456789012, Region eu-central-1" in told
    assert "The Region must have Glue 6.0, or the environment spark=False." in told
    assert "Nothing was changed." in told


@pytest.mark.parametrize(("arguments", "answer"), [([], "y"), (["--yes"], "n")])
def test_a_region_is_bootstrapped_once(
    account: None, commands: list[list[str]], arguments: list[str], answer: str
) -> None:
    assert run(commands, "deploy", *arguments, answer=answer) == 0
    bootstrap()
    assert run(commands, "deploy", *arguments, answer=answer) == 0
    assert [command[0] for command in commands] == ["bootstrap", "deploy", "deploy"]
    assert commands[0][1] == "aws://123456789012/eu-central-1"
    context = ["--context", "environment=development", "--context", "stack=tidewheel"]
    assert commands[1] == ["deploy", "tidewheel", *context, "--require-approval", "never"]


def test_a_bootstrap_that_failed_ends_the_deployment(account: None, commands: list[list[str]]) -> None:
    assert run(commands, "deploy", "--yes", code=3) == 3
    assert [command[0] for command in commands] == ["bootstrap"]


def test_the_cdk_gets_what_is_not_for_this_program(account: None, commands: list[list[str]]) -> None:
    assert run(commands, "diff", "--context", "nag=true") == 0
    assert run(commands, "destroy", "--yes") == 0
    assert commands[0][-2:] == ["--context", "nag=true"]
    assert commands[1][0] == "destroy" and commands[1][-1] == "--force"


def deploy_stack(environment: str) -> None:
    template = {
        "Resources": {},
        "Outputs": {"Environment": {"Value": environment}, "S3BucketName": {"Value": "ledgers"}},
    }
    template["Resources"]["Topic"] = {"Type": "AWS::SNS::Topic", "Properties": {}}
    client = boto3.client("cloudformation", region_name=REGION)
    client.create_stack(StackName="tidewheel", TemplateBody=json.dumps(template))


def test_another_environment_than_the_deployed_one_is_refused_unless_it_is_meant(
    account: None, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap()
    deploy_stack("production")
    assert run(commands, "deploy", "--yes") == 1
    assert commands == []
    assert "has the environment production, not development" in capsys.readouterr().err
    assert run(commands, "deploy", "--yes", "--environment", "production") == 0
    assert run(commands, "deploy", "--yes", "--change-environment") == 0
    assert [command[3] for command in commands] == ["environment=production", "environment=development"]


@pytest.mark.parametrize("word", ["environment=production", "--context=stack=other"])
def test_the_cdk_gets_no_other_place_than_the_one_that_is_named(
    account: None, commands: list[list[str]], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(commands, "deploy", "--yes", word) == 1
    assert commands == []
    assert f"{word} is not for the CDK here" in capsys.readouterr().err


def test_the_profile_that_is_asked_is_the_one_that_deploys(
    account: None, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        "[profile other]\naws_access_key_id = a\naws_secret_access_key = b\n", encoding="utf-8"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    bootstrap()
    seen: list[str | None] = []
    code = deploy.main(["deploy", "--yes", "--profile", "other"], run=lambda _c, v: seen.append(v["AWS_PROFILE"]) or 0)
    assert (code, seen) == (0, ["other"])
    assert run(commands, "deploy", "--yes", "--profile", "missing") == 1


def test_without_a_region_nothing_begins(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/does/not/exist")
    assert run(commands, "deploy", "--yes") == 1
    assert commands == []
    assert "export AWS_REGION" in capsys.readouterr().err


def test_the_command_line_is_pinned_and_nothing_runs_another() -> None:
    pinned = json.loads((REPOSITORY / "package.json").read_text(encoding="utf-8"))["devDependencies"]["aws-cdk"]
    locked = json.loads((REPOSITORY / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert locked["node_modules/aws-cdk"]["version"] == pinned
    assert locked["node_modules/aws-cdk"]["integrity"].startswith("sha512-")
    assert pinned.replace(".", "").isdigit()
    said = [page.name for page in DOCUMENTS if "npx" in page.read_text(encoding="utf-8")]
    assert said == []


def test_a_removal_empties_a_development_bucket_again_after_a_failure_and_never_productions(
    account: None, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap()
    emptied: list[str] = []
    monkeypatch.setattr(deploy.Bucket, "empty", lambda bucket: emptied.append(bucket.name))
    for environment, codes in {"production": [1], "development": [1, 1]}.items():
        deploy_stack(environment)
        assert run(commands, "destroy", "--yes", "--environment", environment, code=1) == 1
        assert len(commands) == len(codes)
        commands.clear()
        boto3.client("cloudformation", region_name=REGION).delete_stack(StackName="tidewheel")
    assert emptied == ["ledgers", "ledgers"]
