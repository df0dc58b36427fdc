"""Runs single functions from their archives, with wrong starts and calls."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.artifact.cloud import Parts
from tests.artifact.execution import Execution, FunctionFailed, Place
from tests.artifact.moved_clock import MovedClock
from tests.artifact.template import FunctionSpec, Template
from tests.conftest import REPOSITORY

START_MS = 1_900_000_000_000
SLEEPY = FunctionSpec(
    name="tidewheel-tried",
    handler="functions.tried.handler.handler",
    memory_mb=64,
    timeout_s=3,
    environment={"OWN": "value"},
    async_retries=0,
    event_age_s=60,
    on_failure_arn=None,
)


class Tried:
    """A function for a test, run from a folder like the archives."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self._parts, self._folder = parts, folder
        self.clock = MovedClock(folder / "clock", START_MS)
        self._open = ExitStack()

    def start(self, body: str, spec: FunctionSpec = SLEEPY) -> Execution:
        """Starts the function with this handler body."""
        handler = self._folder / "functions" / "tried" / "handler.py"
        handler.parent.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        handler.write_text(f"import os, sys, time, datetime\n\ndef handler(event, context):\n{lines}\n")
        place = Place(python=self._parts.python, runtime=self._parts.runtime, archive=self._folder, logs=self._folder)
        execution = Execution(spec, place, self.clock, {}, 0)
        self._open.callback(execution.stop)
        return execution

    def close(self) -> None:
        """Ends the function."""
        self._open.close()


@pytest.fixture
def tried(parts: Parts, tmp_path: Path) -> Iterator[Tried]:
    """Makes functions of a test's own."""
    made = Tried(parts, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "compact"])
def test_a_function_without_its_environment_names_what_is_missing_and_does_nothing(
    parts: Parts, tmp_path: Path, function: str
) -> None:
    [spec] = [each for each in Template(parts.template).functions() if each.folder == function]
    place = Place(python=parts.python, runtime=parts.runtime, archive=parts.archive, logs=tmp_path)
    clock = MovedClock(tmp_path / "clock", START_MS)
    with pytest.raises(FunctionFailed, match=r"did not start: .*lacks TIDEWHEEL_STACK, TIDEWHEEL_TABLE.*NotConfigured"):
        Execution(replace(spec, environment={}), place, clock, {}, 0)


def test_a_function_sees_moved_time_its_own_variables_and_none_of_the_tests(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEWHEEL_LEAKED", "from the tests")
    execution = tried.start(
        "now = datetime.datetime.now(datetime.timezone.utc)\n"
        "return [time.time() * 1000, now.timestamp() * 1000, context.get_remaining_time_in_millis(), "
        "dict(os.environ), sys.path]"
    )
    tried.clock.jump_to(START_MS + 86_400_000)
    before_ms = tried.clock.now_ms()
    by_time, by_datetime, left_ms, variables, path = execution.call({})
    after_ms = tried.clock.now_ms()
    assert before_ms <= by_time <= by_datetime + 1 <= after_ms + 2
    assert 0 < left_ms <= SLEEPY.timeout_s * 1000
    assert variables["OWN"] == "value" and "TIDEWHEEL_LEAKED" not in variables
    assert not [each for each in path if each.startswith(str(REPOSITORY)) or "site-packages" in each]


def test_a_function_cannot_open_the_source_tree(tried: Tried) -> None:
    execution = tried.start(f"return open({str(REPOSITORY / 'pyproject.toml')!r}).read()")
    with pytest.raises(FunctionFailed, match="is not in the archive"):
        execution.call({})
    assert not execution.over


def test_a_function_that_raises_fails_and_lives_on(tried: Tried) -> None:
    execution = tried.start("if event: raise RuntimeError('planted')\nreturn 'fine'")
    with pytest.raises(FunctionFailed, match="planted"):
        execution.call([1])
    assert execution.call([]) == "fine"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("time.sleep(60)", "task timed out after 3 s"),
        ("return len(b'x' * (80 << 20))", "MiB resident, and 64 are configured"),
        ("os.abort()", "ended in the middle of a call"),
    ],
    ids=["time", "memory", "death"],
)
def test_a_function_that_exceeds_its_limits_or_dies_is_over(tried: Tried, body: str, reason: str) -> None:
    execution = tried.start(body)
    with pytest.raises(FunctionFailed, match=reason):
        execution.call({})
    assert execution.over


def test_the_tested_python_is_the_functions(parts: Parts) -> None:
    program = "import sys; print('python%d.%d' % sys.version_info[:2])"
    version = subprocess.check_output([str(parts.python), "-I", "-c", program], text=True).strip()
    resources = parts.template["Resources"].values()
    runtimes = {each["Properties"]["Runtime"] for each in resources if each["Type"] == "AWS::Lambda::Function"}
    assert runtimes == {version}
