"""The command on a machine without the tools, and servers that end with the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.independent.__main__ import NO_TOOLS

TOOLS = {"java": "echo 'openjdk version \"17.0.1\"' >&2", "javac": "", "mvn": "", "go": ""}


def fetch(folder: Path, **tools: str) -> subprocess.CompletedProcess[str]:
    """Asks the command to fetch, as `run` does."""
    return run(folder, ["-m", "tests.independent", "--fetch"], **tools)


def run(folder: Path, program: list[str], **tools: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with only these tools, given as scripts, on the PATH."""
    for name, script in tools.items():
        tool = folder / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    return subprocess.run(
        [sys.executable, *program],
        cwd=REPOSITORY,
        env=os.environ | {"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_registry_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    failing = TOOLS | {"mvn": "echo 'Unknown host repo.maven.apache.org' >&2; exit 1"}
    program = (
        "import sys; from pathlib import Path; from tests.independent import __main__ as command, fetch\n"
        f"fetch.CACHE = Path({str(tmp_path / 'cache')!r}); sys.argv = ['', '--fetch']; sys.exit(command.main())"
    )
    result = run(tmp_path, ["-c", program], **failing)
    assert result.returncode == NO_TOOLS
    assert "Unknown host" in result.stderr and "mvn fetches nothing" in result.stderr


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    result = fetch(tmp_path, **{name: script for name, script in TOOLS.items() if name not in ("go", "mvn")})
    assert result.returncode == NO_TOOLS
    assert "not on the PATH: mvn, go" in result.stderr and "Maven fetches" in result.stderr


def test_a_test_on_the_parts_cannot_import_moto(tmp_path: Path) -> None:
    lines = ["import moto", "from moto import mock_aws", "import tidewheel.local.emulator", "import boto3"]
    tests = "".join(f"def test_{number}():\n    {line}\n" for number, line in enumerate(lines))
    (tmp_path / "test_it.py").write_text(tests)
    plugins = ["-p", "no:xdist", "-p", "tests.independent.no_moto"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-c", os.devnull, tmp_path],
        # With CI set, pytest's summary repeats each error whole.
        env={name: value for name, value in os.environ.items() if name != "CI"} | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout.count("ModuleNotFoundError: ")) == (1, 3), result.stdout
    assert "3 failed, 1 passed" in result.stdout
