"""`python -m smoke` makes nothing without consent, and removes only what a trial made."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from smoke import command, trial
from smoke.cloud import Cloud
from smoke.price import estimate_dollars
from smoke.removal import Leftover, Removal
from smoke.report import Report
from smoke.verdict import Check
from tests.smoke.clouds import short_play

ACCOUNT = "123456789012"


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """An account in which trials are noted, not made."""
    made: list[Any] = []

    def run(cloud: Cloud, **options: Any) -> Report:
        made.append((cloud.stack_name, options["rebuild_on"], options["keep"]))
        return Report(stack=cloud.stack_name, began_at="now", checks=[Check(name="all", passed=True, detail="")])

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "end_on_termination", lambda: None)
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-west-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws():
        yield made


def started(tmp_path: Path, *arguments: str, answer: str | None = None) -> int:
    def ask(_question: str) -> str:
        if answer is None:
            raise EOFError
        return answer

    return command.main([*arguments, "--report", str(tmp_path / "report.json")], ask=ask)


@pytest.mark.parametrize("answer", [None, "", "y", "yes", "111122223333"])
def test_nothing_is_made_unless_the_account_is_named(trials: list[Any], tmp_path: Path, answer: str | None) -> None:
    assert started(tmp_path, answer=answer) == command.REFUSED
    assert trials == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "answer"), [((), ACCOUNT), (("--yes",), None)])
def test_a_trial_is_made_when_the_account_is_named_or_yes_is_given(
    trials: list[Any], tmp_path: Path, arguments: tuple[str, ...], answer: str | None
) -> None:
    assert started(tmp_path, *arguments, answer=answer) == command.PASSED
    [(stack, rebuild_on, keep)] = trials
    assert stack.startswith(command.PREFIX) and (rebuild_on, keep) == ("here", False)
    assert json.loads((tmp_path / "report.json").read_text())["passed"] is True


def test_the_plan_names_account_region_stack_and_cost(
    trials: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(tmp_path, "--rebuild", "glue", "--keep")
    shown = capsys.readouterr().out
    for part in (f"account {ACCOUNT}", "Region eu-west-1", command.PREFIX, "stays, since you say --keep"):
        assert part in shown
    assert f"${estimate_dollars('glue'):.2f}" in shown
    assert estimate_dollars("glue") > 1 > estimate_dollars("here")


def test_two_trials_have_different_stacks(trials: list[Any], tmp_path: Path) -> None:
    for _ in range(2):
        started(tmp_path, "--yes")
    assert trials[0][0] != trials[1][0]


def test_without_credentials_nothing_is_made(
    trials: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(boto3.Session, "client", _no_credentials)
    assert started(tmp_path, "--yes") == command.REFUSED
    assert "no trial: Unable to locate credentials" in capsys.readouterr().err and trials == []


def _no_credentials(*_: Any, **__: Any) -> Any:
    from botocore.exceptions import NoCredentialsError

    raise NoCredentialsError


def test_only_stacks_of_trials_can_be_removed(trials: list[Any], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        started(tmp_path, "--remove", "tidewheel")
    assert refused.value.code == 2


def test_what_an_earlier_trial_left_is_removed(
    trials: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = f"{command.PREFIX}left"
    sqs = boto3.client("sqs")
    sqs.create_queue(QueueName=f"{stack}-mix-all")
    sqs.create_queue(QueueName="somebody-elses")
    assert started(tmp_path, "--remove", stack) == command.PASSED
    assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["somebody-elses"]
    assert f"queue {stack}-mix-all" in capsys.readouterr().out and trials == []


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (Report(stack="s", began_at="now", checks=[Check(name="a", passed=False, detail="")]), command.FAILED),
        (Report(stack="s", began_at="now"), command.FAILED),
        (Report(stack="s", began_at="now", interrupted=True), command.INTERRUPTED),
    ],
)
def test_the_exit_code_says_how_it_went(report: Report, code: int, tmp_path: Path) -> None:
    assert command._show(report, tmp_path / "report.json") == code


def test_a_rehearsal_needs_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trial, "play", short_play)
    monkeypatch.setattr(command, "end_on_termination", lambda: None)
    assert started(tmp_path, "--local") == command.PASSED
    assert capsys.readouterr().out.splitlines()[-2] == "passed"


@pytest.mark.parametrize("name", ["no/folder/report.json", "."])
def test_a_report_that_cannot_be_written_is_refused_before_the_trial(
    trials: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(["--yes", "--report", str(tmp_path / name)])
    assert refused.value.code == command.REFUSED and trials == []
    assert f"--report: {tmp_path / name} cannot be written" in capsys.readouterr().err


def test_a_rehearsal_has_nothing_to_remove(
    trials: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        started(tmp_path, "--local", "--remove", f"{command.PREFIX}left")
    assert refused.value.code == command.REFUSED
    assert "leave one of the two out" in capsys.readouterr().err and trials == []


@pytest.mark.parametrize("emulated", [True, False])
def test_only_of_an_account_is_anything_left_to_remove(emulated: bool) -> None:
    left = Leftover(name="queue q", why="it resists", command="aws sqs delete-queue")
    removal = Removal(leftovers=[left])
    report = Report(stack="s", began_at="now", interrupted=True, removal=removal, emulated=emulated)
    text = "\n".join(report.lines())
    assert "the removal was broken off" in text and "LEFT: queue q: it resists" in text
    assert ("python -m smoke --remove s" in text) is ("aws sqs delete-queue" in text) is (not emulated)


class _Interrupted(MetaPathFinder):
    """Somebody presses Ctrl-C while the command is imported."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "smoke.command":
            raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["it is imported", "it runs"])
def test_an_interrupt_before_the_trial_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    if when == "it runs":
        monkeypatch.setattr(command, "main", interrupted)
    else:
        monkeypatch.delitem(sys.modules, "smoke.command")
        monkeypatch.setattr(sys, "meta_path", [_Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("smoke", run_name="__main__")
    assert ended.value.code == command.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
