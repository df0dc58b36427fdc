"""The repository's workflows and hooks call existing commands, and pin third-party actions."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_snippets import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OF_THE_RUNNER = ("gh", "mkdir", "test")
"""Commands that each runner has."""
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def jobs(workflow: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"])


def runs() -> Iterator[Any]:
    """Yields the words of each workflow command, including commands in `$(...)`."""
    for workflow in WORKFLOWS:
        for name, job in jobs(workflow).items():
            for step in job.get("steps", []):
                for line in step.get("run", "").splitlines():
                    for text in [*re.findall(r"\$\(([^()]*)\)", line), *line.split("&&")]:
                        yield pytest.param(shlex.split(text), id=f"{workflow.name}: {name}: {text.strip()}")


def uses() -> Iterator[Any]:
    """Yields each workflow line with an action or a workflow."""
    for workflow in WORKFLOWS:
        for line in workflow.read_text(encoding="utf-8").splitlines():
            if "uses: " in line:
                yield pytest.param(line.strip().removeprefix("- "), id=f"{workflow.name}: {line.strip()}")


@pytest.mark.parametrize("words", list(runs()))
def test_a_command_of_a_workflow_exists(words: list[str]) -> None:
    program = words[0]
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert set(words[1:]) <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    elif program.startswith(".ci/"):
        assert os.access(ROOT / program, os.X_OK)
    else:
        assert program == ".venv/bin/python" or program in OF_THE_RUNNER


@pytest.mark.parametrize("line", list(uses()))
def test_an_action_is_pinned_by_its_commit_and_a_workflow_of_ours_exists(line: str) -> None:
    if line.startswith("uses: ./"):
        assert (ROOT / line.removeprefix("uses: ")).is_file()
    else:
        assert PINNED.match(line)


def test_ci_does_not_end_before_its_script_ends_by_itself() -> None:
    [seconds] = re.findall(r"timeout --kill-after=60 (\d+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert jobs(ROOT / ".github" / "workflows" / "ci.yml")["checks"]["timeout-minutes"] * 60 > int(seconds) + 60


def test_the_notes_of_a_release_are_the_changelogs_section() -> None:
    def notes(version: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([ROOT / ".ci" / "release-notes", version], capture_output=True, text=True, check=False)

    section = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## [0.1.0]\n")[2]
    assert notes("0.1.0").stdout == section.partition("\n## ")[0]
    assert notes("99.0").returncode == 1 and "99.0" in notes("99.0").stderr


def test_the_hooks_before_a_commit_are_locked_tools() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    packages = {"ruff": "ruff", "mypy": "mypy", "lint-imports": "import-linter"}
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        program = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert re.search(rf"^{packages[program]}==", lock, re.MULTILINE), program
