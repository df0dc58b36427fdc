"""A seed gives the same run in every process, and a failed run prints the command to repeat the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import __main__ as command
from tests.simulation.runs import one_run
from tests.simulation.trace import MOST_LINES
from tidewheel.storage.tombstones import Tombstones

ROOT = Path(__file__).parents[2]
PLANTED = """
from tests.simulation.__main__ import main
from tidewheel.storage.tombstones import Tombstones

Tombstones.ids = lambda self, topic, first_slot, end_slot: frozenset()
raise SystemExit(main(["--seeds", "4:5", "--mode", "calm", "--steps", "700", "--jobs", "1"]))
"""


def run(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Runs Python in another process."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    arguments = ("-m", "tests.simulation", "--seed", "3", "--mode", "faults", "--steps", "300", "--trace")

    first, second = (run(*arguments, hash_seed=each) for each in ("1", "2"))

    assert first.returncode == 0, first.stdout[-3000:] + first.stderr
    assert first.stdout.count("\n") > 200
    assert first.stdout == second.stdout


def test_the_command_that_a_failing_seed_prints_shows_the_same_failure() -> None:
    failed = run("-c", PLANTED)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    [again, *_] = [line for line in failed.stdout.splitlines() if line.startswith("again: ")]
    violation = failed.stdout.splitlines()[failed.stdout.splitlines().index(again) - 1]

    asked = again.partition("python -m tests.simulation ")[2].split()
    same = run(
        "-c", PLANTED.replace('["--seeds", "4:5", "--mode", "calm", "--steps", "700", "--jobs", "1"]', repr(asked))
    )

    assert same.returncode == 1
    assert violation in same.stdout


def test_a_short_trace_names_the_message_that_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tombstones, "ids", lambda *_: frozenset())

    failed = next(run for seed in range(40) if (run := one_run(seed, "calm", 700)).violation is not None)

    assert failed.violation is not None
    message_id = failed.violation.split()[0]
    lines = failed.story.splitlines()
    assert len(lines) <= MOST_LINES + 3
    assert any(message_id in line and "sends to" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "many"], "give a number, or two as 100:200"),
        (["--seeds", "5:3"], "at least one seed"),
        (["--seeds=-5:3"], "none below 0"),
        (["--steps", "0"], "0: give 1 or more"),
        (["--seeds", "1", "--trace"], "give --seed with it"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_give(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)

    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
