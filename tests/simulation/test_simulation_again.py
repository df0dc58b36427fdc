"""A seed gives the same run in every process, and a failed run prints the command to repeat the run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import __main__ as command
from tests.simulation.faults import MODES
from tests.simulation.runs import Run, one_run
from tests.simulation.service import Simulation, Violation
from tests.simulation.story import MOST_LINES
from tidewheel.storage.plans import Plans
from tidewheel.storage.tombstones import Tombstones

ROOT = Path(__file__).parents[2]
PLANTED = """
from tests.simulation.__main__ import main
from tidewheel.storage.tombstones import Tombstones

Tombstones.ids = lambda self, topic, first_slot, end_slot: frozenset()
raise SystemExit(main(["--seeds", "9", "--mode", "calm", "--steps", "700", "--jobs", "1"]))
"""
INTERRUPTED_SOON = """
import os, signal
from tests.simulation import runs
from tests.simulation.__main__ import main

add = runs.Figures.add

def added(figures, run):
    add(figures, run)
    os.killpg(0, signal.SIGINT)

runs.Figures.add = added
raise SystemExit(main(["--seeds", "50", "--mode", "calm", "--steps", "50", "--jobs", "2"]))
"""
"""Ctrl-C reaches all processes of the command, after its first run."""


def run(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Runs Python in another process."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    arguments = ("-m", "tests.simulation", "--seed", "3", "--mode", "faults", "--steps", "700", "--trace")

    first, second = (run(*arguments, hash_seed=each) for each in ("1", "2"))

    assert first.returncode == 0, first.stdout[-3000:] + first.stderr
    assert first.stdout.count("\n") > 500
    assert first.stdout == second.stdout


def test_the_command_that_a_failing_seed_prints_shows_the_same_failure() -> None:
    failed = run("-c", PLANTED)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    [again, *_] = [line for line in failed.stdout.splitlines() if line.startswith("again: ")]
    violation = failed.stdout.splitlines()[failed.stdout.splitlines().index(again) - 1]

    asked = again.partition("python -m tests.simulation ")[2].split()
    same = run(
        "-c", PLANTED.replace('["--seeds", "9", "--mode", "calm", "--steps", "700", "--jobs", "1"]', repr(asked))
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


def test_a_run_that_fails_raises_what_was_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plans, "commit", lambda *_: True)

    with pytest.raises(Violation):
        Simulation(seed=0, steps=300, mode=MODES["calm"]).run()


def test_the_command_adds_up_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "figures.json"

    code = command.main(["--seeds", "2:4", "--mode", "all", "--steps", "10", "--jobs", "1", "--json", str(document)])

    shown = capsys.readouterr().out
    assert code == 0
    assert "2 half_well, 2 timed, 2 timed_faults, 2 timed_half_well, 2 claims, " in shown and "2 narrow)" in shown
    assert "no promise was broken" in shown
    assert '"failed": 0' in document.read_text()


def test_every_failure_is_printed_with_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(seeds: range, modes: list[str], steps: int, jobs: int) -> Iterator[Run]:
        for seed in seeds:
            run = one_run(seed, modes[0], steps)
            yield replace(run, violation=f"{seed} broke", story=f"again: see {seed}\na step of {seed}")

    monkeypatch.setattr(command, "all_runs", failing)

    assert command.main(["--fresh", "7", "--mode", "calm", "--steps", "5"]) == 1

    shown = capsys.readouterr().out
    first, end = map(int, shown.split()[1].split(":"))
    assert end == first + 7
    for seed in range(first, end):
        assert f"seed {seed}, calm: {seed} broke\nagain: see {seed}\n" in shown
    assert shown.count("a step of ") == command.MOST_TRACES


def test_fresh_seeds_differ_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        command.main(["--fresh", "1", "--mode", "calm", "--steps", "5", "--jobs", "1"])

    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("seeds "))
    assert first != second


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "many"], "give a number, or two as 100:200"),
        (["--seeds", "0"], "at least one seed"),
        (["--seeds", "5:3"], "at least one seed"),
        (["--seeds", "-5"], "at least one seed"),
        (["--seeds=-5:3"], "none below 0"),
        (["--jobs", "0"], "0: give 1 or more"),
        (["--steps", "0"], "0: give 1 or more"),
        (["--seed", "1", "--save"], "leave them out with --seed"),
        (["--seed", "1", "--json", "figures.json"], "leave them out with --seed"),
        (["--seeds", "1", "--trace"], "give --seed with it"),
        (["--json", "/nonexistent/figures.json"], "No such file or directory"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_give(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)

    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_control_c_counts_the_runs_that_ended_and_saves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seeds: range, modes: list[str], steps: int, jobs: int) -> Iterator[Run]:
        yield one_run(seeds[0], modes[0], steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "all_runs", interrupted)
    document = tmp_path / "figures.json"

    code = command.main(["--seeds", "3", "--mode", "calm", "--steps", "50", "--json", str(document)])

    shown = capsys.readouterr().out
    assert code == 130
    assert "1 runs (1 calm)" in shown
    assert "stopped after 1 of 3 runs; nothing is saved" in shown
    assert not document.exists()


def test_control_c_ends_the_processes_in_silence_and_keeps_the_runs_that_ended() -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_SOON],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )

    assert process.returncode == 130
    assert "stopped after 1 of 50 runs" in process.stdout
    assert "Traceback" not in process.stderr


def test_control_c_during_one_run_ends_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Plans, "commit", interrupted)  # in the middle of a function

    assert command.main(["--seed", "1"]) == 130
    assert "stopped" in capsys.readouterr().out
