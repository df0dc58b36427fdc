"""The executable specification holds, and each of its guards is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation import protocol_model

SELDOM = frozenset(
    {
        *("open_cursor", "open_gen", "skip_order", "done_exists", "create_collected", "collect_order"),
        *("again_order", "purge_planned", "create_next_slot", "upsert_version"),
    }
)
"""Guards that a quick hunt does not find: `make test-nightly` hunts for all."""


def _run(*arguments: str) -> str:
    """Runs the specification as its users do. Returns the printed text."""
    command = [sys.executable, protocol_model.__file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout


def test_no_schedule_breaks_an_invariant() -> None:
    assert "no violation" in _run("--bound", "1", "--runs", "30", "--most", "20")


@pytest.mark.long
@pytest.mark.parametrize("guard", [each for each in protocol_model.GUARDS if each not in SELDOM])
def test_without_a_guard_an_invariant_breaks(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol_model, "MUTANT", None)
    *_, broken = protocol_model.hunt(guard, quick=True)
    assert broken


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_no_schedule_with_a_deviation_breaks_an_invariant() -> None:
    assert "no violation" in _run("--bound", "1", "--runs", "5000", "--most", "2000")


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_without_any_one_guard_an_invariant_breaks() -> None:
    guards = len(protocol_model.GUARDS)
    assert f"{guards} of {guards} guards: the mutant is caught" in _run("--all-mutants")
