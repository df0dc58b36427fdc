"""Runs single functions from their archives, with wrong starts and calls."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.artifact.cloud import Parts
from tests.artifact.execution import Execution, FunctionFailed, Place
from tests.artifact.moved_clock import MovedClock
from tests.artifact.template import Template

START_MS = 1_900_000_000_000


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "compact"])
def test_a_function_without_its_environment_names_what_is_missing_and_does_nothing(
    parts: Parts, tmp_path: Path, function: str
) -> None:
    [spec] = [each for each in Template(parts.template).functions() if each.folder == function]
    place = Place(python=parts.python, runtime=parts.runtime, archive=parts.archive, logs=tmp_path)
    clock = MovedClock(tmp_path / "clock", START_MS)
    with pytest.raises(FunctionFailed, match=r"did not start: .*lacks TIDEWHEEL_STACK, TIDEWHEEL_TABLE.*NotConfigured"):
        Execution(replace(spec, environment={}), place, clock, {}, 0)


def test_the_tested_python_is_the_functions(parts: Parts) -> None:
    program = "import sys; print('python%d.%d' % sys.version_info[:2])"
    version = subprocess.check_output([str(parts.python), "-I", "-c", program], text=True).strip()
    resources = parts.template["Resources"].values()
    runtimes = {each["Properties"]["Runtime"] for each in resources if each["Type"] == "AWS::Lambda::Function"}
    assert runtimes == {version}
