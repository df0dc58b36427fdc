"""Tests the command to kill every flow, and the branches of the deaths."""

from __future__ import annotations

import os
import signal

import pytest

from tests.crash import __main__ as command
from tests.crash.__main__ import main
from tests.crash.branches import Branches, BranchFailed
from tests.crash.catalogue import STORIES
from tests.crash.death import Point, When
from tests.crash.story import Chosen, Report, Story
from tests.crash.world import MortalTidewheel
from tidewheel.errors import InvalidValue

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a death is a copy of the process")


def test_the_command_prints_a_line_a_flow_with_its_deaths_and_the_latest_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["--story", "cancel many", "--jobs", "2"]) == 0
    printed = capsys.readouterr().out
    assert "1 flows, 2 deaths, 0 repeats" in printed
    [line] = [line for line in printed.splitlines() if "cancel many" in line]
    cells = [cell.strip() for cell in line.split("│")]
    assert cells[1:8] == ["cancel many", "3", "2", "0", "1.0", "1.1", "1"]


def test_the_command_knows_its_stories(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--story", "no such"])
    assert "no story has 'no such' in its name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--story", "cancel many", "--jobs", "0"], "0: give 1 or more"),
        (["--all", "--save", "--story", "cancel many"], "give --all with it, and no --story"),
        (["--save"], "give --all with it, and no --story"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_give(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_control_c_prints_the_flows_that_ended_and_saves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, told = command.explore, []

    def explored(stack: MortalTidewheel, story: Story, chosen: Chosen, *, jobs: int) -> Report:
        if told:
            raise KeyboardInterrupt
        told.append(story.name)
        return whole(stack, story, chosen, jobs=jobs)

    monkeypatch.setattr(command, "explore", explored)
    monkeypatch.setattr(command, "STORIES", [story for story in STORIES if "cancel" in story.name][:2])
    monkeypatch.setattr(command, "save", lambda *_, **__: pytest.fail("it was saved"))
    assert main(["--all", "--save"]) == 130
    printed = " ".join(capsys.readouterr().out.split())
    assert "Stopped after 1 of 2 flows; nothing is saved" in printed
    assert printed.startswith("1 flows")


def test_control_c_ends_the_branches_that_are_open() -> None:
    branches: Branches[str] = Branches()
    if branches.fork("long"):
        signal.pause()
    [pid] = [pid for pid, _ in branches._open.values()]
    branches.abandon()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert branches.gather() == []


def test_branches_of_which_none_may_be_open_are_refused() -> None:
    with pytest.raises(InvalidValue, match="1 or more"):
        Branches(jobs=0)


def test_a_branch_reports_what_it_came_to_and_what_it_changed_stays_in_it() -> None:
    seen: list[str] = []
    branches: Branches[str] = Branches(jobs=2)
    for name in ("one", "two", "three"):
        if branches.fork(name):
            seen.append(name)
            branches.end(lambda: ",".join(seen))
    assert sorted(str(each) for each in branches.gather()) == ["one", "three", "two"]
    assert not seen


def test_a_branch_that_raises_reports_why() -> None:
    def fail() -> str:
        raise ValueError("no")

    branches: Branches[str] = Branches()
    if branches.fork("odd"):
        branches.end(fail)
    [failure] = branches.gather()
    assert isinstance(failure, BranchFailed) and "ValueError: no" in str(failure)


def test_a_branch_that_ends_without_a_report_is_named() -> None:
    branches: Branches[str] = Branches()
    if branches.fork("the odd one"):
        os._exit(1)
    [failure] = branches.gather()
    assert str(failure) == "the odd one: the branch ended without a report"


def test_of_deaths_that_aws_cannot_tell_apart_one_matters() -> None:
    def point(operation: str, when: When, *, first: bool = False) -> Point:
        return Point(victim="ingest", number=2, operation=operation, when=when, first=first)

    assert point("dynamodb.GetItem", When.BEFORE, first=True).matters
    assert not point("dynamodb.PutItem", When.BEFORE).matters
    assert not point("dynamodb.GetItem", When.AFTER).matters
    assert point("dynamodb.PutItem", When.AFTER).matters
    assert str(point("s3.PutObject", When.AFTER)) == "ingest died after call 2, s3.PutObject"
